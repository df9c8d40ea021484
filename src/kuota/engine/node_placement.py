# SPDX-License-Identifier: Apache-2.0
"""Places the pods of a workload on the nodes of a cluster, given the usage in the snapshot."""

from __future__ import annotations

from collections.abc import Sequence

from kuota.api.gates import Gate
from kuota.api.resources import pod_amounts

from .model import Workload
from .placement import PlacementRequest, PlacementResult, explicit
from .policy import Policy
from .topology.assignment import Assignment, read
from .topology.cluster import Cluster
from .topology.place import Outcome, Placer, PodSetRequest, Usage
from .topology.workload import place, replace_node
from .usage import PlacedPods


class NodePlacement:
    """Implements `Placement` with the nodes of a cluster."""

    def __init__(self, cluster: Cluster, policy: Policy) -> None:
        self._cluster = cluster
        self._policy = policy

    def place(
        self, workload: Workload, requests: Sequence[PlacementRequest], *, empty: bool = False
    ) -> PlacementResult:
        """Place the requests of each flavor together. The first rejection of a flavor ends it."""
        flavors = sorted({each.flavor for each in requests})
        result = PlacementResult()
        assumed: Usage | None = {} if len(flavors) > 1 else None
        for name in flavors:
            asked = [each for each in requests if each.flavor == name]
            self._add(result, workload, name, asked, empty=empty, assumed=assumed)
        return result

    def _add(
        self,
        result: PlacementResult,
        workload: Workload,
        name: str,
        asked: Sequence[PlacementRequest],
        *,
        empty: bool,
        assumed: Usage | None,
    ) -> None:
        flavor = self._cluster.flavors.get(name)
        if flavor is None:
            unknown = f'the topology of flavor "{name}" is not known yet'
            result.rejected.update({each.pod_set.name: unknown for each in asked})
            return
        on = self._policy.on
        shared = assumed if flavor.tree.by_host and on(Gate.TASHandleOverlappingFlavors) else None
        placer = Placer(flavor, on, empty=empty, assumed=shared)
        pod_sets = {each.pod_set.name: _request(each) for each in asked}
        for each, found in self._outcome(placer, workload, list(pod_sets.values())).items():
            if isinstance(found, Assignment):
                by_prefix = on(Gate.TASAssignmentsEncodingByHostnamePrefix)
                result.assigned[each] = found.stored(by_prefix=by_prefix)
                result.places[each] = PlacedPods(
                    pod_set=each,
                    flavor=name,
                    requests=pod_sets[each].requests,
                    assignment=found,
                )
            else:
                result.rejected[each] = found.message

    def _outcome(
        self, placer: Placer, workload: Workload, requests: Sequence[PodSetRequest]
    ) -> Outcome:
        held = workload.reservation
        if not workload.replaces_nodes or held is None:
            return place(placer, requests)
        existing = {each.name: read(each.topology) for each in held.pod_sets if each.topology}
        bound = self._policy.on(Gate.SkipReassignmentForPodOwnedWorkloads) and workload.owned_by_pod
        failed = workload.unhealthy_nodes[0]
        return replace_node(placer, requests, existing, failed, movable=not bound)


def _request(asked: PlacementRequest) -> PodSetRequest:
    pod_set = asked.pod_set
    return PodSetRequest(
        name=pod_set.name,
        count=asked.count,
        requests=pod_amounts(pod_set.template.spec),
        topology=pod_set.topology,
        implied=not explicit(pod_set),
        group=pod_set.group,
        template=pod_set.template,
        updates=asked.updates,
        previous=read(asked.previous) if asked.previous is not None else None,
    )
