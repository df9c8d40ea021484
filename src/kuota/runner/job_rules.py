# SPDX-License-Identifier: Apache-2.0
"""Decides the next step of one Job, given its pods and the time. Pure.

A step that creates or deletes pods is carried out first. The status is then computed again with the
resulting pods, so that it never reports what was only intended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from kuota.api.base import Json
from kuota.api.core import is_finished

from .instants import instant
from .job_pods import PodView, new_pod, pod_view
from .job_spec import JobFields, condition, is_ours, job_view
from .job_status import final_status, running_status
from .job_tally import JobCounts, index_failures, tally
from .job_target import deadline, new_target, standing_target


class ReplacementBackoff(msgspec.Struct, frozen=True):
    """How fast failed pods are replaced, and how many pods one step may create."""

    first_s: float = 10
    longest_s: float = 600
    pods: int = 500

    def wait_s(self, failures: int) -> float:
        """The delay after this number of consecutive failures."""
        if failures <= 0:
            return 0.0
        return min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, 32))


class JobActions(msgspec.Struct, frozen=True, kw_only=True):
    """The next actions, in this order.

    Pods in `drop` are not needed: their finalizer is removed first, so that they are not counted.
    Pods in `end` are deleted and counted. Pods in `release` lose their finalizer after the status
    is stored.
    """

    create: list[Json] = []
    drop: list[PodView] = []
    end: list[PodView] = []
    status: Json | None = None
    release: list[PodView] = []
    retry_at: float | None = None
    remove: bool = False


NOTHING = JobActions()


_BACKOFF = ReplacementBackoff()


def step(
    job: Json, pods: Sequence[Json], now: float, backoff: ReplacementBackoff = _BACKOFF
) -> JobActions:
    """The next step of the Job. `pods` contains all pods that it controls."""
    views = [pod_view(each) for each in pods]
    deleting = job["metadata"].get("deletionTimestamp")
    if not is_ours(job):
        # Finished Jobs expire whoever manages them, as in Kubernetes.
        return _after_the_end(job, (), now) if is_finished(job) and not deleting else NOTHING
    if deleting:
        return JobActions(release=[each for each in views if each.tracked])
    if is_finished(job):
        return _after_the_end(job, views, now)
    view = job_view(job)
    standing = standing_target(job)
    count = tally(view, views, standing is not None and standing.success)
    target = standing or new_target(view, count, views, now)
    if target is None:
        return _under_way(view, count, views, now, backoff)
    if all(each.ended for each in views):
        status = final_status(view, count, views, target, now)
        return JobActions(status=status, release=[each for each in views if each.tracked])
    # The outcome is recorded before any pod is ended for it, because ended pods must not change it.
    running = [each for each in views if each.active] if standing else []
    status = running_status(view, count, views, target, now)
    return JobActions(end=running, status=status, release=count.release)


def _after_the_end(job: Json, pods: Sequence[PodView], now: float) -> JobActions:
    release = [each for each in pods if each.tracked]
    ttl_s = job["spec"].get("ttlSecondsAfterFinished")
    if ttl_s is None:
        return JobActions(release=release)
    end = condition(job, "Complete") or condition(job, "Failed") or {}
    at = (instant(end.get("lastTransitionTime")) or now) + ttl_s
    due = now >= at
    return JobActions(release=release, remove=due, retry_at=None if due else at)


def _under_way(
    job: JobFields,
    count: JobCounts,
    pods: Sequence[PodView],
    now: float,
    backoff: ReplacementBackoff,
) -> JobActions:
    status = running_status(job, count, pods, None, now)
    moments = [deadline(msgspec.structs.replace(job, job={**job.job, "status": status}))]
    create: list[Json] = []
    drop = list(_surplus(job, count, pods))
    if not job.suspended and not drop:
        create, at = _replacements(job, count, pods, now, backoff)
        moments.append(at)
    later = [each for each in moments if each is not None]
    return JobActions(
        create=create,
        drop=drop,
        status=status,
        release=count.release,
        retry_at=min(later, default=None),
    )


def _wanted(job: JobFields, count: JobCounts, active: int) -> int:
    """The number of pods that should be active."""
    if job.suspended:
        return 0
    succeeded = count.succeeded(job.indexed)
    if job.completions is None:
        return active if succeeded else job.parallelism
    left = job.completions - succeeded - len(count.failed_indexes - count.completed)
    return max(0, min(left, job.parallelism))


def _surplus(job: JobFields, count: JobCounts, pods: Sequence[PodView]) -> Iterator[PodView]:
    """Active pods that are not needed: their index is complete, or there are too many."""
    active = [each for each in pods if each.active]
    kept = []
    taken: set[int | None] = set()
    for pod in sorted(active, key=_worth, reverse=True):
        if job.indexed and (
            not job.is_index(pod.index)
            or pod.index in taken
            or pod.index in count.completed
            or pod.index in count.failed_indexes
        ):
            yield pod
        else:
            taken.add(pod.index)
            kept.append(pod)
    for pod in kept[_wanted(job, count, len(kept)) :]:
        yield pod


def _worth(pod: PodView) -> tuple[bool, bool, bool, int, float, str]:
    """The value of a pod: greater for one that has progressed further, then for the older one."""
    bound = bool((pod.pod.get("spec") or {}).get("nodeName"))
    running = pod.phase == "Running"
    return bound, running, pod.ready, -pod.restarts, -pod.created, pod.name


def _replacements(
    job: JobFields,
    count: JobCounts,
    pods: Sequence[PodView],
    now: float,
    backoff: ReplacementBackoff,
) -> tuple[list[Json], float | None]:
    """The pods to create now, and when to check again for delayed ones."""
    active = sum(each.active for each in pods)
    # Unlike in a cluster, a pod is never replaced before its processes have ended: until then, its
    # share of the Job's quota is in use.
    room = _wanted(job, count, active) - active - sum(each.terminating for each in pods)
    room = min(room, backoff.pods)
    if room <= 0:
        return [], None
    if job.backoff_limit_per_index is None:
        at = _ready_again(pods, backoff)
        if now < at:
            return [], at
    if not job.indexed:
        return [new_pod(job.job) for _ in range(room)], None
    return _indexed(job, count, pods, now, backoff, room)


def _ready_again(pods: Sequence[PodView], backoff: ReplacementBackoff) -> float:
    """When the delay after consecutive failures ends. A success resets it."""
    ended = [each for each in pods if each.ended and (each.tracked or not each.deleting)]
    success = max((each.finished for each in ended if each.phase == "Succeeded"), default=0.0)
    failures = [
        each.finished for each in ended if each.phase == "Failed" and each.finished >= success
    ]
    if not failures:
        return 0.0
    return max(failures) + backoff.wait_s(len(failures))


def _indexed(
    job: JobFields,
    count: JobCounts,
    pods: Sequence[PodView],
    now: float,
    backoff: ReplacementBackoff,
    room: int,
) -> tuple[list[Json], float | None]:
    busy = {each.index for each in pods if each.active or each.terminating}
    limited = job.backoff_limit_per_index is not None
    create: list[Json] = []
    later: list[float] = []
    for index in range(job.completions or 0):
        if len(create) == room:
            break
        if index in busy or index in count.completed or index in count.failed_indexes:
            continue
        failures = None
        if limited:
            failures, last = index_failures(job, pods, index)
            at = last + backoff.wait_s(failures)
            if now < at:
                later.append(at)
                continue
        create.append(new_pod(job.job, index, failures))
    return create, min(later, default=None)
