# SPDX-License-Identifier: Apache-2.0
"""Short builders of engine values: `queue("a", gpu=8, cohort="eng")`, `job("j", gpu=2)`.

Quotas are given by resource, `gpu=8`, or by flavor and resource, `{"spot/gpu": 4}`; a resource
without a flavor is of flavor "default". Limits go along: `gpu=Quota(8, borrowing_limit=2)`.
Amounts are the engine's own units, and requests are those of one pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from kuota.api.base import Key, LabelSelector
from kuota.engine.amounts import FlavorResource
from kuota.engine.model import (
    ClusterQueue,
    Cohort,
    Fungibility,
    Instant,
    LocalQueue,
    Namespace,
    PodSet,
    PodSetReservation,
    Preemption,
    Quota,
    Reservation,
    ResourceFlavor,
    ResourceGroup,
    Workload,
)

NAMESPACE = "default"
FLAVOR = "default"

Quotas: TypeAlias = Mapping[str, int | Quota]

_FUNGIBILITY = frozenset(Fungibility.__struct_fields__)
_PREEMPTION = {
    "within": "within_cluster_queue",
    "reclaim": "reclaim_within_cohort",
    "borrow": "borrow_within_cohort",
    "threshold": "borrow_max_priority",
}
_OF_QUEUE = frozenset(ClusterQueue.__struct_fields__) - {"name", "groups"}
_OF_WORKLOAD = frozenset(Workload.__struct_fields__) - {"key", "pod_sets"}


def key(name: str, namespace: str = NAMESPACE) -> Key:
    return Key(namespace, name)


def column(text: str) -> FlavorResource:
    """`gpu` of the flavor "default", or `spot/gpu`."""
    return FlavorResource.parse(text) if "/" in text else FlavorResource(FLAVOR, text)


def groups(quotas: Quotas) -> tuple[ResourceGroup, ...]:
    """Resource groups with these quotas: resources of the same flavors, in order, are together."""
    flavors: dict[str, list[str]] = {}
    table: dict[FlavorResource, Quota] = {}
    for text, given in quotas.items():
        at = column(text)
        flavors.setdefault(at.resource, []).append(at.flavor)
        table[at] = given if isinstance(given, Quota) else Quota(given)
    together: dict[tuple[str, ...], list[str]] = {}
    for resource, names in flavors.items():
        together.setdefault(tuple(names), []).append(resource)
    return tuple(
        ResourceGroup(
            resources=tuple(resources),
            flavors=names,
            quotas={
                c: q for c, q in table.items() if c.flavor in names and c.resource in resources
            },
        )
        for names, resources in together.items()
    )


def queue(name: str, quotas: Quotas | None = None, **given: Any) -> ClusterQueue:
    """A ClusterQueue open to all namespaces.

    Besides its own fields it takes those of Fungibility, `within`, `reclaim`, `borrow` and
    `threshold` for preemption; whatever else is named is a resource with its quota.
    """
    rules = {_PREEMPTION[k]: given.pop(k) for k in _PREEMPTION if k in given}
    scan = {k: given.pop(k) for k in _FUNGIBILITY if k in given}
    fields = {k: given.pop(k) for k in _OF_QUEUE if k in given}
    fields.setdefault("namespace_selector", LabelSelector())
    return ClusterQueue(
        name=name,
        groups=groups({**(quotas or {}), **given}),
        preemption=Preemption(**rules),
        fungibility=Fungibility(**scan),
        **fields,
    )


def cohort(
    name: str, quotas: Quotas | None = None, *, parent: str = "", weight: float = 1.0, **given: int
) -> Cohort:
    return Cohort(
        name=name, parent=parent, weight=weight, groups=groups({**(quotas or {}), **given})
    )


def local_queue(name: str, cluster_queue: str = "", **given: Any) -> LocalQueue:
    """A LocalQueue of the default namespace, of its ClusterQueue's name unless that is told."""
    return LocalQueue(key=key(name), cluster_queue=cluster_queue or name, **given)


def namespace(name: str = NAMESPACE, **labels: str) -> Namespace:
    return Namespace(name=name, labels=labels)


def flavor(name: str = FLAVOR, **given: Any) -> ResourceFlavor:
    return ResourceFlavor(name=name, **given)


def pod_set(
    name: str = "main", count: int = 1, requests: Mapping[str, int] | None = None, **given: Any
) -> PodSet:
    """Pods alike; requests are those of one pod. Whatever is no field is a request."""
    fields = {k: given.pop(k) for k in PodSet.__struct_fields__ if k in given}
    wanted = {**(requests or {}), **given}
    total = {resource: amount * count for resource, amount in wanted.items()}
    return PodSet(name=name, count=count, pods=count, requests=total, **fields)


def job(name: str, *more: PodSet, queue: str = "", count: int = 1, **given: Any) -> Workload:
    """A workload of one pod set of `count` pods, and more if given; its uid is its name.

    Equal ones are of one class unless `scheduling_hash` is told.
    """
    fields = {k: given.pop(k) for k in _OF_WORKLOAD if k in given}
    pod_sets = (pod_set("main", count, **given), *more) if given or not more else more
    fields.setdefault("uid", name)
    fields.setdefault("scheduling_hash", scheduling_hash(pod_sets, fields.get("priority", 0)))
    return Workload(key=key(name), queue=queue, pod_sets=pod_sets, **fields)


def scheduling_hash(pod_sets: Iterable[PodSet], priority: int) -> str:
    """Equal for workloads that the scheduler cannot tell apart."""
    return repr((priority, *pod_sets))


def running(workload: Workload, cluster_queue: str, since: Instant, flavor: str = "") -> Workload:
    """The workload as admitted, all resources from one flavor."""
    name = flavor or FLAVOR
    usage: dict[FlavorResource, int] = {}
    for each in workload.pod_sets:
        for resource, amount in each.requests.items():
            at = FlavorResource(name, resource)
            usage[at] = usage.get(at, 0) + amount
    given = tuple(
        PodSetReservation(
            name=each.name,
            flavors=dict.fromkeys(each.requests, name),
            requests=each.requests,
            count=each.pods,
        )
        for each in workload.pod_sets
    )
    reservation = Reservation(cluster_queue=cluster_queue, pod_sets=given, usage=usage, since=since)
    return msgspec.structs.replace(workload, reservation=reservation, admitted=True)
