# SPDX-License-Identifier: Apache-2.0
"""`kuota stop` and `kuota resume`: stop and resume queues and workloads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kuota.api.base import Json
from kuota.kube.errors import ApiError, NotFound
from kuota.kube.resources import WORKLOADS, Resource

from .connect import FAILED, Choice, conduct, server_options
from .groups import KindGroup
from .kinds import NAMES, absent, workloads_of
from .output import name_text
from .own_namespaces import refusal

if TYPE_CHECKING:
    from .session import Session

_DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Validate on the server without changing anything."
)
_EXAMPLES = {"workload": "job-train-1b2c3", "job": "train"}
"""Names of objects in the help. Queues are named after teams."""
_NAMES = click.argument("names", nargs=-1, required=True, metavar="NAME...")


@click.group("stop", cls=KindGroup)
def command() -> None:
    """Stop queues, workloads or jobs; `kuota resume` resumes them."""


@click.group("resume", cls=KindGroup)
def resume() -> None:
    """Resume stopped queues, workloads or jobs."""


def _help(words: str, example: str) -> str:
    return f"{words}\n\n\b\nExample:\n  {example}"


def _stops(kind: str, words: str) -> None:
    """Adds the command that stops queues of a kind."""

    @command.command(kind, help=_help(words, f"kuota stop {kind} team-a --keep-already-running"))
    @_NAMES
    @click.option(
        "--keep-already-running",
        "keep",
        is_flag=True,
        help="Let admitted workloads run to their end.",
    )
    @_DRY_RUN
    @server_options
    def stop(names: tuple[str, ...], keep: bool, dry_run: bool, choice: Choice) -> None:
        policy = "Hold" if keep else "HoldAndDrain"
        _set_all(choice, kind, names, {"stopPolicy": policy}, f"stopped ({policy})", dry_run)


def _sets(group: click.Group, kind: str, field: Json, word: str, words: str) -> None:
    """Adds a command that sets one field and prints `word` for each object."""
    name = _EXAMPLES.get(kind, "team-a")

    @group.command(kind, help=_help(words, f"kuota {group.name} {kind} {name}"))
    @_NAMES
    @_DRY_RUN
    @server_options
    def set_field(names: tuple[str, ...], dry_run: bool, choice: Choice) -> None:
        _set_all(choice, kind, names, field, word, dry_run)


_stops("clusterqueue", "Stop admitting workloads, and evict admitted ones by default.")
_stops(
    "localqueue", "Stop admitting workloads of the LocalQueue, and evict admitted ones by default."
)
_sets(
    command,
    "workload",
    {"active": False},
    "stopped",
    "Deactivate workloads. Admitted ones are evicted.",
)
_sets(
    command,
    "job",
    {"active": False},
    "stopped",
    "Deactivate the workloads of jobs. Admitted ones are evicted.",
)
_sets(resume, "job", {"active": True}, "resumed", "Queue the deactivated workloads of jobs again.")
_sets(resume, "clusterqueue", {"stopPolicy": "None"}, "resumed", "Admit workloads again.")
_sets(
    resume,
    "localqueue",
    {"stopPolicy": "None"},
    "resumed",
    "Admit workloads from the LocalQueue again.",
)
_sets(resume, "workload", {"active": True}, "resumed", "Queue deactivated workloads again.")


def _set_all(
    choice: Choice, kind: str, names: Sequence[str], field: Json, word: str, dry_run: bool
) -> None:
    """Set fields in the spec of each object, print `word` for each, and exit the process."""

    async def work(session: Session) -> int:
        failed = False
        for name in names:
            if kind == "job":
                changed = await _set_of_job(session, name, field, word, dry_run)
            else:
                changed = await _set(session, NAMES[kind], name, field, word, dry_run)
            failed = failed or not changed
        return FAILED if failed else 0

    conduct(choice, work)


async def _set_of_job(session: Session, job: str, field: Json, word: str, dry_run: bool) -> bool:
    """Set fields of the unfinished Workloads of a job of any kind."""
    try:
        found = await workloads_of(session, job)
    except ApiError as error:
        click.echo(f"Error: {await refusal(session, error)}", err=True)
        return False
    if not found:
        where = f"in namespace {session.namespace}"
        click.echo(f"Error: no job {job} {where} is waiting or running; see `kuota list`", err=True)
    results = [await _set(session, WORKLOADS, each, field, word, dry_run) for each in found]
    return bool(results) and all(results)


async def _set(
    session: Session, resource: Resource, name: str, field: Json, word: str, dry_run: bool
) -> bool:
    try:
        obj = await session.client.patch(
            resource, session.key(resource, name), {"spec": field}, dry_run=dry_run
        )
    except NotFound as error:
        click.echo(f"Error: {await absent(session, resource, name, error)}", err=True)
        return False
    except ApiError as error:
        click.echo(f"Error: {await refusal(session, error)}", err=True)
        return False
    click.echo(f"{name_text(resource, obj)} {word}{' (dry run)' if dry_run else ''}")
    return True
