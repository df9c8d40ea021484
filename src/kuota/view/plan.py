# SPDX-License-Identifier: Apache-2.0
"""The output of `kuota plan`: workloads, queues, cohorts, a timeline, and notes.

This is the structure of `kuota plan -o json`, which uses camelCase names. Amounts are Kubernetes
quantities as text. Workloads are "namespace/name", with the name in their manifest. Fields may be
added, but are never renamed or removed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import dataclass_transform

import msgspec


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class ViewStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of every part of a plan."""


class PlannedState(StrEnum):
    """The state of a workload at the end of the plan."""

    ADMITTED = "admitted"
    RESERVED = "reserved"
    WAITING = "waiting"
    PREEMPTED = "preempted"
    FINISHED = "finished"
    DEACTIVATED = "deactivated"
    NOT_QUEUED = "not queued"


class Given(ViewStruct):
    """What a pod set was assigned of one resource."""

    pod_set: str
    count: int
    resource: str
    flavor: str
    amount: str


class Borrowed(ViewStruct):
    """Quota of another node that a workload uses. No lender means that usage exceeds all quota.

    `kuota.view.loans` states the rule that determines the lender.
    """

    resource: str
    flavor: str
    amount: str
    lender_kind: str = ""
    lender: str = ""


class LackRow(ViewStruct):
    """An obstacle. For quota: the amounts requested, available, and missing.

    `kind` and `where` name the node that limits the quota, and `limit` names the field.
    """

    cause: str
    text: str
    flavor: str = ""
    resource: str = ""
    requested: str = ""
    available: str = ""
    missing: str = ""
    kind: str = ""
    where: str = ""
    limit: str = ""


class TriedRow(ViewStruct):
    """A flavor that was considered for a pod set, and the result ("Fit", "Preempt", "NoFit")."""

    pod_set: str
    flavor: str
    mode: str
    lacks: list[LackRow] = []


class ProtectedRow(ViewStruct):
    """A running workload that uses the missing quota, and why it is not preempted."""

    workload: str
    cluster_queue: str
    priority: int
    protection: str
    text: str


class HelpRow(ViewStruct):
    """A suggestion. The kind of advice determines which fields are set."""

    advice: str
    text: str
    kind: str = ""
    where: str = ""
    field: str = ""
    value: str = ""
    flavor: str = ""
    resource: str = ""
    amount: str = ""
    workloads: list[str] = []


class WhyRow(ViewStruct):
    """Why a workload is not admitted. `reason` is that of its condition QuotaReserved."""

    text: str
    reason: str = ""
    why: str = ""
    position: int | None = None
    waiting: int = 0
    tried: list[TriedRow] = []
    protected: list[ProtectedRow] = []
    rivals: list[str] = []
    checks: list[str] = []
    help: list[HelpRow] = []


class PlannedWorkload(ViewStruct):
    """A workload at the end of the plan.

    `kind` and `name` are those of the manifest, `workload` is the Workload's name. `preempts` and
    `preempted_by` cover the whole plan. With partial admission, `pods` is less than the number
    requested.
    """

    name: str
    kind: str
    workload: str
    state: PlannedState
    queue: str
    cluster_queue: str
    priority: int
    pods: int
    pods_asked: int
    gets: list[Given] = []
    borrows: list[Borrowed] = []
    preempts: list[str] = []
    preempted_by: list[str] = []
    why: WhyRow | None = None


class QuotaRow(ViewStruct):
    """One flavor-resource of a queue or cohort. `lent` is what others use of its own quota.

    `total` is the nominal quota of the node and of everything below it; `used` counts the same.
    """

    flavor: str
    resource: str
    nominal: str
    total: str
    used: str
    borrowed: str
    lent: str
    borrowing_limit: str | None = None
    lending_limit: str | None = None


class QueueRow(ViewStruct):
    """A ClusterQueue at the end of the plan. `inactive` lists all reasons why it is inactive."""

    name: str
    cohort: str
    active: bool
    pending: int
    holding: int
    quotas: list[QuotaRow]
    inactive: list[str] = []


class CohortRow(ViewStruct):
    """A Cohort that has its own quota or members."""

    name: str
    parent: str
    quotas: list[QuotaRow]


class TimelineRow(ViewStruct):
    """The events of one workload at one instant, `at_s` seconds after the start."""

    at_s: float
    time: str
    workload: str
    events: list[str]
    text: str


class Plan(ViewStruct):
    """Everything that `kuota plan` shows. `restless` workloads preempt each other endlessly."""

    summary: dict[str, int]
    workloads: list[PlannedWorkload]
    cluster_queues: list[QueueRow]
    cohorts: list[CohortRow]
    timeline: list[TimelineRow] = []
    restless: list[str] = []
    notes: list[str] = []
