# SPDX-License-Identifier: Apache-2.0
"""The view `workload`: one workload with its timeline, pods, events and explanation."""

from __future__ import annotations

from enum import StrEnum

from kuota.view.plan import WhyRow

from .actions import ActionName
from .base import Ref, Shape
from .places import Device
from .workloads import WorkloadRow


class TimelineStep(StrEnum):
    """The kinds of entries of a timeline."""

    SUBMITTED = "submitted"
    WAITING = "waiting"
    RESERVED = "quota reserved"
    CHECK = "admission check"
    ADMITTED = "admitted"
    PODS_READY = "pods ready"
    PREEMPTED = "preempted"
    EVICTED = "evicted"
    REQUEUED = "requeued"
    RESUMED = "resumed"
    HELD = "held"
    RELEASED = "released"
    PRIORITY = "priority changed"
    RESIZED = "resized"
    FINISHED = "finished"
    FAILED = "failed"
    OTHER = "other"


class TimelineEntry(Shape):
    """What happened to a workload. Entries are in order of time.

    `by` is the workload that preempted it, None if that is unknown or not visible. `user` is who
    did it through an action. `where` is the ClusterQueue of an admission. `count` is more than 1 if
    the entry stands for several repetitions until `time`.
    """

    time: str
    step: TimelineStep
    text: str
    reason: str = ""
    where: str = ""
    user: str = ""
    by: Ref | None = None
    count: int = 1


class PodSetRow(Shape):
    """A pod set. `admitted` is the number of pods that were admitted, None if it was not.

    `requests` is what all its pods request together, or were admitted with.
    `topology` is what it requires or prefers, such as "required: cloud.com/rack"; "" if nothing.
    """

    name: str
    count: int
    admitted: int | None = None
    requests: str = ""
    flavors: dict[str, str] = {}
    topology: str = ""
    placement: list[PlacementRow] = []


class PlacementRow(Shape):
    """Pods of a pod set in one domain. `domain` has the values of the levels, topmost first."""

    levels: list[str]
    domain: list[str]
    pods: int
    ranks: str = ""


class PodRow(Shape):
    """A pod of the workload's job. `why` says why it does not run or how it failed."""

    name: str
    phase: str
    node: str = ""
    ready: bool = False
    restarts: int = 0
    why: str = ""
    created: str = ""
    started: str = ""
    finished: str = ""
    containers: list[str] = []
    deleted: bool = False


class EventRow(Shape):
    """An Event. `type` is Normal or Warning."""

    time: str
    type: str
    reason: str
    message: str
    object: Ref
    first: str = ""
    count: int = 1
    source: str = ""


class CheckRow(Shape):
    """An admission check. `state` is Pending, Ready, Retry or Rejected."""

    name: str
    state: str
    message: str = ""
    since: str = ""
    retries: int = 0


class ConditionRow(Shape):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: str = ""


class PriorityChoice(Shape):
    """A WorkloadPriorityClass that the action `setPriority` accepts."""

    name: str
    value: int
    description: str = ""


class WorkloadModel(Shape):
    """Model of the view `workload`.

    `explanation` is what `kuota describe` says about a workload that waits: its position, the
    flavors that were tried, who is protected from preemption, and what would help. It is None if
    the workload does not wait, or if there is no explanation; `note` then says why.
    `preempts` are workloads that this one preempted. `actions` are those that make sense in its
    state; the server still checks the permissions of the viewer.
    """

    row: WorkloadRow
    uid: str = ""
    job: Ref | None = None
    timeline: list[TimelineEntry] = []
    pod_sets: list[PodSetRow] = []
    pods: list[PodRow] = []
    events: list[EventRow] = []
    checks: list[CheckRow] = []
    conditions: list[ConditionRow] = []
    explanation: WhyRow | None = None
    note: str = ""
    preempts: list[Ref] = []
    devices: list[Device] = []
    labels: dict[str, str] = {}
    time_limit_seconds: int | None = None
    requeue_at: str = ""
    priority_classes: list[PriorityChoice] = []
    actions: list[ActionName] = []
