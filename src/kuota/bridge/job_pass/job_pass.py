# SPDX-License-Identifier: Apache-2.0
"""One pass over a job: its inputs, the Workload that was found, and the effects so far."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from kuota.api.base import Json, Key
from kuota.api.core import DEADLINE_EXCEEDED
from kuota.api.podset import FlavorMissing
from kuota.api.priority import ClassMissing
from kuota.api.rules.metadata import elastic
from kuota.api.rules.report import child
from kuota.api.workload import TIMED_OUT

from ..draft import Draft, PassResult, StoredWorkload
from ..effects import Delete, Effect, Event
from ..jobs.composable import ComposableJob, JobWithTermination, Match, StopCause, members_of
from ..jobs.kind import ElasticJob, JobKind, JobWithFinalize, key_of
from ..jobs.members import Identity, identity_of
from ..lifecycle_view import JobPassInput
from .slices import SliceChain


class JobPass:
    """One pass over a job. `workload` is the job's Workload once it was found.

    Of an elastic job, `chain` are the open slices, and `replaced` is the slice that a new one has
    to replace.
    """

    def __init__(self, view: JobPassInput, now: float) -> None:
        self.view = view
        self.now = now
        self.job: Json = view.job or {}
        self.workload: StoredWorkload | None = None
        self.chain = SliceChain()
        self.replaced: StoredWorkload | None = None
        self.requeue_after_s: float | None = None
        self.fault = ""
        self.invalid = False
        self.missing: ClassMissing | FlavorMissing | None = None
        self.refused = ""
        self._effects: list[Effect] = []
        self._first = self._first_key()

    @property
    def key(self) -> Key:
        return self.view.key

    @property
    def kind(self) -> JobKind:
        return self.view.kind

    @property
    def suspended(self) -> bool:
        return self.kind.suspended(self.job)

    @property
    def ended(self) -> bool:
        return self.kind.end(self.job) is not None

    @property
    def elastic(self) -> bool:
        """Whether the job can be resized while it runs."""
        return isinstance(self.kind, ElasticJob) and elastic(self.job, self.view.config.gates)

    @property
    def other_slices(self) -> tuple[StoredWorkload, ...]:
        """The slice that has quota until the Workload of the pass replaces it, if any."""
        charged, found = self.chain.charged, self.workload
        if charged is None or (found is not None and found.key == charged.key):
            return ()
        return (charged,)

    @property
    def busy(self) -> bool:
        """Whether the job has pods, or its pods may still have processes."""
        occupied = self.view.occupied or ()
        return self.kind.active(self.job) or any(uid in occupied for _, uid in self._identities)

    @property
    def objects(self) -> list[Json]:
        """The job, or the members of a composed one."""
        return list(members_of(self.job)) if isinstance(self.kind, ComposableJob) else [self.job]

    @property
    def _identities(self) -> Collection[Identity]:
        if isinstance(self.kind, ComposableJob):
            return members_of(self.job).identities()
        return [identity_of(self.job)]

    def _first_key(self) -> list[Key]:
        """Return the key of the job, or of the first member of a composed one, if it has any."""
        if not isinstance(self.kind, ComposableJob):
            return [self.key]
        first = members_of(self.job).first()
        return [key_of(first)] if first is not None else []

    @property
    def deleting(self) -> bool:
        return bool(child(self.job, "metadata").get("deletionTimestamp"))

    @property
    def abandoned(self) -> bool:
        """Whether the user has deleted all members of a composed job.

        On a cluster they stay until replacements exist or the Workload is deleted, which users of
        one machine may not do. Members that were deleted because of an eviction may be replaced.
        """
        if self.view.occupied is None or not isinstance(self.kind, ComposableJob):
            return False
        evicted = any(each.true("Evicted") for each in self.view.workloads)
        return not evicted and self.kind.abandoned(self.job)

    @property
    def keys(self) -> list[Key]:
        """The keys of `objects`."""
        return members_of(self.job).keys() if isinstance(self.kind, ComposableJob) else [self.key]

    def occupied(self, stored: StoredWorkload) -> bool:
        """Whether processes may still use the quota of the Workload, even if its job is gone."""
        owners = stored.obj.metadata.owner_references or ()
        return any(each.uid in (self.view.occupied or ()) for each in owners)

    def add(self, *effects: Effect) -> None:
        self._effects += effects

    def record_event(self, reason: str, note: str, *, warning: bool = False) -> None:
        """Record an event about the job, or about the first member of a composed one."""
        for key in self._first:
            self.add(Event.about(key, reason, note, warning=warning, kind=self.kind.name))

    def record_events(self, reason: str, note: str) -> None:
        """Record an event about the job, or about every member of a composed one."""
        for key in self.keys:
            self.add(Event.about(key, reason, note, kind=self.kind.name))

    @contextmanager
    def draft(self, stored: StoredWorkload) -> Iterator[Draft]:
        """Change a Workload. The changes become effects when the block ends."""
        draft = Draft(stored, self.now)
        yield draft
        self.add(*draft.done().effects)
        if self.workload is not None and self.workload.key == stored.key:
            self.workload = draft.current

    def finalize(self) -> bool:
        """Remove the finalizers that the kind leaves on the objects of a job, if there are any."""
        effects = self.kind.finalize(self.job) if isinstance(self.kind, JobWithFinalize) else []
        self.add(*effects)
        return bool(effects)

    def apply_match(self, match: Match) -> None:
        """Continue with the members that a composed kind accepted, or end with its refusal."""
        self.job, self.refused = match.job, match.refused
        self.add(*match.effects)

    def finish(
        self, stored: StoredWorkload, reason: str, message: str, *, timed_out: bool = False
    ) -> None:
        """Set the condition Finished of a Workload, and with `timed_out` that its job was late."""
        with self.draft(stored) as draft:
            draft.set_condition("Finished", True, reason, message)
            if timed_out:
                draft.set_condition(TIMED_OUT, True, DEADLINE_EXCEEDED, message)

    def write(self, after: Json) -> None:
        """Change the job to `after`, except for its status."""
        self.add(*self.kind.write(self.job, after))
        self.job = after

    def stop(self, stored: StoredWorkload | None, reason: str, note: str) -> bool:
        """Suspend the job and restore its pod templates; False while that has to wait.

        A job that cannot be suspended is deleted, with the reason in the status of its pods.
        """
        if isinstance(self.kind, JobWithTermination):
            cause = StopCause(reason=reason, message=note, now=self.now)
            self.add(*self.kind.terminate(self.job, cause))
            return True
        pod_sets = child(stored.json, "spec").get("podSets") if stored is not None else None
        stop = self.kind.stop(self.job, pod_sets)
        self.add(*stop.effects[:1])
        if stop.begins:
            self.record_event("Stopped", note)
        # The API server may reject the restoration, and sending ends there.
        self.add(*stop.effects[1:])
        return stop.complete

    def delete(self, stored: StoredWorkload) -> None:
        """Remove the finalizer of a Workload and delete it, unless it is being deleted already."""
        with self.draft(stored) as draft:
            draft.drop_finalizer()
            if not stored.deleting:
                draft.add(Delete(key=stored.key, uid=stored.obj.metadata.uid))
        if not stored.deleting:
            self.record_event(
                "DeletedWorkload", f"Deleted workload {stored.key}, which matches no job"
            )

    def done(self) -> PassResult:
        return PassResult(
            effects=tuple(self._effects),
            requeue_after_s=self.requeue_after_s,
            fault=self.fault,
            missing=self.missing,
            invalid=self.invalid,
        )
