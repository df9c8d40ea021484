# SPDX-License-Identifier: Apache-2.0
"""`kuota controller`: take Kueue's place on a cluster, with Kueue's flags."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import click

if TYPE_CHECKING:
    from kuota.controller.flags import Flags


@click.command("controller", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", default="", metavar="FILE", help="Kueue's configuration file.")
@click.option("--feature-gates", default="", metavar="NAME=BOOL,…")
@click.option("--kubeconfig", default="", metavar="FILE", help="Else this pod's.")
@click.option("--parts", default="", metavar="PART,…", help="Run only these: see above.")
@click.option("--plain-metrics", is_flag=True, help="No TLS; only on a loopback address.")
@click.option("--zap-log-level", default="", metavar="LEVEL")
@click.option("--zap-encoder", default="", metavar="json|console")
@click.option(
    "--zap-devel",
    type=bool,
    default=False,
    is_flag=False,
    flag_value="true",
    help="Logs for people, with every detail.",
)
@click.option("--zap-stacktrace-level", hidden=True, expose_value=False)
@click.option("--zap-time-encoding", hidden=True, expose_value=False)
@click.option("-v", "--v", "verbosity", type=click.IntRange(0), default=0, help="Verbosity.")
def command(
    config: str,
    feature_gates: str,
    kubeconfig: str,
    parts: str,
    plain_metrics: bool,
    zap_log_level: str,
    zap_encoder: str,
    zap_devel: bool,
    verbosity: int,
) -> None:
    """Take Kueue's place on a cluster.

    Reads Kueue's configuration file and obeys its flags. Runs all parts unless told otherwise:
    core (Workloads, status of queues), scheduler (decisions), jobs (Jobs and their Workloads),
    webhooks and visibility. Of several processes one leads, by a Lease, and runs the first three;
    all of them answer webhooks.
    """
    from kuota.controller.flags import Flags

    _run(
        Flags(
            config=config,
            feature_gates=feature_gates,
            kubeconfig=kubeconfig,
            parts=parts,
            plain_metrics=plain_metrics,
            log_level=zap_log_level,
            log_encoder=zap_encoder,
            log_devel=zap_devel,
            verbosity=verbosity,
        )
    )


def _run(flags: Flags) -> NoReturn:
    import os

    from kuota.controller.flags import Refused, settings
    from kuota.controller.process import run

    try:
        found = settings(flags, os.environ)
    except Refused as error:
        raise click.ClickException("\n".join(error.faults)) from None
    run(found)
