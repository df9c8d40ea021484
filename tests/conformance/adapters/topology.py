# SPDX-License-Identifier: Apache-2.0
"""Suites about the placement of pods on the domains of a topology."""

from __future__ import annotations

import re

from conformance.case import Difference, Json, Run, same
from conformance.recorder import convert, whole
from conformance.registry import suite
from conformance.world import gates_of
from kuota.api import core
from kuota.api.gates import Gate
from kuota.api.topology_codec import AssignedDomain as Placed
from kuota.api.workload import TopologyAssignment, TopologyRequest, Workload
from kuota.bridge import inbound_nodes
from kuota.bridge.admission import owned_by_pod
from kuota.engine.topology.assignment import LeafAssignment, read
from kuota.engine.topology.cluster import ClusterCapacity
from kuota.engine.topology.nodes import NodeExclusion
from kuota.engine.topology.place import Outcome, Placer, PodsToPlace
from kuota.engine.topology.placement_failure import PlacementFailure, PlacementFailureCause
from kuota.engine.topology.workload import place, replace_node

FLAVOR = "flavor"
_HEARTBEATS = "a time of the node's condition, which placement does not read"
_IGNORES = {
    "inputs.nodes.*.apiVersion": "the type of the object",
    "inputs.nodes.*.kind": "the type of the object",
    "inputs.nodes.*.status.conditions.*.lastHeartbeatTime": _HEARTBEATS,
    "inputs.nodes.*.status.conditions.*.lastTransitionTime": _HEARTBEATS,
}


def assigned(value: Json | None) -> LeafAssignment:
    """Return an internal assignment of Kueue."""
    value = value or {}
    domains = (
        Placed(list(each.get("values") or ()), each.get("count", 0))
        for each in value.get("domains") or ()
    )
    return LeafAssignment(levels=tuple(value.get("levels") or ()), domains=tuple(domains))


def shown(assignment: LeafAssignment) -> Json:
    domains = [{"values": each.values, "count": each.count} for each in assignment.domains]
    return {"levels": list(assignment.levels), "domains": domains}


def cluster(inputs: Json) -> ClusterCapacity:
    """Return a cluster with the nodes, the pods and the usage of a case, and one flavor."""
    made = ClusterCapacity()
    for each in inputs.get("nodes") or ():
        made.put_node(inbound_nodes.node(convert(each, core.Node)))
    for each in inputs.get("pods") or ():
        usage = inbound_nodes.pod_usage(convert(each, core.Pod))
        if usage is not None:
            made.put_pod(usage)
    labels = whole(inputs.get("flavorNodeLabels") or {})
    made.put_flavor(FLAVOR, inputs.get("topologyName", ""), inputs["levels"], labels)
    for flavor, name in ((FLAVOR, "priorOwnUsage"), ("other", "priorFlavorUsage")):
        for each in inputs.get(name) or ():
            if flavor not in made.flavors:
                made.put_flavor(flavor, "", inputs["levels"], {})
            values = Placed(list(each["values"]), each["count"])
            requests = whole(each["singlePodRequests"])
            made.charge(flavor, LeafAssignment(domains=(values,)), requests)
    return made


def _placer(run: Run, made: ClusterCapacity) -> Placer:
    assumed = {
        tuple(key.split(",")): dict(whole(amounts))
        for key, amounts in (run.inputs.get("aggregatedDomainUsages") or {}).items()
    }
    return Placer(made.flavors[FLAVOR], gates_of(run).on, assumed=assumed)


def _request(pod_set: Json) -> PodsToPlace:
    asked = pod_set.get("topologyRequest")
    previous = pod_set.get("previousAssignment")
    affinity = pod_set.get("nodeAffinity")
    spec = {
        "tolerations": whole(pod_set.get("tolerations")),
        "nodeSelector": whole(pod_set.get("nodeSelector")),
        "affinity": {"nodeAffinity": whole(affinity)} if affinity else None,
    }
    return PodsToPlace(
        name=pod_set.get("podSetName", ""),
        count=pod_set["count"],
        requests=whole(pod_set["requests"]),
        topology=convert(asked, TopologyRequest) if asked else None,
        implied=not asked,
        group=pod_set.get("podSetGroupName") or "",
        template=convert({"spec": spec}, core.PodTemplateSpec),
        previous=read(convert(previous, TopologyAssignment)) if previous else None,
    )


def _outcome(run: Run, requests: list[PodsToPlace]) -> Outcome:
    placer = _placer(run, cluster(run.inputs))
    obj = convert(run.inputs["workload"], Workload)
    if not obj.status.unhealthy_nodes:
        return place(placer, requests)
    admission = obj.status.admission
    existing = {
        each.name: read(each.topology_assignment)
        for each in (admission.pod_set_assignments if admission else None) or ()
        if each.topology_assignment is not None
    }
    failed = obj.status.unhealthy_nodes[0].name
    fixed = placer.on(Gate.SkipReassignmentForPodOwnedWorkloads) and owned_by_pod(obj)
    return replace_node(placer, requests, existing, failed, movable=not fixed)


@suite("cache/TestFindTopologyAssignments", ignores=_IGNORES)
def placements(run: Run) -> None:
    outcome = _outcome(run, [_request(each) for each in run.inputs["podSets"]])
    for each in run.expected["podSets"]:
        name = each.get("podSetName", "")
        _compare(each, outcome.get(name))


@suite(
    "cache/TestFindTopologyAssignmentsMultiLayerReplacement",
    ignores={
        **_IGNORES,
        "inputs.existingTA": "the same as in the workload's admission",
        "inputs.existingTA.**": "the same as in the workload's admission",
        "inputs.admissionCount": "the same as in the workload's admission",
        "inputs.unhealthyNode": "the same as in the workload's status",
    },
)
def replacements(run: Run) -> None:
    inputs = run.inputs
    request = PodsToPlace(
        name=inputs["podSetName"],
        count=inputs["count"],
        requests=whole(inputs["singlePodRequests"]),
        topology=convert(inputs["topologyRequest"], TopologyRequest),
    )
    _compare(run.expected, _outcome(run, [request]).get(request.name))


def _compare(wanted: Json, actual: LeafAssignment | PlacementFailure | None) -> None:
    reason = wanted.get("wantReason")
    assignment = wanted.get("wantAssignment")
    if isinstance(actual, PlacementFailure):
        _compare_reason(reason or "", actual)
        same(assignment, None, ".wantAssignment")
    else:
        same(reason, None, ".wantReason")
        same(assignment, shown(actual) if actual else None, ".wantAssignment")


_CAUSES = {
    r"invalid (?:podSetUpdate|(?:affinity )?node selectors|preferred node affinity terms)\b.*": (
        PlacementFailureCause.INVALID_CONSTRAINTS
    ),
    r"topology level not specified": PlacementFailureCause.NO_LEVEL_REQUESTED,
    r"no requested topology level: (?P<level>\S+)": PlacementFailureCause.UNKNOWN_LEVEL,
    r"no requested topology level for slices: (?P<level>\S+)": (
        PlacementFailureCause.UNKNOWN_SLICE_LEVEL
    ),
    r"no requested topology level for additional slice layer: (?P<level>\S+)": (
        PlacementFailureCause.UNKNOWN_SLICE_LEVEL
    ),
    r"podset slice topology (?P<level>\S+) is above the podset topology (?P<detail>\S+)": (
        PlacementFailureCause.SLICE_ABOVE_LEVEL
    ),
    r"slice topology requested, but slice size not provided": PlacementFailureCause.NO_SLICE_SIZE,
    r"additional slice layer topology (?P<level>\S+) must be at a lower level than"
    r" (?P<detail>\S+)": PlacementFailureCause.LAYER_NOT_BELOW,
    r"additional slice layer size \d+ must evenly divide parent layer size (?P<detail>\d+)": (
        PlacementFailureCause.LAYER_SIZE
    ),
    r"no topology domains at level: (?P<level>\S+)": PlacementFailureCause.NO_DOMAINS,
    r"Cannot replace the node, .* contains the stale domain (?P<detail>\S+)": (
        PlacementFailureCause.STALE_DOMAIN
    ),
    r"cannot find replacement assignment for unhealthy node: (?P<detail>\S+)": (
        PlacementFailureCause.NO_REPLACEMENT
    ),
}
_SHORT = re.compile(
    r'topology "(?P<topology>.*)" (?:allows to fit only (?P<fit>\d+) out of (?P<wanted>\d+)'
    r" (?P<unit>pod|slice)\(s\)|doesn't allow to fit any of (?P<none>\d+) (?P<no_unit>pod|slice)"
    r"\(s\)|doesn't allow to fit"
    r"(?P<layers>(?:; \d+/\d+ slice\(s\) fit on level [^;.]+(?:\.[^;. ]+)*)*))"
    r"(?:\. Total nodes: (?P<nodes>\d+); excluded: (?P<excluded>.*))?"
)
_LAYER = re.compile(r"; (\d+)/(\d+) slice\(s\) fit on level ([^;\s]+)")
_REASON = re.compile(
    r'(?:(?P<kind>taint|resource) "(?P<detail>[^"]*)"|(?P<by>\w+)): (?P<count>\d+)'
)


def _compare_reason(text: str, actual: PlacementFailure) -> None:
    """Compare the numbers and names in a message of Kueue with the rejection."""
    if actual.message == "" or "{" in actual.message:
        raise Difference(f"unreadable message: {actual.message}")
    for pattern, cause in _CAUSES.items():
        found = re.fullmatch(pattern, text)
        if found is not None:
            same(cause.value, actual.cause.value, ".cause")
            for name, value in found.groupdict().items():
                same(value, getattr(actual, name), f".{name}")
            return
    same(_shortage(text), _own_shortage(actual), ".wantReason")


def _shortage(text: str) -> Json:
    found = _SHORT.fullmatch(text)
    if found is None:
        raise Difference(f"unknown reason {text!r}")
    counts: Json = {
        "fit": int(found["fit"] or 0),
        "wanted": int(found["wanted"] or found["none"] or 0),
        "unit": found["unit"] or found["no_unit"] or "",
        "layers": [],
    }
    if found["layers"]:
        layers = _LAYER.findall(found["layers"])
        counts["layers"] = [[name, int(fit), int(wanted)] for fit, wanted, name in layers]
    reasons = {
        f"{each['kind'] or each['by']} {each['detail'] or ''}".strip(): int(each["count"])
        for each in _REASON.finditer(found["excluded"] or "")
    }
    nodes = int(found["nodes"] or 0)
    return {**counts, "topology": found["topology"], "nodes": nodes, "excluded": reasons}


def _own_shortage(actual: PlacementFailure) -> Json:
    same(PlacementFailureCause.NOT_ENOUGH.value, actual.cause.value, ".cause")
    layers = [[each.level, each.fit, each.wanted] for each in actual.layers]
    return {
        "fit": 0 if layers else actual.fit,
        "wanted": 0 if layers else actual.wanted,
        "unit": "" if layers else "slice" if actual.sliced else "pod",
        "layers": layers,
        "topology": actual.topology,
        "nodes": actual.nodes if actual.excluded else 0,
        "excluded": {_label(each): count for each, count in actual.excluded.items()},
    }


def _label(each: NodeExclusion) -> str:
    return f"{each.by} {each.detail}".strip()
