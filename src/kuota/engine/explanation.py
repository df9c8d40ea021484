# SPDX-License-Identifier: Apache-2.0
"""The answer to "why not now?" as data; words are made of it in `kuota.view`."""

from __future__ import annotations

from enum import StrEnum

from kuota.api.base import Key

from .activity import Obstacle
from .assignment import Mode
from .decisions import Why
from .model import Struct
from .reasons import Reason, WaitReason


class Phase(StrEnum):
    """How far a workload has come."""

    ADMITTED = "Admitted"
    RESERVED = "QuotaReserved"
    WAITING = "Waiting"
    UNQUEUED = "NotQueued"
    DEACTIVATED = "Deactivated"
    FINISHED = "Finished"


class Limit(StrEnum):
    """The field of a ClusterQueue or Cohort that ends the room."""

    NOMINAL = "nominalQuota"
    BORROWING = "borrowingLimit"
    LENDING = "lendingLimit"


class UnlentQuota(Struct):
    """Quota that a lending limit keeps from others."""

    kind: str
    name: str
    amount: int


class Shortfall(Struct):
    """One obstacle on the way to a flavor.

    For quota, `kind` and `where` name the ClusterQueue or Cohort that leaves no more, and `limit`
    the field that says so. `kept` is quota that would help, but is not lent.
    """

    reason: Reason
    kind: str = ""
    where: str = ""
    limit: Limit | None = None
    kept: tuple[UnlentQuota, ...] = ()


class TriedFlavor(Struct):
    """A flavor that was considered for a pod set. No lacks means that it fits."""

    pod_set: str
    flavor: str
    mode: Mode
    lacks: tuple[Shortfall, ...] = ()


class ProtectionReason(StrEnum):
    """Why a running workload cannot be made to go."""

    WITHIN_POLICY = "withinClusterQueue"
    RECLAIM_POLICY = "reclaimWithinCohort"
    BORROW_POLICY = "borrowWithinCohort"
    PRIORITY = "Priority"
    WITHIN_QUOTA = "WithinQuota"
    INACTIVE_QUEUE = "InactiveQueue"
    FAIR_SHARE = "FairShare"
    NOT_ENOUGH = "NotEnough"


class ProtectedWorkload(Struct):
    """A running workload that holds what is missing, and what protects it.

    `by` names the queue or cohort whose policy or quota is meant, `value` what the policy says.
    """

    workload: Key
    cluster_queue: str
    priority: int
    protection: ProtectionReason
    by: str = ""
    value: str = ""


class Advice(StrEnum):
    """What would help. First waiting, then what the owner of the job can do, then administrators.

    The order of the first nine is that in which they are suggested.
    """

    WAIT_FOR_RELEASE = "WaitForRelease"
    ASK_LESS = "AskLess"
    TOLERATE = "Tolerate"
    MATCH_NODES = "MatchNodes"
    RAISE_PRIORITY = "RaisePriority"
    SET_POLICY = "SetPolicy"
    RAISE_LIMIT = "RaiseLimit"
    OFFER_RESOURCE = "OfferResource"
    CREATE = "Create"
    RESUME = "Resume"
    ACTIVATE = "Activate"
    ADMIT_NAMESPACE = "AdmitNamespace"
    CORRECT = "Correct"
    WAIT_FOR_OTHERS = "WaitForOthers"
    WAIT_FOR_PREEMPTED = "WaitForPreempted"
    WAIT_FOR_CHECKS = "WaitForChecks"


class Suggestion(Struct):
    """One thing that would help, by itself unless there are several of its flavor and advice.

    `kind` and `where` name the object to look at, `field` and `value` what to set there. `amount`
    is how much of `resource` is to be released, to be added to a limit, or to be asked for at most;
    for RAISE_PRIORITY the priority that suffices. `detail` is what a policy says now, the taint, or
    what else there is to say. `workloads` are those who would have to go, or
    who have to be waited for.
    """

    advice: Advice
    kind: str = ""
    where: str = ""
    field: str = ""
    value: str = ""
    flavor: str = ""
    resource: str = ""
    amount: int = 0
    detail: str = ""
    workloads: tuple[Key, ...] = ()


class Explanation(Struct):
    """Where a workload stands and why it is not further.

    `position` is 1 for the one that goes next in its ClusterQueue, None when it does not wait
    there; `waiting` is how many do. `why` is None for one that was not held up when last asked.
    `obstacles` are those of its queue. `rivals` keep the room, or their place, before it.
    """

    workload: Key
    phase: Phase
    local_queue: Key
    cluster_queue: str = ""
    priority: int = 0
    position: int | None = None
    waiting: int = 0
    last: str = ""
    why: Why | None = None
    reason: WaitReason | None = None
    details: tuple[str, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    tried: tuple[TriedFlavor, ...] = ()
    protected: tuple[ProtectedWorkload, ...] = ()
    rivals: tuple[Key, ...] = ()
    checks: tuple[str, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
