# SPDX-License-Identifier: Apache-2.0
"""All that is known of one object, in the order in which people ask: what, why, then the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import click
import yaml

from kuota.api.base import Json
from kuota.kube.errors import ApiError, NotFound
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    CORE_EVENTS,
    JOBS,
    WORKLOADS,
    Resource,
    key_of,
)
from kuota.view.live import age, gets, owner, queue_rows, state, why

from . import columns
from .job_follow import owners
from .kinds import named
from .session import Session

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


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
                missing.append(error.message)
            else:
                found.append((resource, obj))
    return found, missing


async def printed(session: Session, resource: Resource, obj: Json) -> None:
    now = datetime.now(UTC)
    for name, value in _head(obj, now):
        click.echo(f"{name + ':':<13}{value}")
    workload = await _workload(session, resource, obj)
    if workload is not None:
        _standing(workload, resource != WORKLOADS)
    if resource == CLUSTER_QUEUES:
        _quotas(obj)
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


async def _workload(session: Session, resource: Resource, obj: Json) -> Json | None:
    """The workload that the object is or has, if any."""
    if resource == WORKLOADS:
        return obj
    if resource != JOBS and "kueue.x-k8s.io/queue-name" not in (
        obj["metadata"].get("labels") or {}
    ):
        return None
    try:
        listed = await session.client.list(WORKLOADS, obj["metadata"].get("namespace"))
    except ApiError:
        return None
    mine = [each for each in listed.items if obj["metadata"]["uid"] in owners(each)]
    return mine[-1] if mine else None


def _standing(workload: Json, of_job: bool) -> None:
    """Where a workload stands, and why it does not run."""
    if of_job:
        click.echo(f"{'Workload:':<13}{workload['metadata']['name']}")
    click.echo(f"{'Queue:':<13}{(workload.get('spec') or {}).get('queueName') or '(none)'}")
    click.echo(f"{'State:':<13}{state(workload)}")
    given, reason = gets(workload), why(workload)
    if given:
        click.echo(f"{'Gets:':<13}{given}")
    if reason:
        click.echo(f"{'Why:':<13}{reason}")


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
        columns.show(header, cells)


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
            columns.cell(each.get("message") or ""),
        ]
        for each in conditions
    ]
    click.echo("Conditions:")
    columns.show(("  TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"), rows)


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
    columns.show(("  SEEN", "TYPE", "REASON", "FROM", "MESSAGE"), rows)


def _when(event: Json) -> str:
    series = (event.get("series") or {}).get("lastObservedTime")
    stamp = event.get("lastTimestamp") or series or event.get("eventTime")
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
        columns.cell(event.get("message") or ""),
    ]
