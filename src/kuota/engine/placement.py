# SPDX-License-Identifier: Apache-2.0
"""Whether and where pods of topology flavors can be placed: the interface to nodes.

`Snapshot.placement` decides. `NoPlacement` is used when nodes are not part of the model: it accepts
everything and places nothing, so only quota decides. `UnknownNodes` is used before the nodes are
listed: it rejects everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from kuota.api.workload import PodSetUpdate, TopologyAssignment

from .model import PodSet, Struct, Workload
from .usage import PlacedPods

if TYPE_CHECKING:
    from .snapshot import Queue, Snapshot


class PlacementRequest(Struct):
    """Pods of one pod set to place on the nodes of one topology flavor.

    `updates` are constraints that admission checks add to the pods. `previous` is the assignment of
    the workload slice that this one replaces.
    """

    pod_set: PodSet
    count: int
    flavor: str
    updates: tuple[PodSetUpdate, ...] = ()
    previous: TopologyAssignment | None = None

    @property
    def special(self) -> bool:
        """Whether the result depends on more than the pod set, its count and the flavor."""
        return bool(self.updates) or self.previous is not None


class PlacementResult(Struct):
    """The result of a placement by pod set: topology assignments, or why there are none.

    `places` is what the assigned pods use.
    """

    assigned: dict[str, TopologyAssignment] = {}
    rejected: dict[str, str] = {}
    places: dict[str, PlacedPods] = {}


class Placement(Protocol):
    """Places pods on the nodes of topology flavors, given the usage in the snapshot."""

    def place(
        self, workload: Workload, requests: Sequence[PlacementRequest], *, empty: bool = False
    ) -> PlacementResult:
        """Place all requests together. With `empty`, assume that no other pods run."""
        ...

    def fits(self, workload: Workload, requests: Sequence[PlacementRequest]) -> bool:
        """Whether `place` would place all requests."""
        ...


NODES_NOT_LISTED = "the nodes of the cluster are not known yet"


class UnknownNodes:
    """Rejects every request, because the nodes are not known yet."""

    def place(
        self, workload: Workload, requests: Sequence[PlacementRequest], *, empty: bool = False
    ) -> PlacementResult:
        return PlacementResult(rejected={e.pod_set.name: NODES_NOT_LISTED for e in requests})

    def fits(self, workload: Workload, requests: Sequence[PlacementRequest]) -> bool:
        return False


class NoPlacement:
    """A placement without nodes."""

    def place(
        self, workload: Workload, requests: Sequence[PlacementRequest], *, empty: bool = False
    ) -> PlacementResult:
        return PlacementResult()

    def fits(self, workload: Workload, requests: Sequence[PlacementRequest]) -> bool:
        return True


def explicit(pod_set: PodSet) -> bool:
    """Whether the pods request a topology. A group name alone does not count."""
    asked = pod_set.topology
    return asked is not None and bool(
        asked.unconstrained is not None
        or asked.required is not None
        or asked.preferred is not None
        or asked.pod_set_slice_required_topology is not None
        or asked.pod_set_slice_size is not None
        or asked.podset_slice_required_topology_constraints
    )


def levels(pod_set: PodSet) -> Iterator[str]:
    """Yield every topology level that the pods name."""
    asked = pod_set.topology
    if asked is None:
        return
    for level in (asked.required, asked.preferred, asked.pod_set_slice_required_topology):
        if level is not None:
            yield level
    for layer in asked.podset_slice_required_topology_constraints or ():
        yield layer.topology


def topology_only(queue: Queue, snapshot: Snapshot) -> bool:
    """Whether every flavor of the queue has a loaded topology, so that all pods are placed.

    As in Kueue, this holds for a queue without flavors.
    """
    return all(
        has_topology(name, snapshot) for group in queue.spec.groups for name in group.flavors
    )


def has_topology(flavor: str, snapshot: Snapshot) -> bool:
    found = snapshot.flavors.get(flavor)
    return found is not None and bool(found.topology) and found.topology in snapshot.topologies
