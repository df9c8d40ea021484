# SPDX-License-Identifier: Apache-2.0
"""Whether a ClusterQueue or LocalQueue is active, and every reason why it is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from kuota.api.kueue import MULTIKUEUE, PROVISIONING

from .model import AdmissionCheck, ClusterQueue, LocalQueue, ResourceFlavor, Struct, Topology


class InactiveReason(StrEnum):
    """Reasons of condition Active=False, in the order in which they are reported."""

    TERMINATING = "Terminating"
    INVALID = "InvalidSpec"
    STOPPED = "Stopped"
    FLAVOR_NOT_FOUND = "FlavorNotFound"
    CHECK_NOT_FOUND = "AdmissionCheckNotFound"
    CHECK_INACTIVE = "AdmissionCheckInactive"
    MULTIPLE_MULTIKUEUE = "MultipleMultiKueueAdmissionChecks"
    MULTIKUEUE_PER_FLAVOR = "MultiKueueAdmissionCheckAppliedPerFlavor"
    MULTIKUEUE_AND_PROVISIONING = "MultiKueueWithProvisioningRequest"
    TOPOLOGY_NOT_FOUND = "TopologyNotFound"
    QUEUE_MISSING = "ClusterQueueDoesNotExist"
    QUEUE_INACTIVE = "ClusterQueueIsInactive"


class QueueObstacle(Struct):
    """One reason for being inactive, with the names of the objects or the faults it concerns."""

    reason: InactiveReason
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        about = f" ({', '.join(self.names)})" if self.names else ""
        return f"{_WORDS[self.reason]}{about}"


_WORDS = {
    InactiveReason.TERMINATING: "it is being deleted",
    InactiveReason.INVALID: "its spec is invalid",
    InactiveReason.STOPPED: "it is stopped",
    InactiveReason.FLAVOR_NOT_FOUND: "it references missing ResourceFlavors",
    InactiveReason.CHECK_NOT_FOUND: "it references missing AdmissionChecks",
    InactiveReason.CHECK_INACTIVE: (
        "it references AdmissionChecks that no controller reports as active"
    ),
    InactiveReason.MULTIPLE_MULTIKUEUE: "it has several MultiKueue AdmissionChecks",
    InactiveReason.MULTIKUEUE_PER_FLAVOR: (
        "a MultiKueue AdmissionCheck is restricted to some flavors"
    ),
    InactiveReason.MULTIKUEUE_AND_PROVISIONING: (
        "it has both MultiKueue and ProvisioningRequest AdmissionChecks"
    ),
    InactiveReason.TOPOLOGY_NOT_FOUND: "its flavors reference missing Topologies",
    InactiveReason.QUEUE_MISSING: "its ClusterQueue does not exist",
    InactiveReason.QUEUE_INACTIVE: "its ClusterQueue is inactive",
}


def flavor_names(spec: ClusterQueue) -> frozenset[str]:
    return frozenset(name for group in spec.groups for name in group.flavors)


def obstacles(
    spec: ClusterQueue,
    flavors: Mapping[str, ResourceFlavor],
    checks: Mapping[str, AdmissionCheck],
    topologies: Mapping[str, Topology],
) -> tuple[QueueObstacle, ...]:
    """Return every reason why a ClusterQueue is inactive, in report order; empty if active."""
    found = [
        *_own(spec),
        *_flavors(spec, flavors),
        *_checks(spec, checks),
        *_topologies(spec, flavors, checks, topologies),
    ]
    order = list(InactiveReason)
    return tuple(sorted(found, key=lambda each: order.index(each.reason)))


def local_obstacles(queue: LocalQueue, exists: bool, active: bool) -> tuple[QueueObstacle, ...]:
    """Return the same for a LocalQueue, given whether its ClusterQueue exists and is active."""
    if queue.stop_policy != "None":
        return (QueueObstacle(reason=InactiveReason.STOPPED),)
    if not exists:
        return (QueueObstacle(reason=InactiveReason.QUEUE_MISSING, names=(queue.cluster_queue,)),)
    if not active:
        return (QueueObstacle(reason=InactiveReason.QUEUE_INACTIVE, names=(queue.cluster_queue,)),)
    return ()


def _own(spec: ClusterQueue) -> Iterator[QueueObstacle]:
    if spec.deleting:
        yield QueueObstacle(reason=InactiveReason.TERMINATING)
    if spec.faults:
        yield QueueObstacle(reason=InactiveReason.INVALID, names=spec.faults)
    if spec.stop_policy != "None":
        yield QueueObstacle(reason=InactiveReason.STOPPED)


def _flavors(spec: ClusterQueue, flavors: Mapping[str, ResourceFlavor]) -> Iterator[QueueObstacle]:
    missing = tuple(sorted(name for name in flavor_names(spec) if name not in flavors))
    if missing:
        yield QueueObstacle(reason=InactiveReason.FLAVOR_NOT_FOUND, names=missing)


def _checks(spec: ClusterQueue, checks: Mapping[str, AdmissionCheck]) -> Iterator[QueueObstacle]:
    names = [rule.name for rule in spec.checks]
    missing = tuple(sorted(name for name in names if name not in checks))
    if missing:
        yield QueueObstacle(reason=InactiveReason.CHECK_NOT_FOUND, names=missing)
    idle = tuple(sorted(name for name in names if name in checks and not checks[name].active))
    if idle:
        yield QueueObstacle(reason=InactiveReason.CHECK_INACTIVE, names=idle)
    multikueue = _of(spec, checks, MULTIKUEUE)
    if len(multikueue) > 1:
        yield QueueObstacle(reason=InactiveReason.MULTIPLE_MULTIKUEUE, names=multikueue)
    partial = tuple(r.name for r in spec.checks if r.name in multikueue and r.flavors)
    if partial:
        yield QueueObstacle(reason=InactiveReason.MULTIKUEUE_PER_FLAVOR, names=partial)
    provisioning = _of(spec, checks, PROVISIONING)
    if multikueue and provisioning:
        both = multikueue + provisioning
        yield QueueObstacle(reason=InactiveReason.MULTIKUEUE_AND_PROVISIONING, names=both)


def _of(
    spec: ClusterQueue, checks: Mapping[str, AdmissionCheck], controller: str
) -> tuple[str, ...]:
    names = (rule.name for rule in spec.checks)
    return tuple(sorted(n for n in names if n in checks and checks[n].controller == controller))


def _topologies(
    spec: ClusterQueue,
    flavors: Mapping[str, ResourceFlavor],
    checks: Mapping[str, AdmissionCheck],
    topologies: Mapping[str, Topology],
) -> Iterator[QueueObstacle]:
    """Missing Topologies. With MultiKueue, only the worker clusters need the Topologies."""
    if _of(spec, checks, MULTIKUEUE):
        return
    named = {flavors[name].topology for name in flavor_names(spec) if name in flavors}
    missing = tuple(sorted(name for name in named if name and name not in topologies))
    if missing:
        yield QueueObstacle(reason=InactiveReason.TOPOLOGY_NOT_FOUND, names=missing)
