# SPDX-License-Identifier: Apache-2.0
"""Finds quota that exceeds the allocatable capacity of the nodes. Pure.

Kueue does not compare quota with the capacity of nodes, because an autoscaler may add nodes. If the
set of nodes is fixed, excess quota admits workloads whose pods stay pending, and neither the
workload nor the pod shows the cause.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from kuota.api.base import Json
from kuota.api.quantity import UNLIMITED, QuantityError, canonical, is_size, parse, quota_amount
from kuota.api.resources import nanos

from .plan import ViewStruct
from .words import several

_GI = 2**30 * 10**9


class TooMuch(ViewStruct):
    """One resource, with its quota and its capacity as Kubernetes quantities."""

    resource: str
    quota: str
    room: str


class Shortage(ViewStruct):
    """Flavors whose quota exceeds the capacity of their nodes.

    `flavors` is empty if the shortage concerns all nodes. If no node has the labels of the flavor,
    `nodes` is 0 and `labels` is set. If the flavor does not exist, `nodes` is 0 and `labels` is
    empty, and `meant` is the most similar flavor, if there is one.
    """

    nodes: int
    amounts: list[TooMuch]
    flavors: list[str] = []
    labels: dict[str, str] = {}
    meant: str = ""


def shortages(
    queues: Sequence[Json], flavors: Iterable[Json], nodes: Sequence[Json]
) -> list[Shortage]:
    """Return where the quota of ClusterQueues and Cohorts exceeds the capacity of the nodes.

    A shortage of all nodes comes first. The quotas of flavors that share nodes are added up.
    Unlimited quota is ignored. Without nodes, there are no shortages.
    """
    if not nodes:
        return []
    labels = {
        each["metadata"]["name"]: (each.get("spec") or {}).get("nodeLabels") or {}
        for each in flavors
    }
    quota = _quota(queues, labels)
    reach = {name: _reach(labels[name], nodes) for name in sorted(quota)}
    groups = sorted(set(reach.values()), key=lambda some: (-len(some), sorted(some)))
    found = (_shortage(some, quota, reach, nodes) for some in groups if some)
    nowhere = (_nowhere(name, labels[name], quota[name]) for name in reach if not reach[name])
    missing = _missing(queues, labels)
    return [each for each in (*found, *nowhere, *missing) if each is not None]


def _missing(queues: Sequence[Json], known: Collection[str]) -> Iterator[Shortage]:
    """Yield the flavors that do not exist. A ClusterQueue with quota of one is inactive."""
    offered: dict[str, Counter[str]] = {}
    for flavor, resource, amount in _quotas(queues):
        if flavor not in known:
            offered.setdefault(flavor, Counter())[resource] += amount
    for name, amounts in sorted(offered.items()):
        close = difflib.get_close_matches(name, known, n=1)
        meant = close[0] if close else ""
        yield Shortage(flavors=[name], nodes=0, amounts=_too_much(amounts, {}), meant=meant)


def _quota(queues: Iterable[Json], known: Mapping[str, object]) -> dict[str, Counter[str]]:
    """Return the total quota by flavor and resource. Flavors that do not exist are ignored."""
    total: dict[str, Counter[str]] = {}
    for flavor, resource, amount in _quotas(queues):
        if flavor in known and amount > 0:
            total.setdefault(flavor, Counter())[resource] += amount
    return total


def _quotas(queues: Iterable[Json]) -> Iterator[tuple[str, str, int]]:
    for queue in queues:
        for group in (queue.get("spec") or {}).get("resourceGroups") or ():
            for flavor in group.get("flavors") or ():
                for each in flavor.get("resources") or ():
                    yield flavor["name"], each["name"], _limited(each)


def _limited(quota: Json) -> int:
    """Return the quota in nano-units; 0 if it is unlimited or malformed."""
    nominal = quota.get("nominalQuota", 0)
    try:
        return 0 if quota_amount(nominal, quota["name"]) == UNLIMITED else parse(nominal)
    except QuantityError:
        return 0


def _reach(labels: Mapping[str, str], nodes: Sequence[Json]) -> frozenset[str]:
    """Return the nodes that match the labels of a flavor."""
    return frozenset(
        node["metadata"]["name"]
        for node in nodes
        if labels.items() <= (node["metadata"].get("labels") or {}).items()
    )


def _shortage(
    some: frozenset[str],
    quota: Mapping[str, Counter[str]],
    reach: Mapping[str, frozenset[str]],
    nodes: Sequence[Json],
) -> Shortage | None:
    """Return the shortage of the flavors that match only these nodes; None if there is none."""
    names = [name for name, to in reach.items() if to and to <= some]
    offered: Counter[str] = Counter()
    for name in names:
        offered.update(quota[name])
    room: Counter[str] = Counter()
    for node in nodes:
        if node["metadata"]["name"] in some:
            room.update(nanos((node.get("status") or {}).get("allocatable")))
    amounts = _too_much(offered, room)
    if not amounts:
        return None
    whole = len(some) == len(nodes)
    return Shortage(flavors=[] if whole else names, nodes=len(some), amounts=amounts)


def _too_much(offered: Mapping[str, int], room: Mapping[str, int]) -> list[TooMuch]:
    return [
        TooMuch(
            resource=name,
            quota=rounded(amount, name),
            room=rounded(room.get(name, 0), name),
        )
        for name, amount in sorted(offered.items())
        if amount > room.get(name, 0)
    ]


def _nowhere(flavor: str, labels: Mapping[str, str], offered: Mapping[str, int]) -> Shortage:
    return Shortage(flavors=[flavor], labels=dict(labels), nodes=0, amounts=_too_much(offered, {}))


def concerns(found: Shortage, quotas: Iterable[tuple[str, str]]) -> bool:
    """Whether the shortage affects one of these quotas, given as flavor and resource."""
    resources = {each.resource for each in found.amounts}
    return any(
        resource in resources and (not found.flavors or flavor in found.flavors)
        for flavor, resource in quotas
    )


def shortage_words(found: Shortage) -> str:
    """Describe the shortage in one line, which can follow a prefix."""
    names = f"flavor{'s' * (len(found.flavors) > 1)} {several(found.flavors)}"
    if not found.nodes and not found.labels:
        meant = f"; did you mean {found.meant}?" if found.meant else ""
        return (
            f"there is no ResourceFlavor {several(found.flavors)}: ClusterQueues with quota of it "
            f"admit no workload{meant}"
        )
    if not found.nodes:
        labels = ", ".join(f"{key}={value}" for key, value in sorted(found.labels.items()))
        return (
            f"quota of {names} leads nowhere: no node has its labels {labels}, so pods that are "
            "admitted there wait"
        )
    if found.flavors:
        whose = "their nodes have" if found.flavors[1:] else "its nodes have"
        what = f"quota of {names} is more than {whose}"
    else:
        what = f"quota is more than {'this machine has' if found.nodes == 1 else 'the nodes have'}"
    amounts = ", ".join(
        f"{each.resource} {each.quota} against {each.room}" for each in found.amounts
    )
    return f"{what}: {amounts}; pods that are admitted may wait for room"


def rounded(nano: int, resource: str) -> str:
    """Format the amount. Sizes are in Gi with one decimal place; other amounts are exact."""
    if not nano or not is_size(resource):
        return canonical(nano)
    return f"{nano / _GI:.1f}".removesuffix(".0") + "Gi"
