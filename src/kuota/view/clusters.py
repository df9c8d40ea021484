# SPDX-License-Identifier: Apache-2.0
"""What `kuota cluster list` shows about worker clusters. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kuota.api.base import Json
from kuota.api.quantity import Format, QuantityError, canonical, format_of, parse
from kuota.api.rules.report import child, elements, mapping, text

from .conditions import holds

UNKNOWN = "-"


class ClusterRow(NamedTuple):
    """One MultiKueueCluster. `free` is what its queues have left, per resource."""

    name: str
    state: str
    running: int
    free: str
    message: str


def cluster_row(
    cluster: Json, workloads: Iterable[Json], queues: Iterable[Json] | None
) -> ClusterRow:
    """Return the row of a cluster. `queues` are its ClusterQueues; None if they are unknown."""
    name = text(cluster["metadata"].get("name"))
    found = _condition(cluster, "Active")
    state = "connected" if text(found.get("status")) == "True" else "not connected"
    if not found:
        state = "unknown"
    running = sum(runs_in(each, name) for each in workloads)
    free = UNKNOWN if queues is None else _free(queues)
    message = "" if state == "connected" else text(found.get("message"))
    conflict = _condition(cluster, "OriginConflict")
    if text(conflict.get("status")) == "True":
        message = "; ".join(filter(None, [message, text(conflict.get("message"))]))
    return ClusterRow(name, state, running, free, message)


def runs_in(workload: Json, cluster: str) -> bool:
    """Whether a Workload of the manager was dispatched to a cluster and has not finished."""
    there = text(child(workload, "status").get("clusterName")) == cluster
    return there and not holds(workload, "Finished")


def _condition(cluster: Json, type_: str) -> Json:
    conditions = elements(child(cluster, "status").get("conditions"))
    return next((mapping(c) for c in conditions if mapping(c).get("type") == type_), {})


def _free(queues: Iterable[Json]) -> str:
    left: dict[str, int] = {}
    forms: dict[str, Format] = {}
    for queue in queues:
        for name, quantity in _nominal(queue):
            left[name] = left.get(name, 0) + parse(quantity)
            forms.setdefault(name, format_of(quantity))
        for name, quantity in _used(queue):
            left[name] = left.get(name, 0) - parse(quantity)
            forms.setdefault(name, format_of(quantity))
    words = [f"{name} {canonical(max(0, left[name]), forms[name])}" for name in sorted(left)]
    return ", ".join(words) or "none"


def _nominal(queue: Json) -> Iterable[tuple[str, str]]:
    for group in elements(child(queue, "spec").get("resourceGroups")):
        for flavor in elements(mapping(group).get("flavors")):
            for each in elements(mapping(flavor).get("resources")):
                yield from _readable(mapping(each), "nominalQuota")


def _used(queue: Json) -> Iterable[tuple[str, str]]:
    for flavor in elements(child(queue, "status").get("flavorsReservation")):
        for each in elements(mapping(flavor).get("resources")):
            yield from _readable(mapping(each), "total")


def _readable(entry: Json, field: str) -> Iterable[tuple[str, str]]:
    """Yield the resource and its quantity, unless the quantity is malformed."""
    value = entry.get(field)
    try:
        parse(str(value))
    except QuantityError:
        return
    yield text(entry.get("name")), str(value)
