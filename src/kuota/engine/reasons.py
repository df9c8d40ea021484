# SPDX-License-Identifier: Apache-2.0
"""Every reason the engine gives, as closed lists and as data; words are made of them elsewhere."""

from __future__ import annotations

from enum import StrEnum

from kuota.api.quantity import add

from .amounts import FlavorResource
from .model import Struct


class WaitReason(StrEnum):
    """Why a workload has no quota: the reasons of condition QuotaReserved=False.

    They are Kueue's, but for INTERNAL_ERROR: a bug in the scheduler shows with this workload.
    """

    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    TOPOLOGY_PLACEMENT_FAILED = "TopologyPlacementFailed"
    WAITING_FOR_PREEMPTED = "WaitingForPreemptedWorkloads"
    WAITING_FOR_PODS_READY = "WaitingForPodsReady"
    MISCONFIGURED = "Misconfigured"
    SUSPENDED = "Suspended"
    PENDING_EVALUATION = "PendingEvaluation"
    ADMISSION_GATED = "AdmissionGated"
    DEACTIVATED = "Deactivated"
    ON_HOLD = "OnHold"
    INTERNAL_ERROR = "InternalError"


SEVERITY = (
    WaitReason.TOPOLOGY_PLACEMENT_FAILED,
    WaitReason.WAITING_FOR_QUOTA,
    WaitReason.EXCEEDS_MAX_QUOTA,
    WaitReason.NO_MATCHING_FLAVOR,
)
"""NoFit reasons from mild to severe."""


class RequeueReason(StrEnum):
    """How a workload that was not admitted goes back to its queue."""

    GENERIC = ""
    NAMESPACE_MISMATCH = "NamespaceMismatch"
    NO_FIT = "NoFit"
    NO_CANDIDATES = "PreemptionNoCandidates"
    GATED = "PreemptionGated"
    PENDING_PREEMPTION = "PendingPreemption"
    PENDING_MIGRATION = "PendingMigration"
    PREEMPTION_FAILED = "PreemptionFailed"
    FAILED_AFTER_NOMINATION = "FailedAfterNomination"
    INTERNAL_ERROR = "InternalError"


class PreemptionReason(StrEnum):
    """Why a victim was chosen: the reasons of condition Preempted=True."""

    IN_CLUSTER_QUEUE = "InClusterQueue"
    RECLAMATION = "InCohortReclamation"
    FAIR_SHARING = "InCohortFairSharing"
    RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"


class EvictionReason(StrEnum):
    """Why a workload loses its quota: the reasons of condition Evicted=True.

    The last two are for parents whose variant goes, or is not there any more.
    """

    PREEMPTED = "Preempted"
    PODS_READY_TIMEOUT = "PodsReadyTimeout"
    ADMISSION_CHECK = "AdmissionCheck"
    CLUSTER_QUEUE_STOPPED = "ClusterQueueStopped"
    LOCAL_QUEUE_STOPPED = "LocalQueueStopped"
    NODE_FAILURES = "NodeFailures"
    FLAVOR_MIGRATION = "FlavorMigration"
    DEACTIVATED = "Deactivated"
    VARIANT_EVICTED = "VariantEvicted"
    NO_VARIANT = "ConcurrentAdmission"


class Cause(StrEnum):
    """What stood in the way of one flavor, or of one pod set."""

    EXCEEDS_MAX = "ExceedsMax"
    INSUFFICIENT = "Insufficient"
    UNDECLARED = "Undeclared"
    FLAVOR_NOT_FOUND = "FlavorNotFound"
    TAINT = "Taint"
    AFFINITY = "Affinity"
    NO_TOPOLOGY = "NoTopology"
    ONLY_TOPOLOGY = "OnlyTopology"
    TOPOLOGY_NOT_LOADED = "TopologyNotLoaded"
    TOPOLOGY_LEVEL = "TopologyLevel"
    PLACEMENT = "Placement"
    PINNED = "Pinned"
    RESTRICTED = "Restricted"
    SLICE_FLAVOR = "SliceFlavor"


class Reason(Struct):
    """One obstacle. Which fields are set follows from the cause.

    EXCEEDS_MAX: `assumed` (for earlier pod sets) + `requested` is more than `limit`.
    INSUFFICIENT: `missing` more would be needed; `limit` is what is available now, and `where`
    the node of the tree that leaves no more.
    TAINT, SLICE_FLAVOR, TOPOLOGY_*, PLACEMENT: `detail` names the taint, flavor, level or says why.
    """

    cause: Cause
    flavor: str = ""
    resource: str = ""
    assumed: int = 0
    requested: int = 0
    limit: int = 0
    missing: int = 0
    detail: str = ""
    where: str = ""

    @property
    def column(self) -> FlavorResource:
        return FlavorResource(self.flavor, self.resource)

    @property
    def asked(self) -> int:
        """What is asked for in all, earlier pod sets included."""
        return add(self.assumed, self.requested)
