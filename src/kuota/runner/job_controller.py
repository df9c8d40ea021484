# SPDX-License-Identifier: Apache-2.0
"""Carries out the decisions of `job_rules` about each Job.

A Job is reconciled by one worker at a time. A step first creates and deletes pods, and then decides
again with the resulting pods. The status is written only if the Job has not changed since the
decision, and finalizers are removed last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from kuota.api.base import Json, Key
from kuota.api.core import is_finished
from kuota.api.owners import controller_of
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import Forbidden, NotFound
from kuota.kube.events import Recorder
from kuota.kube.informer import Informer
from kuota.kube.requests import PatchType
from kuota.kube.resources import PODS, key_of
from kuota.kube.workqueue import serve

from .job_pods import FINALIZER, PodView, job_key, pod_view
from .job_rules import JobActions, ReplacementBackoff, step
from .pod_controller import PodController
from .pod_informer import JOB, is_over

WORKERS = 4
_ROUNDS = 20
_LULL_S = 0.1
"""Delay for unimportant changes such as readiness, which saves writes for short Jobs."""

_NO_QUOTA_S = 0.5
"""Delay before a Job that may not have more pods is checked again."""


class JobController(PodController):
    """Keeps the pods and the status of every Job as specified while `run` runs.

    A Job gets pods only while `may_create` allows it.
    """

    def __init__(
        self,
        client: Client,
        jobs: Informer[Json],
        pods: Informer[Json],
        *,
        clock: Clock | None = None,
        backoff: ReplacementBackoff | None = None,
        recorder: Recorder | None = None,
        may_create: Callable[[Json], bool] = lambda job: True,
    ) -> None:
        super().__init__("job-controller", client, jobs, pods, clock, recorder)
        self._backoff = backoff or ReplacementBackoff()
        self._may_create = may_create

    async def run(self) -> None:
        """Reconcile until cancelled. Both informers must be running."""
        await asyncio.gather(self._objects.synced.wait(), self._pods.synced.wait())
        self._pods.observe(self._pod_changed)
        self._objects.observe(self._job_changed)
        await serve(self._queue, self.reconcile, WORKERS, self._stuck)

    def _job_changed(self, old: Json | None, new: Json | None) -> None:
        obj = new or old
        if obj is not None:
            self._queue.add(key_of(obj))

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        wait_s = 0.0 if _matters(old, new) else _LULL_S
        for pod in (old, new):
            job = None if pod is None else job_key(pod)
            if job is not None:
                self._queue.add_after(job, wait_s)

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one Job completely. Returns the seconds until the next check."""
        job = self._objects.get(key)
        await self._free_strays(key, job)
        if job is None:
            return None
        refusal: Forbidden | None = None
        for _ in range(_ROUNDS):
            todo = self._step(job, creating=refusal is None)
            if not (todo.create or todo.drop or todo.end):
                break
            try:
                await self._change_pods(job, todo)
            except Forbidden as error:
                # The pods that exist are counted even if the Job may not have more of them.
                refusal = error
        if is_finished(job):
            for pod in self._pods_of(job):
                if is_over(pod):
                    self._pods.pack(pod)
        retry_s = await self._conclude(job, todo)
        if refusal is not None:
            raise refusal
        return retry_s

    def _step(self, job: Json, *, creating: bool) -> JobActions:
        todo = step(job, self._pods_of(job), self._now(), self._backoff)
        if not todo.create or (creating and self._may_create(job)):
            return todo
        again_at = self._now() + _NO_QUOTA_S
        return replace(todo, create=[], retry_at=min(again_at, todo.retry_at or again_at))

    def _pods_of(self, job: Json) -> list[Json]:
        """The pods that the Job controls."""
        pods = self._pods.indexed(JOB, str(key_of(job)))
        return [each for each in pods if _owner_uid(each) == job["metadata"]["uid"]]

    async def _free_strays(self, key: Key, job: Json | None) -> None:
        """Remove the finalizer of pods whose Job is gone or no longer controls them."""
        uid = None if job is None else job["metadata"]["uid"]
        for pod in self._pods.indexed(JOB, str(key)):
            if _owner_uid(pod) != uid:
                await self._release(pod_view(pod))

    async def _change_pods(self, job: Json, todo: JobActions) -> None:
        for view in todo.drop:
            await self._release(view)
            await self._delete(job, view)
        for view in todo.end:
            await self._delete(job, view)
        if todo.create:
            await self._create(job, todo.create)

    async def _conclude(self, job: Json, todo: JobActions) -> float | None:
        if todo.status is not None:
            changes = await self._write_status(job, todo.status)
            before = (job.get("status") or {}).get("conditions") or ()
            for condition in changes.get("conditions") or ():
                if condition not in before:
                    self._tell(job, condition)
        for view in todo.release:
            await self._release(view)
        if todo.remove:
            await self._delete_job(job)
        return None if todo.retry_at is None else max(0.0, todo.retry_at - self._now())

    async def _release(self, view: PodView) -> None:
        """Remove our finalizer from the pod if it still exists and has it."""
        if not view.tracked:
            return
        meta = {"uid": view.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}
        try:
            answer = await self._client.patch(
                PODS, key_of(view.pod), {"metadata": meta}, kind=PatchType.STRATEGIC
            )
        except NotFound:
            return
        self._pods.wrote(answer)

    def _tell(self, job: Json, condition: Json) -> None:
        """Record the event of a new condition."""
        reason, message = condition.get("reason") or "", condition.get("message") or ""
        match condition["type"], condition["status"]:
            case "Suspended", "True":
                self._say(job, "Suspended", message)
            case "Suspended", _:
                self._say(job, "Resumed", message)
            case "Complete", "True":
                self._say(job, "Completed", "Job completed")
            case "Failed", "True":
                self._say(job, reason, message, warning=True)


def _owner_uid(pod: Json) -> str:
    found = controller_of(pod)
    return (found or {}).get("uid") or ""


def _matters(old: Json | None, new: Json | None) -> bool:
    """Whether a change can advance the Job and therefore must not be delayed."""
    if old is None or new is None:
        return True
    before, after = pod_view(old), pod_view(new)
    return (before.phase != after.phase and after.ended) or (
        before.deleting,
        before.tracked,
        before.restarts,
    ) != (after.deleting, after.tracked, after.restarts)
