# SPDX-License-Identifier: Apache-2.0
"""`kuota stop`: no more admissions by a queue, or no more running of a workload."""

from __future__ import annotations

import click

from .connect import Choice, server_options
from .groups import KindGroup
from .queue_state import DRAIN, HOLD, set_field

_KEEP = click.option(
    "--keep-already-running", "keep", is_flag=True, help="Let what was admitted run to its end."
)
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Ask the server, and change nothing.")
_NAMES = click.argument("names", nargs=-1, required=True, metavar="NAME...")


@click.group("stop", cls=KindGroup)
def command() -> None:
    """Stop queues or workloads; `kuota resume` lets them go on."""


@command.command("clusterqueue")
@_NAMES
@_KEEP
@_DRY_RUN
@server_options
def cluster_queue(names: tuple[str, ...], keep: bool, dry_run: bool, choice: Choice) -> None:
    """Admit nothing more, and evict what runs unless told to keep it."""
    _stop(choice, "clusterqueues", names, keep, dry_run)


@command.command("localqueue")
@_NAMES
@_KEEP
@_DRY_RUN
@server_options
def local_queue(names: tuple[str, ...], keep: bool, dry_run: bool, choice: Choice) -> None:
    """Admit nothing more from it, and evict what runs unless told to keep it."""
    _stop(choice, "localqueues", names, keep, dry_run)


@command.command("workload")
@_NAMES
@_DRY_RUN
@server_options
def workload(names: tuple[str, ...], dry_run: bool, choice: Choice) -> None:
    """Deactivate workloads: those that run are evicted, and none is admitted."""
    set_field(choice, "workloads", names, {"active": False}, "stopped", dry_run)


def _stop(choice: Choice, plural: str, names: tuple[str, ...], keep: bool, dry_run: bool) -> None:
    policy = HOLD if keep else DRAIN
    set_field(choice, plural, names, {"stopPolicy": policy}, f"stopped ({policy})", dry_run)
