# SPDX-License-Identifier: Apache-2.0
"""Finds a place for one pod set, or for a leader and its workers, on the nodes of one flavor."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from kuota.api.core import PodTemplateSpec
from kuota.api.gates import Gate
from kuota.api.match import SelectorError
from kuota.api.podset import MergeConflict
from kuota.api.workload import PodSetUpdate, TopologyRequest
from kuota.engine.amounts import Requests
from kuota.engine.model import Struct

from .assignment import LeafAssignment, add_usage, built, usage
from .balanced import balanced
from .fit import (
    ChosenDomains,
    Demand,
    DomainShare,
    InsufficientCapacity,
    choose,
    descend,
    divide,
    has_room,
)
from .flavor import TopologyFlavor
from .nodes import NodeConstraints, constraints
from .placement_failure import PlacementFailure, PlacementFailureCause
from .shortage import shortage
from .slices import demand
from .tree import Domain, DomainId
from .view import Capacities, CapacityView, ConfinedCapacities

On = Callable[[Gate], bool]
Usage = dict[DomainId, Requests]
Outcome = dict[str, "LeafAssignment | PlacementFailure"]


class PodsToPlace(Struct):
    """Pods to place. `requests` are those of one pod.

    `implied` says that pods without a topology request are placed. `previous` is the assignment of
    the workload slice that this one replaces.
    """

    name: str
    count: int
    requests: Requests
    topology: TopologyRequest | None = None
    implied: bool = False
    group: str = ""
    template: PodTemplateSpec = PodTemplateSpec()
    updates: tuple[PodSetUpdate, ...] = ()
    previous: LeafAssignment | None = None


class Placer:
    """Places pod sets on one flavor.

    With `empty`, the usage of placed workloads is ignored. `assumed` is usage by leaf that counts
    in addition; the usage of pod sets is added to it as they are placed. `shared` says whether it
    belongs to the caller.
    """

    def __init__(
        self, flavor: TopologyFlavor, on: On, *, empty: bool = False, assumed: Usage | None = None
    ) -> None:
        self.flavor = flavor
        self.on = on
        self.empty = empty
        self.shared = assumed is not None
        self.assumed: Usage = {} if assumed is None else assumed

    def assume(self, assignment: LeafAssignment, request: PodsToPlace) -> None:
        """Count the pods of an assignment as usage for those that are placed later."""
        add_usage(self.assumed, usage(assignment, request.requests))

    def find(
        self,
        workers: PodsToPlace,
        leader: PodsToPlace | None = None,
        within: Domain | None = None,
    ) -> Outcome:
        """Return a place for the workers, and for the leader if any, or why there is none."""
        wanted, allowed = self._demand(workers, leader), self._constraints(workers)
        if isinstance(wanted, PlacementFailure):
            return self._rejected(wanted, workers, leader)
        if isinstance(allowed, PlacementFailure):
            return self._rejected(allowed, workers, leader)
        beside = None if leader is None else leader.requests
        pod = self.flavor.pod_requests(workers.requests, beside)
        view = self.flavor.view(pod, allowed, wanted.slicing, empty=self.empty)
        capacities = self.flavor.assuming(view, self.assumed)
        if within is not None:
            capacities = ConfinedCapacities(capacities, view, within)
        shares = self._shares(view, capacities, wanted, within)
        if isinstance(shares, InsufficientCapacity):
            left = partial(self.flavor.left, view, usage=self.assumed)
            why = shortage(self.flavor.tree, view, capacities, wanted, shares, left, within)
            return self._rejected(why, workers, leader)
        return self._assigned(shares, workers, leader)

    def has_room(self, request: PodsToPlace) -> bool:
        """Whether `find` returns a place for pods without a leader. This is faster."""
        wanted, allowed = self._demand(request, None), self._constraints(request)
        if isinstance(wanted, PlacementFailure) or isinstance(allowed, PlacementFailure):
            return False
        pod = self.flavor.pod_requests(request.requests)
        view = self.flavor.view(pod, allowed, wanted.slicing, empty=self.empty)
        return has_room(self.flavor.tree, view, wanted)

    def _demand(
        self, workers: PodsToPlace, leader: PodsToPlace | None
    ) -> Demand | PlacementFailure:
        return demand(
            workers.topology,
            workers.count,
            self.flavor.tree.levels,
            implied=workers.implied,
            leaders=0 if leader is None else 1,
            mixed=self.on(Gate.TASProfileMixed),
            by_score=self.on(Gate.TASRespectNodeAffinityPreferred),
        )

    def _rejected(
        self, why: PlacementFailure, workers: PodsToPlace, leader: PodsToPlace | None
    ) -> Outcome:
        why = replace(why, topology=self.flavor.topology)
        return {each.name: why for each in (leader, workers) if each is not None}

    def _assigned(
        self, shares: list[DomainShare], workers: PodsToPlace, leader: PodsToPlace | None
    ) -> Outcome:
        found: Outcome = {workers.name: built(self.flavor.tree, shares)}
        if leader is not None:
            hosts = [DomainShare(share.domain, 1) for share in shares if share.leader]
            found[leader.name] = built(self.flavor.tree, hosts)
        return found

    def _shares(
        self, view: CapacityView, capacities: Capacities, wanted: Demand, within: Domain | None
    ) -> list[DomainShare] | InsufficientCapacity:
        tree = self.flavor.tree
        if self._may_balance(wanted):
            even = balanced(tree, capacities, view, wanted)
            if even is not None:
                return divide(tree, even[1], wanted, even[0])
        chosen = choose(tree, capacities, wanted, within)
        if isinstance(chosen, ChosenDomains):
            return descend(tree, capacities, wanted, chosen)
        return chosen

    def _may_balance(self, wanted: Demand) -> bool:
        enabled = self.on(Gate.TASBalancedPlacement)
        return enabled and not wanted.required and not wanted.unconstrained

    def _constraints(self, workers: PodsToPlace) -> NodeConstraints | PlacementFailure:
        try:
            return constraints(
                workers.template.spec,
                workers.updates,
                self.flavor.tolerations,
                prefer=self.on(Gate.TASRespectNodeAffinityPreferred),
                by_host=self.flavor.tree.by_host,
            )
        except (MergeConflict, SelectorError) as error:
            return PlacementFailure(
                cause=PlacementFailureCause.INVALID_CONSTRAINTS, detail=str(error)
            )
