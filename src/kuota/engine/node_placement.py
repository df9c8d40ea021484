# SPDX-License-Identifier: Apache-2.0
"""Places the pods of a workload on the nodes of a cluster, given the usage in the snapshot."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from kuota.api.gates import Gate
from kuota.api.resources import pod_amounts

from .model import Workload
from .placement import PlacementRequest, PlacementResult, explicit
from .policy import Policy
from .topology.assignment import LeafAssignment, read
from .topology.cluster import ClusterCapacity
from .topology.flavor import TopologyFlavor
from .topology.place import Outcome, Placer, PodsToPlace, Usage
from .topology.workload import place, replace_node
from .usage import PlacedPods

_MOST_KEPT = 256
"""How many results are kept."""


class PlacementCache:
    """Results of placements on one flavor, valid until its nodes or their usage change.

    Heads of many queues are often alike, and blocked heads are placed again in each cycle. Pod sets
    are compared by identity: workloads with equal pod sets share them.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[object, ...]] = {}

    def of(
        self,
        flavor: TopologyFlavor,
        requests: Sequence[PlacementRequest],
        empty: bool,
        compute: Callable[[], PlacementResult],
    ) -> PlacementResult:
        """Return the kept result, or compute it."""
        tree = flavor.tree
        key = (empty, *((id(each.pod_set), each.count, each.flavor) for each in requests))
        state = (tree, tree.capacity_time if empty else tree.time, flavor.tolerations)
        kept = self._kept.get(key)
        if kept is not None and kept[0] == state:
            result = kept[1]
            assert isinstance(result, PlacementResult)
            return result
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        result = compute()
        # The pod sets are kept so that no other object gets their identity.
        self._kept[key] = (state, result, [each.pod_set for each in requests])
        return result


class NodePlacement:
    """Implements `Placement` with the nodes of a cluster."""

    def __init__(
        self, cluster: ClusterCapacity, policy: Policy, kept: PlacementCache | None = None
    ) -> None:
        self._cluster = cluster
        self._policy = policy
        self._kept = kept or PlacementCache()

    def place(
        self, workload: Workload, requests: Sequence[PlacementRequest], *, empty: bool = False
    ) -> PlacementResult:
        """Place the requests of each flavor together. The first rejection of a flavor ends it."""
        flavors = sorted({each.flavor for each in requests})
        only = self._cluster.flavors.get(flavors[0]) if len(flavors) == 1 else None
        special = workload.replaces_nodes or any(each.special for each in requests)
        if only is None or special:
            return self._place(workload, requests, flavors, empty)
        return self._kept.of(
            only, requests, empty, lambda: self._place(workload, requests, flavors, empty)
        )

    def fits(self, workload: Workload, requests: Sequence[PlacementRequest]) -> bool:
        """Whether `place` would place everything. One pod set alone is tested faster."""
        request = requests[0]
        flavor = self._cluster.flavors.get(request.flavor)
        alone = len(requests) == 1 and request.previous is None and not workload.replaces_nodes
        if flavor is None or not alone:
            return not self.place(workload, requests).rejected
        return Placer(flavor, self._policy.on).has_room(_request(request))

    def _place(
        self,
        workload: Workload,
        requests: Sequence[PlacementRequest],
        flavors: Sequence[str],
        empty: bool,
    ) -> PlacementResult:
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
            if isinstance(found, LeafAssignment):
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
        self, placer: Placer, workload: Workload, requests: Sequence[PodsToPlace]
    ) -> Outcome:
        held = workload.reservation
        if not workload.replaces_nodes or held is None:
            return place(placer, requests)
        existing = {each.name: read(each.topology) for each in held.pod_sets if each.topology}
        bound = self._policy.on(Gate.SkipReassignmentForPodOwnedWorkloads) and workload.owned_by_pod
        failed = workload.unhealthy_nodes[0]
        return replace_node(placer, requests, existing, failed, movable=not bound)


def _request(asked: PlacementRequest) -> PodsToPlace:
    pod_set = asked.pod_set
    return PodsToPlace(
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
