# SPDX-License-Identifier: Apache-2.0
"""`kuota describe`: an object in full, why it waits, and what has happened to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
import yaml

from kuota.api.base import Json, Key
from kuota.kube.errors import ApiError, NotFound
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    CORE_EVENTS,
    JOBS,
    LOCAL_QUEUES,
    NODES,
    PODS,
    WORKLOADS,
    Resource,
    key_of,
)
from kuota.view.conditions import condition, holds
from kuota.view.live import (
    age,
    asks,
    gets,
    owner,
    pod_why,
    preemptor_uid,
    queue_rows,
    state,
    way_out,
    why,
)
from kuota.view.plan import State
from kuota.view.words import several

from . import room
from .connect import FAILED, Choice, conduct, server_options
from .job_objects import JOB_NAME, workload_of
from .kinds import absent, named
from .listing import positions
from .output import one_line, show_table

if TYPE_CHECKING:
    from .session import Session

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@click.command("describe")
@click.argument("what", nargs=-1, required=True, metavar="KIND [NAME]... | KIND/NAME...")
@click.option("-l", "--selector", default="", metavar="LABELS", help="All with these labels.")
@server_options
def command(what: tuple[str, ...], selector: str, choice: Choice) -> None:
    """Tell all about objects; of Jobs and Workloads also why they wait.

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
    """The objects meant, and what is to be said of those that are not there."""
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
    for name, value in _head(obj, now):
        click.echo(f"{name + ':':<13}{value}")
    workload = await workload_of(session, resource, obj)
    if workload is not None:
        await _standing(session, workload, resource != WORKLOADS)
    elif resource == JOBS and not holds(obj, "Complete"):
        reason = await _pods_why(session, key_of(obj))
        if reason:
            click.echo(f"{'Why:':<13}{reason}")
    if resource == CLUSTER_QUEUES:
        _quotas(obj)
        await room.print_shortages(session, obj)
    if resource == NODES:
        await room.print_node(session, obj)
    for field in obj:
        if field not in ("apiVersion", "kind", "metadata", "status"):
            _section(field.capitalize(), obj[field])
    status = dict(obj.get("status") or {})
    conditions = status.pop("conditions", None) or []
    _section("Status", status)
    _conditions(conditions, now)
    await _events(session, obj, now)


def _head(obj: Json, now: datetime) -> Iterator[tuple[str, str]]:
    metadata = obj["metadata"]
    yield "Name", metadata["name"]
    if metadata.get("namespace"):
        yield "Namespace", metadata["namespace"]
    yield "Kind", f"{obj['kind']} ({obj['apiVersion']})"
    for field in ("labels", "annotations"):
        pairs = {k: v for k, v in (metadata.get(field) or {}).items() if k != _LAST_APPLIED}
        if pairs:
            inner = [f"{key}={value}" for key, value in sorted(pairs.items())]
            yield field.capitalize(), f"\n{'':<13}".join(inner)
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


async def _standing(session: Session, workload: Json, of_job: bool) -> None:
    """Where a workload stands, why it does not run, and what would help."""
    queue = await _cluster_queue(session, workload)
    spec = workload.get("spec") or {}
    waits = state(workload) in (State.WAITING, State.PREEMPTED)
    lines = [
        ("Workload", workload["metadata"]["name"] if of_job else ""),
        ("Queue", _queue_words(spec, queue)),
        ("Priority", _priority(spec)),
        ("Asks for", "" if gets(workload) else asks(workload)),
        ("State", _state_words(workload)),
        ("Position", await _position(session, workload, queue) if waits else ""),
        ("Gets", gets(workload)),
        ("Why", await _why(session, workload, queue)),
        ("Way out", way_out(workload) or await _queues_there(session, workload)),
    ]
    for name, value in lines:
        if value:
            click.echo(f"{name + ':':<13}{value}")


async def _cluster_queue(session: Session, workload: Json) -> Json | None:
    """The ClusterQueue that decides on the workload, None if there is none or it cannot be seen."""
    admission = (workload.get("status") or {}).get("admission") or {}
    name = str(admission.get("clusterQueue") or "")
    local = str((workload.get("spec") or {}).get("queueName") or "")
    try:
        if not name and local:
            key = Key(key_of(workload).namespace, local)
            found = await session.client.get(LOCAL_QUEUES, key)
            name = str(found["spec"].get("clusterQueue") or "")
        return await session.client.get(CLUSTER_QUEUES, Key("", name)) if name else None
    except ApiError:
        return None


async def _queues_there(session: Session, workload: Json) -> str:
    """What would help a workload whose queue is not there; "" where it is, or it waits no more."""
    local = str((workload.get("spec") or {}).get("queueName") or "")
    place = key_of(workload).namespace
    if not local or state(workload) is not State.WAITING:
        return ""
    try:
        listed = await session.client.list(LOCAL_QUEUES, place)
    except ApiError:
        return ""
    names = sorted(str(each["metadata"]["name"]) for each in listed.items)
    if local in names:
        return ""
    if not names:
        return f"create LocalQueue {local}, or name another queue: namespace {place} has none"
    there = f"are {several(names)}" if len(names) > 1 else f"is {names[0]}"
    return f"name another queue: in namespace {place} there {there}"


def _queue_words(spec: Json, queue: Json | None) -> str:
    local = str(spec.get("queueName") or "(none)")
    return f"{local}, of ClusterQueue {queue['metadata']['name']}" if queue else local


def _priority(spec: Json) -> str:
    named = (spec.get("priorityClassRef") or {}).get("name")
    amount = str(spec.get("priority") or 0)
    return f"{amount} ({named})" if named else amount


def _state_words(workload: Json) -> str:
    failed = (condition(workload, "Finished") or {}).get("reason") == "Failed"
    now = state(workload)
    return f"{now}, failed" if failed and now is State.FINISHED else str(now)


async def _position(session: Session, workload: Json, queue: Json | None) -> str:
    if queue is None:
        return ""
    places = await positions(session, [queue["metadata"]["name"]])
    key = key_of(workload)
    place = places.get((key.namespace, key.name), "")
    return f"{place} of {len(places)} that wait" if place else ""


async def _why(session: Session, workload: Json, queue: Json | None) -> str:
    """The workload's own words, and its queue's where that admits nothing."""
    kind, name = owner(workload)
    known: list[Json] = []
    if state(workload) is State.PREEMPTED and preemptor_uid(workload):
        known = await _workloads_seen(session, key_of(workload).namespace)
    words = why(workload, known)
    if kind == "Job" and state(workload) is State.ADMITTED:
        words = await _pods_why(session, Key(key_of(workload).namespace, name)) or words
    inactive = queue_rows([queue])[0].inactive if queue is not None else ""
    if queue is None or not inactive or state(workload) not in (State.WAITING, State.PREEMPTED):
        return words
    return f"{words}. ClusterQueue {queue['metadata']['name']}: {inactive}"


async def _workloads_seen(session: Session, namespace: str) -> list[Json]:
    """All Workloads, or those of the namespace for whom that is all they may see."""
    for place in (None, namespace):
        with suppress(ApiError):
            return (await session.client.list(WORKLOADS, place)).items
    return []


async def _pods_why(session: Session, job: Key) -> str:
    """What keeps the first pod that waits of a Job that may run, or else how its last one failed.

    "" where none waits and one runs.
    """
    try:
        listed = await session.client.list(
            PODS, job.namespace, label_selector=f"{JOB_NAME}={job.name}"
        )
    except ApiError:
        return ""
    by_phase: dict[str, list[Json]] = {}
    for each in sorted(listed.items, key=lambda each: str(each["metadata"]["creationTimestamp"])):
        by_phase.setdefault(str(each["status"].get("phase")), []).append(each)
    told = by_phase.get("Pending", [])
    if "Running" not in by_phase:
        told = [*told, *reversed(by_phase.get("Failed", []))]
    reasons = ((each["metadata"]["name"], pod_why(each)) for each in told)
    return next((f"pod {pod}: {reason}" for pod, reason in reasons if reason), "")


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


async def _events(session: Session, obj: Json, now: datetime) -> None:
    """What was reported of the object, the latest last. Events of others of its name are not."""
    uid = obj["metadata"]["uid"]
    key = key_of(obj)
    try:
        listed = await session.client.list(
            CORE_EVENTS,
            key.namespace or None,
            field_selector=f"involvedObject.name={key.name},involvedObject.kind={obj['kind']}",
        )
    except ApiError:
        return
    mine = [each for each in listed.items if each["involvedObject"].get("uid") in (uid, None, "")]
    if not mine:
        click.echo("Events:      none")
        return
    click.echo("Events:")
    rows = [_event(each, now) for each in sorted(mine, key=_when)]
    show_table(("  SEEN", "TYPE", "REASON", "FROM", "MESSAGE"), rows)


def _when(event: Json) -> str:
    """When the event was seen last. A single event has that time to the microsecond."""
    series = (event.get("series") or {}).get("lastObservedTime")
    once = int(event.get("count") or 1) == 1
    stamp = series or (once and event.get("eventTime")) or event.get("lastTimestamp")
    return str(stamp or event["metadata"].get("creationTimestamp") or "")


def _event(event: Json, now: datetime) -> list[str]:
    count = int((event.get("series") or {}).get("count") or event.get("count") or 1)
    source = event.get("reportingComponent") or (event.get("source") or {}).get("component") or ""
    times = f" (x{count})" if count > 1 else ""
    return [
        f"  {age(_when(event), now)}{times}",
        str(event.get("type") or ""),
        str(event.get("reason") or ""),
        str(source),
        one_line(event.get("message") or ""),
    ]
