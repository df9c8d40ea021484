# SPDX-License-Identifier: Apache-2.0
"""`kuota resume`: let stopped queues and workloads go on."""

from __future__ import annotations

import click

from .connect import Choice, server_options
from .groups import KindGroup
from .queue_state import NONE, set_field

_DRY_RUN = click.option("--dry-run", is_flag=True, help="Ask the server, and change nothing.")
_NAMES = click.argument("names", nargs=-1, required=True, metavar="NAME...")


@click.group("resume", cls=KindGroup)
def command() -> None:
    """Let stopped queues or workloads go on."""


@command.command("clusterqueue")
@_NAMES
@_DRY_RUN
@server_options
def cluster_queue(names: tuple[str, ...], dry_run: bool, choice: Choice) -> None:
    """Admit workloads again."""
    set_field(choice, "clusterqueues", names, {"stopPolicy": NONE}, "resumed", dry_run)


@command.command("localqueue")
@_NAMES
@_DRY_RUN
@server_options
def local_queue(names: tuple[str, ...], dry_run: bool, choice: Choice) -> None:
    """Admit workloads from it again."""
    set_field(choice, "localqueues", names, {"stopPolicy": NONE}, "resumed", dry_run)


@command.command("workload")
@_NAMES
@_DRY_RUN
@server_options
def workload(names: tuple[str, ...], dry_run: bool, choice: Choice) -> None:
    """Let workloads queue again."""
    set_field(choice, "workloads", names, {"active": True}, "resumed", dry_run)
