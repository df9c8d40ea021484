# SPDX-License-Identifier: Apache-2.0
"""Every reason of the engine, as closed enums and as data. Other packages turn them into text."""

from __future__ import annotations

from enum import StrEnum

from kuota.api.quantity import add

from .amounts import FlavorResource
from .model import Struct


class WaitReason(StrEnum):
    """Why a workload has no quota: the reasons of condition QuotaReserved=False.

    They are Kueue's, except for INTERNAL_ERROR: scheduling this workload raised an exception.
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
"""NoFit reasons from least to most severe."""


class RequeueReason(StrEnum):
    """Why a workload is requeued, which decides where it waits."""

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

    @property
    def preempting(self) -> bool:
        """Whether victims are being evicted for the workload."""
        return self in (RequeueReason.PENDING_PREEMPTION, RequeueReason.PENDING_MIGRATION)

    @property
    def rejects_class(self) -> bool:
        """Whether all workloads with the same scheduling hash would be rejected, too."""
        return self in (RequeueReason.NO_FIT, RequeueReason.NO_CANDIDATES)

    def retries_at_once(self, *, strict: bool) -> bool:
        """Whether the reason alone moves the workload back to the heap of its queue.

        A `strict` queue (StrictFIFO) retries its head unless another attempt is pointless.
        """
        if strict:
            return self not in (RequeueReason.NAMESPACE_MISMATCH, RequeueReason.INTERNAL_ERROR)
        return self.preempting or self in (
            RequeueReason.FAILED_AFTER_NOMINATION,
            RequeueReason.PREEMPTION_FAILED,
        )


class PreemptionReason(StrEnum):
    """Why a victim was chosen: the reasons of condition Preempted=True."""

    IN_CLUSTER_QUEUE = "InClusterQueue"
    RECLAMATION = "InCohortReclamation"
    FAIR_SHARING = "InCohortFairSharing"
    RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"


class EvictionReason(StrEnum):
    """Why a workload loses its quota: the reasons of condition Evicted=True.

    The last two are for parents whose variant is evicted or no longer exists.
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


class RejectionCause(StrEnum):
    """What rejected one flavor or one pod set."""

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
    """One obstacle. The cause determines which fields are set.

    EXCEEDS_MAX: `assumed` (for earlier pod sets) + `requested` exceeds `limit`.

    INSUFFICIENT: `missing` more is needed; `limit` is available now; `where` is the binding node.

    TAINT, SLICE_FLAVOR, TOPOLOGY_*, PLACEMENT: `detail` names the taint, flavor or level, or the
    reason.
    """

    cause: RejectionCause
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
        """The total request, including earlier pod sets."""
        return add(self.assumed, self.requested)
