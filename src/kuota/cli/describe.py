# SPDX-License-Identifier: Apache-2.0
"""`kuota describe`: prints an object in detail, with its state, the cause, and its events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
import yaml

from kuota.api.base import Json
from kuota.kube.errors import ApiError, NotFound
from kuota.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    CORE_EVENTS,
    JOBS,
    NODES,
    WORKLOADS,
    Resource,
    key_of,
)
from kuota.view.conditions import holds
from kuota.view.events import about, occurred, occurrences, source
from kuota.view.live import age, queue_rows
from kuota.view.workload_state import owner

from . import check_report, room
from .connect import FAILED, Choice, conduct, server_options
from .job_objects import workload_of
from .kinds import absent, named
from .output import one_line, show_field, show_table
from .workload_report import pods_why, print_workload

if TYPE_CHECKING:
    from .session import Session

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@click.command("describe")
@click.argument("what", nargs=-1, required=True, metavar="KIND [NAME]... | KIND/NAME...")
@click.option("-l", "--selector", default="", metavar="LABELS", help="Label selector.")
@server_options
def command(what: tuple[str, ...], selector: str, choice: Choice) -> None:
    """Show objects in detail; for Jobs and Workloads also their state and why they wait.

    \b
    Examples:
      kuota describe job train
      kuota describe workload/job-train-1b2c3
      kuota describe cq team-a
    """

    async def work(session: Session) -> int:
        found, missing = await objects_of(session, what, selector)
        for number, (resource, obj) in enumerate(found):
            if number:
                click.echo("\n")
            await printed(session, resource, obj)
        for each in missing:
            click.echo(f"Error: {each}", err=True)
        if not found and not missing:
            click.echo("Nothing found.", err=True)
        return FAILED if missing else 0

    conduct(choice, work)


async def objects_of(
    session: Session, what: Sequence[str], labels: str
) -> tuple[list[tuple[Resource, Json]], list[str]]:
    """Return the named objects, and an error message for each that does not exist."""
    found: list[tuple[Resource, Json]] = []
    missing: list[str] = []
    for resource, names in await named(session, what):
        if not names:
            inside = session.namespace if resource.namespaced else None
            listed = await session.client.list(resource, inside, label_selector=labels)
            found += [(resource, each) for each in listed.items]
        for name in names:
            try:
                obj = await session.client.get(resource, session.key(resource, name))
            except NotFound as error:
                missing.append(await absent(session, resource, name, error))
            else:
                found.append((resource, obj))
    return found, missing


async def printed(session: Session, resource: Resource, obj: Json) -> None:
    now = datetime.now(UTC)
    events = await _events_of(session, obj)
    for name, *values in _head(obj, now):
        show_field(name, *values)
    workload = await workload_of(session, resource, obj)
    if workload is not None:
        await print_workload(session, workload, of_job=resource != WORKLOADS)
    else:
        reason = await _why_without_workload(session, resource, obj, events)
        if reason:
            show_field("Why", reason)
    if resource == CLUSTER_QUEUES:
        _quotas(obj)
        await check_report.print_checks(session, obj)
        await room.print_shortages(session, obj)
    if resource == ADMISSION_CHECKS:
        check_report.print_check(obj)
    if resource == NODES:
        await room.print_node(session, obj)
    for field in obj:
        if field not in ("apiVersion", "kind", "metadata", "status"):
            _section(field.capitalize(), obj[field])
    status = dict(obj.get("status") or {})
    conditions = status.pop("conditions", None) or []
    _section("Status", status)
    _conditions(conditions, now)
    _events(events, now)


async def _why_without_workload(
    session: Session, resource: Resource, obj: Json, events: Sequence[Json] | None
) -> str:
    """Return why the pods of a Job do not run, or what prevents the Workload of a job or Pod."""
    spec = obj.get("spec") or {}
    if (spec.get("runPolicy") or spec).get("suspend") or spec.get("schedulingGates"):
        last = events[-1] if events else {}
        prevented = last.get("type") == "Warning"
        return f"it has no Workload: {one_line(last.get('message') or '')}" if prevented else ""
    if resource == JOBS and not holds(obj, "Complete"):
        return await pods_why(session, key_of(obj))
    return ""


def _head(obj: Json, now: datetime) -> Iterator[tuple[str, ...]]:
    """Yield the fields of the metadata, each with its values."""
    metadata = obj["metadata"]
    yield "Name", metadata["name"]
    if metadata.get("namespace"):
        yield "Namespace", metadata["namespace"]
    yield "Kind", f"{obj['kind']} ({obj['apiVersion']})"
    for field in ("labels", "annotations"):
        pairs = {k: v for k, v in (metadata.get(field) or {}).items() if k != _LAST_APPLIED}
        if pairs:
            yield field.capitalize(), *(f"{key}={value}" for key, value in sorted(pairs.items()))
    kind, name = owner(obj)
    if name:
        yield "Belongs to", f"{kind} {name}"
    yield (
        "Created",
        f"{metadata.get('creationTimestamp')} ({age(metadata.get('creationTimestamp'), now)} ago)",
    )
    if metadata.get("deletionTimestamp"):
        waits = ", ".join(metadata.get("finalizers") or ()) or "nothing"
        yield "Deleted", f"{metadata['deletionTimestamp']}; waits for {waits}"


def _quotas(queue: Json) -> None:
    row = queue_rows([queue])[0]
    if row.inactive:
        click.echo(f"{'Inactive:':<13}{row.inactive}")
    if row.quotas:
        click.echo("Quota:")
        header = ("  FLAVOR", "RESOURCE", "NOMINAL", "USED", "BORROWED")
        cells = [
            [f"  {each.flavor}", each.resource, each.nominal, each.used, each.borrowed or "0"]
            for each in row.quotas
        ]
        show_table(header, cells)


def _section(title: str, value: object) -> None:
    if not value:
        return
    words = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)
    click.echo(f"{title}:")
    for line in words.splitlines():
        click.echo(f"  {line}")


def _conditions(conditions: Sequence[Json], now: datetime) -> None:
    if not conditions:
        return
    rows = [
        [
            f"  {each.get('type')}",
            str(each.get("status")),
            str(each.get("reason") or ""),
            age(each.get("lastTransitionTime"), now),
            one_line(each.get("message") or ""),
        ]
        for each in conditions
    ]
    click.echo("Conditions:")
    show_table(("  TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"), rows)


async def _events_of(session: Session, obj: Json) -> list[Json] | None:
    """Return the events of the object, latest last; None if they cannot be read."""
    key = key_of(obj)
    try:
        listed = await session.client.list(
            CORE_EVENTS,
            key.namespace or None,
            field_selector=f"involvedObject.name={key.name},involvedObject.kind={obj['kind']}",
        )
    except ApiError:
        return None
    return about(listed.items, obj)


def _events(events: Sequence[Json] | None, now: datetime) -> None:
    if events is None:
        return
    if not events:
        click.echo("Events:      none")
        return
    click.echo("Events:")
    rows = [_event(each, now) for each in events]
    show_table(("  SEEN", "TYPE", "REASON", "FROM", "MESSAGE"), rows)


def _event(event: Json, now: datetime) -> list[str]:
    count = occurrences(event)
    times = f" (x{count})" if count > 1 else ""
    return [
        f"  {age(occurred(event), now)}{times}",
        str(event.get("type") or ""),
        str(event.get("reason") or ""),
        source(event),
        one_line(event.get("message") or ""),
    ]
