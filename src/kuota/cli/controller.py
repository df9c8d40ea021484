# SPDX-License-Identifier: Apache-2.0
"""`kuota controller`: runs in place of Kueue's controller, with Kueue's flags."""

from __future__ import annotations

from typing import Any

import click


@click.command("controller", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", default="", metavar="FILE", help="Kueue's configuration file.")
@click.option("--feature-gates", default="", metavar="NAME=BOOL,…")
@click.option("--kubeconfig", default="", metavar="FILE", help="Else this pod's.")
@click.option("--parts", default="", metavar="PART,…", help="Run only these: see above.")
@click.option("--plain-metrics", is_flag=True, help="No TLS; only on a loopback address.")
@click.option("--zap-log-level", "log_level", default="", metavar="LEVEL")
@click.option("--zap-encoder", "log_encoder", default="", metavar="json|console")
@click.option(
    "--zap-devel",
    "log_devel",
    type=bool,
    default=False,
    is_flag=False,
    flag_value="true",
    help="Logs for people, with every detail.",
)
@click.option("--zap-stacktrace-level", hidden=True, expose_value=False)
@click.option("--zap-time-encoding", hidden=True, expose_value=False)
@click.option("-v", "--v", "verbosity", type=click.IntRange(0), default=0, help="Verbosity.")
def command(**options: Any) -> None:
    """Take Kueue's place on a cluster.

    Reads Kueue's configuration file and obeys its flags. Runs all parts unless told otherwise:
    core (Workloads, status of queues), scheduler (decisions), jobs (Jobs and their Workloads),
    webhooks and visibility. Of several processes one leads, by a Lease, and runs the first three;
    all of them answer webhooks.
    """
    import os

    from kuota.controller.flags import Flags, Refused, settings
    from kuota.controller.process import run

    try:
        found = settings(Flags(**options), os.environ)
    except Refused as error:
        raise click.ClickException("\n".join(error.faults)) from None
    run(found)
