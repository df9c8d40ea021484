# SPDX-License-Identifier: Apache-2.0
"""Which batch/v1 Jobs are managed: those that get a Workload, and why the others get none."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from kuota.api.base import Json, Key
from kuota.api.match import matches
from kuota.api.rules.job_common import queue_name
from kuota.api.rules.report import child

from ..lifecycle_view import Rules
from .ancestor import JOB, GroupKind, Lookup, ancestor, namespace_of

NAMESPACE: GroupKind = ("", "Namespace")


class Unqueued(StrEnum):
    """Why a stored job gets no Workload of its own."""

    INTEGRATION = "the batch/job integration is disabled"
    NAMESPACE = "managedJobsNamespaceSelector does not select its namespace"
    NESTED = "it runs under a managed Job, which queues for both"
    NO_QUEUE = "it has no queue name, and manageJobsWithoutQueueName is not set"


def unqueued(job: Json, look_up: Lookup, rules: Rules) -> Unqueued | None:
    """Why the reconciler makes no Workload for a stored job; None if it does. Raises Nesting."""
    if not enabled(rules):
        return Unqueued.INTEGRATION
    if not in_scope(job, look_up, rules):
        return Unqueued.NAMESPACE
    if ancestor(job, rules.owners, look_up, manage_all=rules.manage_all) is not None:
        return Unqueued.NESTED
    return None if claimed(job, rules) else Unqueued.NO_QUEUE


def enabled(rules: Rules) -> bool:
    """Whether the batch/job integration is enabled."""
    return JOB in rules.owners.managed


def claimed(job: Json, rules: Rules) -> bool:
    """Whether a job of a managed namespace queues, provided that no managed job is above it."""
    return enabled(rules) and (rules.manage_all or bool(queue_name(job)))


def in_scope(job: Json, look_up: Lookup, rules: Rules) -> bool:
    """Whether the jobs of the job's namespace are managed."""
    found = look_up(NAMESPACE, Key("", namespace_of(job)))
    return found is not None and managed_namespace(child(found, "metadata", "labels"), rules)


def managed_namespace(labels: Mapping[str, str] | None, rules: Rules) -> bool:
    """Whether the jobs of a namespace with these labels are managed. None: there is no such one."""
    return labels is not None and matches(rules.namespaces, labels)
