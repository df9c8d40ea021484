# SPDX-License-Identifier: Apache-2.0
"""`kuota stop` and `kuota resume`: the one field of a queue or workload that holds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from .connect import FAILED, Choice, conduct, refusal, server_options
from .groups import KindGroup

if TYPE_CHECKING:
    from kuota.api.base import Json
    from kuota.kube.resources import Resource

    from .session import Session

_HOLD, _DRAIN, _NONE = "Hold", "HoldAndDrain", "None"
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
def stop_cluster_queue(names: tuple[str, ...], keep: bool, dry_run: bool, choice: Choice) -> None:
    """Admit nothing more, and evict what runs unless told to keep it."""
    _stop(choice, "clusterqueues", names, keep, dry_run)


@command.command("localqueue")
@_NAMES
@_KEEP
@_DRY_RUN
@server_options
def stop_local_queue(names: tuple[str, ...], keep: bool, dry_run: bool, choice: Choice) -> None:
    """Admit nothing more from it, and evict what runs unless told to keep it."""
    _stop(choice, "localqueues", names, keep, dry_run)


@command.command("workload")
@_NAMES
@_DRY_RUN
@server_options
def stop_workload(names: tuple[str, ...], dry_run: bool, choice: Choice) -> None:
    """Deactivate workloads: those that run are evicted, and none is admitted."""
    _set_all(choice, "workloads", names, {"active": False}, "stopped", dry_run)


def _stop(choice: Choice, plural: str, names: tuple[str, ...], keep: bool, dry_run: bool) -> None:
    policy = _HOLD if keep else _DRAIN
    _set_all(choice, plural, names, {"stopPolicy": policy}, f"stopped ({policy})", dry_run)


@click.group("resume", cls=KindGroup)
def resume() -> None:
    """Let stopped queues or workloads go on."""


@resume.command("clusterqueue")
@_NAMES
@_DRY_RUN
@server_options
def resume_cluster_queue(names: tuple[str, ...], dry_run: bool, choice: Choice) -> None:
    """Admit workloads again."""
    _set_all(choice, "clusterqueues", names, {"stopPolicy": _NONE}, "resumed", dry_run)


@resume.command("localqueue")
@_NAMES
@_DRY_RUN
@server_options
def resume_local_queue(names: tuple[str, ...], dry_run: bool, choice: Choice) -> None:
    """Admit workloads from it again."""
    _set_all(choice, "localqueues", names, {"stopPolicy": _NONE}, "resumed", dry_run)


@resume.command("workload")
@_NAMES
@_DRY_RUN
@server_options
def resume_workload(names: tuple[str, ...], dry_run: bool, choice: Choice) -> None:
    """Let workloads queue again."""
    _set_all(choice, "workloads", names, {"active": True}, "resumed", dry_run)


def _set_all(
    choice: Choice, plural: str, names: Sequence[str], field: Json, word: str, dry_run: bool
) -> None:
    """Set fields of the spec of each object, and say `word` of it; ends the command."""

    async def work(session: Session) -> int:
        from .kinds import NAMES

        resource = NAMES[plural]
        failures = [
            each for each in names if not await _set(session, resource, each, field, word, dry_run)
        ]
        return FAILED if failures else 0

    conduct(choice, work)


async def _set(
    session: Session, resource: Resource, name: str, field: Json, word: str, dry_run: bool
) -> bool:
    from kuota.kube.errors import ApiError, NotFound

    from .kinds import absent
    from .output import name_text

    try:
        obj = await session.client.patch(
            resource, session.key(resource, name), {"spec": field}, dry_run=dry_run
        )
    except NotFound as error:
        click.echo(f"Error: {await absent(session, resource, name, error)}", err=True)
        return False
    except ApiError as error:
        click.echo(f"Error: {refusal(error)}", err=True)
        return False
    click.echo(f"{name_text(resource, obj)} {word}{' (dry run)' if dry_run else ''}")
    return True
