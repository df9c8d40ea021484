# SPDX-License-Identifier: Apache-2.0
"""Admission of the Jobs in a plan (`kuota.bridge.jobs.job_webhook`)."""

from __future__ import annotations

from collections.abc import Iterable

from kuota.api.base import Json, Key
from kuota.api.rules.references import name_of
from kuota.bridge.job_pass.workload import PriorityClasses
from kuota.bridge.jobs.ancestor import GroupKind, group_kind, namespace_of
from kuota.bridge.jobs.composable import ComposableJob, Match, composed
from kuota.bridge.jobs.job_webhook import (
    UnqueuedReason,
    namespace_labels,
    reviewed,
    unclaimed,
    unqueued,
    with_default_labels,
)
from kuota.bridge.jobs.kind import JobKey, JobKind, resolved
from kuota.bridge.jobs.pod_parent import ParentView
from kuota.bridge.lifecycle_view import LifecycleConfig


class Jobs:
    """Admission as on an API server that stores all of `objects`.

    Objects must be in stored form: namespaced objects name their namespace.
    """

    def __init__(self, objects: Iterable[Json], config: LifecycleConfig) -> None:
        self._config = config
        self._stored = {_place(each): each for each in objects}
        # Whether a job is nested depends on the labels of its owners, which may follow it.
        for at, each in self._stored.items():
            if config.kind(at[0]) is not None:
                self._stored[at] = with_default_labels(each, self._find, config)

    def stored(self, kind: JobKind, job: Json) -> Json:
        """The new job in stored form. Raises Invalid and NestingError."""
        return reviewed(kind, job, None, self._find, self._config)

    def unqueued(self, kind: JobKind, stored: Json) -> UnqueuedReason | None:
        """Why neither a stored job nor its pods are queued; None if they are.

        Raises NestingError.
        """
        reason = unqueued(kind, stored, self._find, self._config)
        if reason is not UnqueuedReason.PODS:
            return reason
        return unclaimed(kind, stored, self._find, self._config)

    def parent_view(self, key: Key, stored: Json, classes: PriorityClasses) -> ParentView:
        """The view of a stored object whose pods are queued and of which nothing exists yet."""
        config = self._config
        return ParentView(
            key=key,
            obj=stored,
            manages_all=config.manages_all(namespace_labels(stored, self._find)),
            classes=classes,
            gates=config.gates,
            labels_to_copy=config.labels_to_copy,
            annotations_to_copy=config.annotations_to_copy,
        )

    def resolved(self, kind: JobKind, stored: Json) -> Json:
        """The job with what it takes from other objects."""
        return resolved(kind, stored, self._find)

    def group_of(self, kind: JobKind, obj: Json) -> JobKey | None:
        """The composed job that the object is a member of; None if it is a job itself."""
        for each in self._config.registry:
            if isinstance(each, ComposableJob) and each.member == kind.group_kind:
                name = each.group_of(obj, self._config.gates)
                if name:
                    return JobKey(each.group_kind, Key(namespace_of(obj), name))
        return None

    def composed(self, group: JobKey, members: Iterable[Json]) -> Match:
        """The composed job of these stored members, or why it is not queued."""
        kind = self._config.registry.kind(group.kind)
        assert isinstance(kind, ComposableJob)
        job = composed(kind, group.key, members, self._config.gates, 0.0)
        if kind.end(job) is not None:
            return Match(job=job, refused="all its members have ended")
        return kind.prepare(job, self._config.gates)

    def _find(self, kind: GroupKind, key: Key) -> Json | None:
        return self._stored.get((kind, key))


def _place(obj: Json) -> tuple[GroupKind, Key]:
    return group_kind(obj), Key(namespace_of(obj), name_of(obj))
