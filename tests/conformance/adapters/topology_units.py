# SPDX-License-Identifier: Apache-2.0
"""Suites about single steps of the placement of pods: the tree, orders, balance, assignments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from conformance.adapters.topology import FLAVOR, assigned, shown
from conformance.case import Json, Run, same
from conformance.recorder import convert, whole
from conformance.registry import suite
from kuota.api import core
from kuota.api import topology_codec as codec
from kuota.api.topology_codec import HOSTNAME, node_of
from kuota.api.workload import TopologyAssignment, TopologyRequest
from kuota.bridge import inbound_nodes
from kuota.engine import model
from kuota.engine.topology.assignment import (
    add_usage,
    merged,
    read,
    stale,
    truncated,
    usage,
)
from kuota.engine.topology.balanced import best_group, even_shares, smallest_set
from kuota.engine.topology.capacity import PodRequests
from kuota.engine.topology.cluster import ClusterCapacity
from kuota.engine.topology.fit import Demand, Profile
from kuota.engine.topology.nodes import NodeConstraints, NodeFilter
from kuota.engine.topology.slices import has_levels
from kuota.engine.topology.tree import Domain, Leaf, TopologyTree
from kuota.engine.topology.view import CapacityView, DomainFit, Fit, Slicing

_UNREAD = "an index or name of Go's domain, which its level values identify"
_DOMAIN = {
    "inputs.domains.*.domain.idx": _UNREAD,
    "inputs.domains.*.domain.parent": _UNREAD,
}


def _tree(levels: Sequence[str], nodes: Sequence[model.Node]) -> TopologyTree:
    cluster = ClusterCapacity()
    cluster.put_flavor(FLAVOR, "", levels, {})
    for node in nodes:
        cluster.put_node(msgspec.structs.replace(node, ready=True))
    return cluster.flavors[FLAVOR].tree


def _nodes(values: Sequence[Json]) -> list[model.Node]:
    return [inbound_nodes.node(convert(each, core.Node)) for each in values]


@suite(
    "cache/TestNewTopologyTree",
    ignores={
        f"inputs.nodes.*.{path}": "not read: the tree is built from usable nodes"
        for path in ("apiVersion", "kind", "status.**", "spec.**")
    },
)
def tree(run: Run) -> None:
    made = _tree(run.inputs["levels"], _nodes(run.inputs["nodes"]))
    dump = {f"{each.level}|{_id(made, each)}": _dumped(made, each) for each in _below(made.root)}
    same(run.expected["want"], dump)


def _below(domain: Domain) -> Iterator[Domain]:
    for child in domain.children:
        yield child
        yield from _below(child)


def _id(made: TopologyTree, domain: Domain) -> str:
    return ",".join(domain.id if isinstance(domain, Leaf) else domain.values)


def _key(made: TopologyTree, domain: Domain | None) -> Json:
    if domain is None or domain is made.root:
        return {"id": "", "level": 0}
    return {"id": _id(made, domain), "level": domain.level}


def _dumped(made: TopologyTree, domain: Domain) -> Json:
    leaf = domain if isinstance(domain, Leaf) else None
    amounts = made.vectors.mapping(leaf.capacity) if leaf else {}
    return {
        "children": [_key(made, child) for child in domain.children],
        "cpuCapacity": amounts.get("cpu", 0),
        "leaf": leaf is not None,
        "levelValues": list(domain.values),
        "nodeName": leaf.node.name if leaf and made.by_host else "",
        "parent": _key(made, domain.parent),
        "root": domain.parent is made.root,
    }


@suite("cache/TestNodesCacheSync")
def usable_nodes(run: Run) -> None:
    """Kueue forgets unusable nodes unless its scheduler library needs them. Kuota keeps them all,
    and leaves unusable ones out of its trees."""
    node = inbound_nodes.node(convert(run.inputs["node"], core.Node))
    cluster = ClusterCapacity()
    cluster.put_node(node)
    kept = run.inputs.get("enableSchedulerLibraryIntegration")
    same(run.gates.get("SchedulerLibraryIntegration", False), kept)
    found = [each for each in cluster.nodes.values() if kept or each.usable]
    wanted = [each["metadata"]["name"] for each in whole(run.expected["wantNodes"]) or ()]
    same(wanted, [each.name for each in found])
    ready = [each.name for each in found if each.usable]
    same(run.expected["wantSchedulableAndReady"], ready)


def _name(domain: Domain) -> str:
    assert isinstance(domain, Named)
    return domain.id


def _candidates(values: Sequence[Json]) -> list[DomainFit]:
    """Return domains and what fits them, in the order of their values."""
    found = []
    for each in values:
        domain, state = each["domain"], each["state"]
        found.append(DomainFit(Named(domain["id"], domain["levelValues"]), _fit(state)))
    return sorted(found, key=lambda each: each.domain.values)


class Named(Domain):
    """A domain with the name that a case gives it."""

    def __init__(self, id: str, values: Sequence[str]) -> None:
        super().__init__(tuple(values), None)
        self.id = id


def _fit(state: Json) -> Fit:
    return Fit(
        pods=state["podCount"],
        slices=state["sliceCount"],
        pods_with_leader=state["podCountWithLeader"],
        slices_with_leader=state["sliceCountWithLeader"],
        leader=state["leaderCount"],
        score=state.get("affinityScore", 0),
    )


_ORDER_IGNORES = {**_DOMAIN, "inputs.levels": "the names of levels, which no order depends on"}


def _profile(run: Run) -> Profile:
    scored = run.gates.get("TASRespectNodeAffinityPreferred", False)
    same(scored, run.inputs["enableTASPreferredSchedulingAffinity"])
    return Profile(least_free=run.inputs["unconstrained"], by_score=scored)


@suite("cache/TestSortedDomains", ignores=_ORDER_IGNORES)
def order(run: Run) -> None:
    found = _profile(run).ordered(_candidates(run.inputs["domains"]))
    same(run.expected["wantOrder"], [_name(each.domain) for each in found])


@suite("cache/TestSortedDomainsWithLeader", ignores=_ORDER_IGNORES)
def order_for_leader(run: Run) -> None:
    found = _profile(run).ordered_for_leader(_candidates(run.inputs["domains"]))
    same(run.expected["wantOrder"], [_name(each.domain) for each in found])


@suite(
    "cache/TestCompareDomainLevelValues",
    ignores={
        "inputs.levels": "the names of levels, which no order depends on",
        "inputs.*.id": _UNREAD,
        "inputs.*.idx": _UNREAD,
        "inputs.*.parent": "the level values contain those of the parent",
        "inputs.*.parent.**": "the level values contain those of the parent",
    },
)
def order_of_values(run: Run) -> None:
    """Nodes with these labels are children in the order of the values."""
    a, b = (tuple(run.inputs[name]["levelValues"]) for name in ("a", "b"))
    levels = [f"level-{at}" for at in range(len(a))]
    nodes = [
        model.Node(name=str(at), labels=dict(zip(levels, values, strict=True)))
        for at, values in enumerate((a, b))
    ]
    found = [domain.values for domain in _tree(levels, nodes).at(len(levels) - 1)]
    same(run.expected["want"], found.index(b) - found.index(a) and (1 if found[0] == b else -1))


def _demand(count: int, leaders: int, size: int = 1, level: int = 0, lowest: int = 0) -> Demand:
    return Demand(count=count, level=level, slicing=Slicing(lowest, size), leaders=leaders)


@suite("cache/TestSelectOptimalDomainSetToFit", ignores=_DOMAIN)
def fewest_domains(run: Run) -> None:
    demand = _demand(run.inputs["workerCount"], run.inputs["leaderCount"])
    found = smallest_set(_candidates(run.inputs["domains"]), demand)
    same(run.expected["want"], [_name(each.domain) for each in found or ()])


@suite("cache/TestPlaceSlicesOnDomainsBalanced", ignores=_DOMAIN)
def even_placement(run: Run) -> None:
    inputs = run.inputs
    size = inputs["sliceSize"]
    demand = _demand(inputs["sliceCount"] * size, inputs["leaderCount"], size)
    shares = even_shares(_candidates(inputs["domains"]), demand, inputs["threshold"])
    actual = {
        _name(share.domain): {
            "podCount": share.pods,
            "sliceCount": share.pods // size,
            "leaderCount": share.leader,
            "podCountWithLeader": share.pods - share.leader,
            "sliceCountWithLeader": share.pods // size,
            "affinityScore": 0,
        }
        for share in shares or ()
    }
    same(run.expected["want"], actual)


class Given:
    """The capacities that a case gives to leaves. Those of other domains follow from them."""

    def __init__(self, fits: dict[tuple[str, ...], Fit], view: CapacityView) -> None:
        self._fits = fits
        self._view = view

    def of(self, domain: Domain) -> Fit:
        if isinstance(domain, Leaf):
            return self._fits[domain.values]
        return self._view.combined(domain.level, self.children(domain))

    def children(self, domain: Domain) -> list[Fit]:
        return [self.of(child) for child in domain.children]


@suite(
    "cache/TestFindBestDomainsForBalancedPlacement",
    ignores={"inputs.domains.*.id": _UNREAD, "inputs.domains.*.parentID": _UNREAD},
)
def balance(run: Run) -> None:
    levels, params = run.inputs["levels"], run.inputs["params"]
    fits = {tuple(each["levelValues"]): _fit(each) for each in run.inputs["domains"]}
    nodes = [
        model.Node(name=",".join(values), labels=dict(zip(levels, values, strict=True)))
        for values in fits
        if len(values) == len(levels)
    ]
    made = _tree(levels, nodes)
    demand = Demand(
        count=params["count"],
        level=params["requestedLevelIdx"],
        slicing=Slicing(params["sliceLevelIdx"], params["sliceSize"]),
        leaders=params["leaderCount"],
        required=params["required"],
        unconstrained=params["unconstrained"],
    )
    view = CapacityView(
        made,
        PodRequests((), ()),
        NodeFilter(made, NodeConstraints()),
        demand.slicing,
        empty=False,
    )
    group = best_group(made, Given(fits, view), view, demand)
    same(run.expected["wantThreshold"], group.threshold if group else 0)
    same(run.expected["wantDomainsCount"], len(group.found) if group else 0)


@suite(
    "cache/TestMergeTopologyAssignments",
    ignores={
        f"inputs.nodes.*.{path}": "not read: the tree is built from usable nodes"
        for path in ("apiVersion", "kind")
    },
)
def merging(run: Run) -> None:
    made = _tree(run.inputs["levels"], _nodes(run.inputs["nodes"]))
    a, b = assigned(run.inputs["a"]), assigned(run.inputs["b"])
    same(run.expected["want"], shown(merged(made, a, b)))


@suite("cache/TestTruncateAssignment")
def truncation(run: Run) -> None:
    found = truncated(assigned(run.inputs["assignment"]), run.inputs["newCount"])
    same(run.expected["want"], shown(found))


@suite("cache/TestCountPodsInAssignment")
def pods_of_assignment(run: Run) -> None:
    same(run.expected["want"], assigned(run.inputs["assignment"]).pods)


@suite("cache/TestComputeAssumedUsageFromAssignment")
def usage_of_assignment(run: Run) -> None:
    found = usage(assigned(run.inputs["assignment"]), whole(run.inputs["singlePodRequests"]))
    same(run.expected["want"], {",".join(id): amounts for id, amounts in found.items()})


@suite("cache/TestAddAssumedUsage")
def assumed_usage(run: Run) -> None:
    total = {
        tuple(id.split(",")): dict(amounts)
        for id, amounts in whole(run.inputs.get("assumedUsage") or {}).items()
    }
    requests = whole(run.inputs["singlePodRequests"])
    add_usage(total, usage(assigned(run.inputs["assignment"]), requests))
    same(run.expected["want"], {",".join(id): amounts for id, amounts in total.items()})


@suite("cache/TestHasLevel")
def known_levels(run: Run) -> None:
    asked = run.inputs.get("podSetTopologyRequest")
    request = convert(asked, TopologyRequest) if asked is not None else None
    same(run.expected["want"], has_levels(request, run.inputs["levels"]))


@suite("cache/TestIsTopologyAssignmentStale")
def staleness(run: Run) -> None:
    """The case describes its tree in words: `levels a,b; one node: a=x b=y`."""
    described = run.inputs["treeName"]
    names = {"hostname": HOSTNAME}
    labels = {names.get(key, key): value for key, value in re.findall(r"(\w+)=(\w+)", described)}
    made = _tree(list(labels), [model.Node(name="node", labels=labels)])
    gone = stale(made, assigned(run.inputs["assignment"]))
    same(run.expected["wantStale"], gone is not None)
    same(run.expected["wantStaleDomain"], gone)


@suite("util/tas-TestBelongsTo")
def containment(run: Run) -> None:
    domain, other = (
        Domain(tuple(filter(None, run.inputs.get(name, "").split(","))), None)
        for name in ("domainID", "targetDomain")
    )
    same(run.expected["want"], domain.within(other))


@suite("util/tas-TestNodeNameFromDomainID")
def node_of_domain(run: Run) -> None:
    found = node_of(run.inputs.get("levels"), [run.inputs.get("domainID", "")])
    same(run.expected["wantOK"], found is not None)
    same(run.expected["wantNodeName"], found)


def _read(run: Run) -> list[codec.AssignedDomain]:
    return list(read(convert(run.inputs["v1beta2"], TopologyAssignment)).domains)


@suite("util/tas-TestPodCounts")
def pod_counts(run: Run) -> None:
    same(run.expected["podCounts"], [domain.count for domain in _read(run)])


@suite("util/tas-TestTotalDomainCount")
def domain_count(run: Run) -> None:
    same(run.expected["totalDomainCount"], len(_read(run)))
