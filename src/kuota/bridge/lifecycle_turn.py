# SPDX-License-Identifier: Apache-2.0
"""A job on its way through one pass: the job and its Workload as they will be, and the writes."""

from __future__ import annotations

from kuota.api.base import Json, Key
from kuota.api.rules.job_common import STOPPING, suspended
from kuota.api.rules.metadata import annotation
from kuota.api.rules.report import child

from .draft import Draft, Pass, Seen
from .effects import Delete, Effect, Event, StatusPatch, edit
from .jobs.job_start import as_before, stopping
from .lifecycle_view import JobView

JOB = "Job"
FINALIZER = "kueue.x-k8s.io/resource-in-use"


class Turn:
    """One pass over a job. `seen` is its Workload once it was found."""

    def __init__(self, view: JobView, now: float) -> None:
        self.view = view
        self.now = now
        self.job: Json = view.job or {}
        self.seen: Seen | None = None
        self.again_s: float | None = None
        self.fault = ""
        self._effects: list[Effect] = []

    @property
    def key(self) -> Key:
        return self.view.key

    def add(self, *effects: Effect) -> None:
        self._effects += effects

    def tell(self, reason: str, note: str, *, warning: bool = False) -> None:
        self.add(Event.about(self.key, reason, note, warning=warning, kind=JOB))

    def draft(self, seen: Seen) -> Draft:
        return Draft(seen, self.now)

    def take(self, draft: Draft) -> None:
        """Keep what was drafted about a Workload."""
        self.add(*draft.done().effects)
        if self.seen is not None and self.seen.key == draft.obj.key:
            self.seen = draft.seen

    def write(self, after: Json) -> None:
        """Make the job so; its status is left alone."""
        self.add(*edit(JOB, self.key, self.job, after))
        self.job = after

    def stop(self, seen: Seen | None, note: str) -> bool:
        """Suspend the job and take back what its start gave it; whether all of it is taken back.

        Three writes, because a Job may be set back only while suspended, without a start time and
        without active pods. The mark of the first makes the next pass go on, should this one be
        cut off or have to wait for the pods.
        """
        pod_sets = child(seen.json, "spec").get("podSets") if seen is not None else None
        if suspended(self.job):
            self.write(as_before(self.job, pod_sets))
            return True
        told = annotation(self.job, STOPPING) == "true"
        self.write(stopping(self.job))
        if not told:
            self.tell("Stopped", note)
        if child(self.job, "status").get("startTime"):
            version = child(self.job, "metadata").get("resourceVersion", "")
            cleared = {"startTime": None}
            self.add(StatusPatch(key=self.key, resource_version=version, status=cleared, kind=JOB))
        if child(self.job, "status").get("active"):
            return False
        self.write(as_before(self.job, pod_sets))
        return True

    def delete(self, seen: Seen) -> None:
        """Let go of a Workload, and delete it."""
        draft = self.draft(seen)
        draft.drop_finalizer(FINALIZER)
        self.add(*draft.done().effects, Delete(key=seen.key, uid=seen.obj.metadata.uid))
        self.tell(
            "DeletedWorkload", f"Deleted workload {seen.key}, which is not the job's any more"
        )

    def done(self) -> Pass:
        return Pass(effects=tuple(self._effects), again_s=self.again_s, fault=self.fault)
