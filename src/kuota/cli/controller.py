# SPDX-License-Identifier: Apache-2.0
"""`kuota controller`: runs in place of Kueue's controller, with Kueue's flags."""

from __future__ import annotations

from typing import Any

import click

from .amounts import Integer
from .idle_options import idle_options
from .plugins import load_plugins


@click.command("controller", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", default="", metavar="FILE", help="A configuration file of Kueue.")
@click.option("--feature-gates", default="", metavar="NAME=BOOL,…")
@click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help="The kubeconfig to use. The default is the ServiceAccount of the pod.",
)
@click.option(
    "--parts",
    default="",
    metavar="PART,…",
    help="The parts to run. The default is all but dashboard and history.",
)
@click.option(
    "--history-database",
    default="",
    envvar="KUOTA_HISTORY_DATABASE",
    metavar="FILE|URL",
    help="Where --parts=history stores what jobs used: a file, or postgresql://…",
)
@click.option(
    "--record-authors",
    is_flag=True,
    help="Let webhooks record who creates a job, and let --parts=history record that user.",
)
@click.option(
    "--plain-metrics", is_flag=True, help="Serve metrics without TLS; only on a loopback address."
)
@click.option(
    "--dashboard-address",
    default="",
    metavar="[HOST]:PORT",
    help="Where the part dashboard serves. The default is :8444.",
)
@click.option(
    "--dashboard-actions",
    is_flag=True,
    help="Let users hold workloads and stop queues in the dashboard, as far as permitted.",
)
@click.option(
    "--dashboard-proxy-ca",
    default="",
    metavar="FILE",
    help="Trust the user that an authenticating proxy with a client certificate of this CA names.",
)
@click.option(
    "--dashboard-proxy-names",
    default="",
    metavar="NAME,…",
    help="The common names of the certificates of such proxies. The default is any.",
)
@click.option(
    "--dcgm-exporter",
    multiple=True,
    metavar="URL",
    help="Read the utilization of GPUs from dcgm-exporters. All addresses of the host are read.",
)
@click.option(
    "--dcgm-prometheus",
    default="",
    metavar="URL",
    help="Read the utilization of GPUs from a Prometheus that scrapes dcgm-exporters.",
)
@click.option(
    "--dcgm-selector",
    default="",
    metavar="MATCHERS",
    help='The labels of the dcgm-exporters in that Prometheus, such as job="dcgm-exporter".',
)
@idle_options
@click.option("--zap-log-level", "log_level", default="", metavar="LEVEL")
@click.option("--zap-encoder", "log_encoder", default="", metavar="json|console")
@click.option(
    "--zap-devel",
    "log_devel",
    type=bool,
    default=False,
    is_flag=False,
    flag_value="true",
    help="Human-readable logs with all details.",
)
@click.option("--zap-stacktrace-level", hidden=True, expose_value=False)
@click.option("--zap-time-encoding", hidden=True, expose_value=False)
@click.option("-v", "--v", "verbosity", type=Integer(0), default=0, help="Log verbosity.")
def command(**options: Any) -> None:
    """Run the controller on a cluster, in place of Kueue.

    Accepts Kueue's configuration file and flags. The parts are core (Workloads, status of queues),
    scheduler (decisions), jobs (Jobs and their Workloads), webhooks, visibility, and dashboard. Of
    several replicas, the leader, which holds a Lease, runs the first three. All replicas run the
    others. The part history records what jobs used, in a process of its own.

    \b
    Examples:
      kuota controller --config config.yaml
      kuota controller --kubeconfig ~/.kube/config --parts core,scheduler,jobs -v 2
    """
    import os

    from kuota.controller.flags import Flags, InvalidSettings, settings
    from kuota.controller.process import run

    load_plugins()
    try:
        found = settings(Flags(**options), os.environ)
    except InvalidSettings as error:
        raise click.ClickException("\n".join(error.faults)) from None
    run(found)
