# SPDX-License-Identifier: Apache-2.0
"""Explanations as data. `kuota.view` turns them into text."""

from __future__ import annotations

from enum import StrEnum

from kuota.api.base import Key

from .activity import QueueObstacle
from .assignment import AssignmentMode
from .decisions import WaitCause
from .model import Struct
from .reasons import Reason, WaitReason


class SchedulingPhase(StrEnum):
    """The progress of a workload towards admission."""

    ADMITTED = "Admitted"
    RESERVED = "QuotaReserved"
    WAITING = "Waiting"
    UNQUEUED = "NotQueued"
    DEACTIVATED = "Deactivated"
    FINISHED = "Finished"


class Limit(StrEnum):
    """The field of a ClusterQueue or Cohort that limits the available quota."""

    NOMINAL = "nominalQuota"
    BORROWING = "borrowingLimit"
    LENDING = "lendingLimit"


class UnlentQuota(Struct):
    """Quota that a lending limit withholds from others."""

    kind: str
    name: str
    amount: int


class Shortfall(Struct):
    """One obstacle to a flavor.

    For quota, `kind` and `where` name the binding ClusterQueue or Cohort, and `limit` the binding
    field. `unlent` is quota that would help but is not lent.
    """

    reason: Reason
    kind: str = ""
    where: str = ""
    limit: Limit | None = None
    unlent: tuple[UnlentQuota, ...] = ()


class TriedFlavor(Struct):
    """A flavor that was tried for a pod set. An empty `lacks` means that it fits."""

    pod_set: str
    flavor: str
    mode: AssignmentMode
    lacks: tuple[Shortfall, ...] = ()


class ProtectionReason(StrEnum):
    """Why a running workload cannot be preempted."""

    WITHIN_POLICY = "withinClusterQueue"
    RECLAIM_POLICY = "reclaimWithinCohort"
    BORROW_POLICY = "borrowWithinCohort"
    PRIORITY = "Priority"
    WITHIN_QUOTA = "WithinQuota"
    INACTIVE_QUEUE = "InactiveQueue"
    FAIR_SHARE = "FairShare"
    NOT_ENOUGH = "NotEnough"


class ProtectedWorkload(Struct):
    """A running workload that uses missing quota, and what protects it.

    `by` names the queue or cohort whose policy or quota protects it; `value` is the policy's value.
    """

    workload: Key
    cluster_queue: str
    priority: int
    protection: ProtectionReason
    by: str = ""
    value: str = ""


class Advice(StrEnum):
    """What would help: waiting first, then actions of the job's owner, then of administrators.

    The first nine are suggested in this order.
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
    """One suggestion. It helps on its own, unless several suggestions share its flavor and advice.

    `kind` and `where` name the object to change; `field` and `value` say what to set. `amount` is
    how much of `resource` must be released, added to a limit, or requested at most; for
    RAISE_PRIORITY it is the sufficient priority. `detail` is the policy's current value, the taint,
    or additional text. `workloads` are the victims, or the workloads to wait for.
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
    """The phase of a workload and why it is not further.

    `position` is 1 for the next workload of the ClusterQueue, or None if the workload is not
    queued; `waiting` is the length of the queue. `why` is None if the last evaluation found no
    obstacle. `obstacles` concern the queue. `rivals` are workloads ahead that keep the quota or the
    position.
    """

    workload: Key
    phase: SchedulingPhase
    local_queue: Key
    cluster_queue: str = ""
    priority: int = 0
    position: int | None = None
    waiting: int = 0
    last: str = ""
    why: WaitCause | None = None
    reason: WaitReason | None = None
    details: tuple[str, ...] = ()
    obstacles: tuple[QueueObstacle, ...] = ()
    tried: tuple[TriedFlavor, ...] = ()
    protected: tuple[ProtectedWorkload, ...] = ()
    rivals: tuple[Key, ...] = ()
    checks: tuple[str, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
