# SPDX-License-Identifier: Apache-2.0
"""`kuota uninstall`: take the controller out of a cluster, and everybody's queues if so wished."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .connect import Choice, conduct, server_options

if TYPE_CHECKING:
    from .session import Session


@click.command("uninstall")
@click.option(
    "--keep-crds",
    is_flag=True,
    help="Leave definitions and namespace, and so every queue and workload, to whoever comes next.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask before queues and workloads go.")
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, min_open=True),
    default=180.0,
    show_default=True,
    metavar="SECONDS",
    help="Wait no longer for the end of anything.",
)
@server_options
def command(keep_crds: bool, yes: bool, dry_run: bool, timeout_s: float, choice: Choice) -> None:
    """Take the controller, and all that was installed with it, out of a cluster.

    Webhooks go first, so that nobody is held up. Jobs that run go on; those that wait stay
    suspended. Without --keep-crds every ClusterQueue, Workload and so on goes too.
    """

    async def work(session: Session) -> int:
        from kuota.install.settings import NAMESPACE, Settings

        from .uninstalling import Uninstalling

        settings = Settings(namespace=choice.namespace or NAMESPACE, service_monitor=True)
        uninstalling = Uninstalling(session, settings, keep=keep_crds, dry_run=dry_run)
        return await uninstalling.run(asked=yes, timeout_s=timeout_s)

    conduct(choice, work)
