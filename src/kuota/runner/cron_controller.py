# SPDX-License-Identifier: Apache-2.0
"""Carries out what `cron_rules` decides about each CronJob."""

from __future__ import annotations

import asyncio

from kuota.api.base import Json, Key
from kuota.api.merge_patch import difference
from kuota.failures import INTERNAL_ERROR, note
from kuota.kube.client import Client
from kuota.kube.clock import Clock, SystemClock
from kuota.kube.errors import AlreadyExists, NotFound
from kuota.kube.events import Recorder
from kuota.kube.informer import Informer
from kuota.kube.resources import CRON_JOBS, JOBS, key_of
from kuota.kube.workqueue import WorkQueue, serve

from .cron_rules import cron_step, reference
from .job_pods import controller_of

_LONGEST_NAP_S = 60.0
"""Wall clocks are set now and then; looking this often keeps schedules true to them."""

_NAME = "cronjob-controller"
"""Who speaks in events, as in any cluster."""

OWNER = "owner"
"""The index of Jobs by the uid of the object that controls them."""


class CronController:
    """Makes Jobs on schedule while `run` runs. `jobs` is an informer that somebody else runs."""

    def __init__(
        self,
        client: Client,
        jobs: Informer[Json],
        *,
        clock: Clock | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self._client = client
        self._jobs = jobs
        jobs.add_index(OWNER, _owner)
        self._clock = clock or SystemClock()
        self._recorder = recorder
        self._crons: Informer[Json] = Informer(client, CRON_JOBS, clock=self._clock)
        self._queue: WorkQueue[Key] = WorkQueue(self._clock)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._crons.run())
            await asyncio.gather(self._crons.synced.wait(), self._jobs.synced.wait())
            self._crons.observe(self._cron_changed)
            self._jobs.observe(self._job_changed)
            group.create_task(serve(self._queue, self.reconcile, stuck=self._stuck))

    def _stuck(self, key: Key, error: Exception) -> None:
        cron = self._crons.get(key)
        if cron is not None:
            self._say(cron, INTERNAL_ERROR, note("Reconciling it", error), warning=True)

    def _cron_changed(self, old: Json | None, new: Json | None) -> None:
        if new is not None:
            self._queue.add(key_of(new))

    def _job_changed(self, old: Json | None, new: Json | None) -> None:
        job = new or old
        owner = None if job is None else controller_of(job)
        if job is not None and owner is not None and owner.get("kind") == "CronJob":
            self._queue.add(Key(key_of(job).namespace, owner["name"]))

    async def reconcile(self, key: Key) -> float | None:
        """One CronJob. Returns seconds until the next look."""
        cron = self._crons.get(key)
        if cron is None:
            return None
        now = self._clock.now().timestamp()
        step = cron_step(cron, self._jobs_of(cron), now)
        for job in step.delete:
            await self._delete(cron, job)
        if step.create is not None:
            await self._create(cron, step.create, step.status)
        await self._write_status(cron, step.status)
        for event in step.events:
            self._say(cron, event.reason, event.message, warning=event.warning)
        if step.again_at is None:
            return None
        return min(_LONGEST_NAP_S, max(0.0, step.again_at - self._clock.now().timestamp()))

    def _jobs_of(self, cron: Json) -> list[Json]:
        namespace = key_of(cron).namespace
        found = self._jobs.indexed(OWNER, cron["metadata"]["uid"])
        return [each for each in found if key_of(each).namespace == namespace]

    async def _create(self, cron: Json, job: Json, status: Json) -> None:
        try:
            made = await self._client.create(JOBS, job)
        except AlreadyExists:
            return  # made before, and not written down
        self._jobs.wrote(made)
        status["active"] = [*(status.get("active") or ()), reference(made)]
        self._say(cron, "SuccessfulCreate", f"Created job {made['metadata']['name']}")

    async def _delete(self, cron: Json, job: Json) -> None:
        meta = job["metadata"]
        try:
            await self._client.delete(
                JOBS, key_of(job), propagation="Background", uid=meta.get("uid") or ""
            )
        except NotFound:
            return
        self._say(cron, "SuccessfulDelete", f"Deleted job {meta['name']}")

    async def _write_status(self, cron: Json, status: Json) -> None:
        changes = difference(cron.get("status") or {}, status)
        if not changes:
            return
        meta = cron["metadata"]
        expected = {"resourceVersion": meta["resourceVersion"], "uid": meta["uid"]}
        body = {"metadata": expected, "status": changes}
        try:
            written = await self._client.patch(CRON_JOBS, key_of(cron), body, subresource="status")
        except NotFound:
            return
        self._crons.wrote(written)

    def _say(self, cron: Json, reason: str, note: str, *, warning: bool = False) -> None:
        if self._recorder is not None:
            self._recorder.record(cron, reason, note, warning=warning, controller=_NAME)


def _owner(job: Json) -> list[str]:
    owner = controller_of(job)
    return [] if owner is None else [owner.get("uid") or ""]
