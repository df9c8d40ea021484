# SPDX-License-Identifier: Apache-2.0
"""Carries out the decisions of `cron_rules` about each CronJob."""

from __future__ import annotations

import asyncio
from functools import partial

from kuota.api.base import Json, Key
from kuota.api.owners import controller_of
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import AlreadyExists
from kuota.kube.events import Recorder
from kuota.kube.informer import Informer
from kuota.kube.resources import CRON_JOBS, JOBS, key_of
from kuota.kube.workqueue import serve

from .controller import RunnerController
from .cron_rules import cron_step, reference

_LONGEST_NAP_S = 60.0
"""The wall clock may be adjusted; this interval keeps schedules accurate."""

OWNER = "owner"
"""The index of Jobs by the uid of the object that controls them."""


class CronController(RunnerController):
    """Creates Jobs on schedule while `run` runs. The caller must run the informer `jobs`."""

    def __init__(
        self,
        client: Client,
        jobs: Informer[Json],
        *,
        clock: Clock | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        crons: Informer[Json] = Informer(client, CRON_JOBS, clock=clock)
        super().__init__("cronjob-controller", client, crons, clock, recorder)
        self._jobs = jobs
        jobs.add_index(OWNER, owner_uids)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._objects.run())
            await asyncio.gather(self._objects.synced.wait(), self._jobs.synced.wait())
            self._objects.observe(self._object_changed)
            self._jobs.observe(partial(self._owned_changed, "CronJob"))
            group.create_task(serve(self._queue, self.reconcile, stuck=self._stuck))

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one CronJob. Returns the seconds until the next check."""
        cron = self._objects.get(key)
        if cron is None:
            return None
        step = cron_step(cron, self._jobs_of(cron), self._now())
        for job in step.delete:
            if await self._delete_job(job):
                self._say(cron, "SuccessfulDelete", f"Deleted job {job['metadata']['name']}")
        if step.create is not None:
            await self._create(cron, step.create, step.status)
        await self._write_status(cron, step.status)
        for event in step.events:
            self._say(cron, event.reason, event.message, warning=event.warning)
        if step.retry_at is None:
            return None
        return min(_LONGEST_NAP_S, max(0.0, step.retry_at - self._now()))

    def _jobs_of(self, cron: Json) -> list[Json]:
        namespace = key_of(cron).namespace
        found = self._jobs.indexed(OWNER, cron["metadata"]["uid"])
        return [each for each in found if key_of(each).namespace == namespace]

    async def _create(self, cron: Json, job: Json, status: Json) -> None:
        try:
            made = await self._client.create(JOBS, job)
        except AlreadyExists:
            return  # Created before, but not recorded.
        self._jobs.wrote(made)
        status["active"] = [*(status.get("active") or ()), reference(made)]
        self._say(cron, "SuccessfulCreate", f"Created job {made['metadata']['name']}")


def owner_uids(job: Json) -> list[str]:
    """The index `OWNER`."""
    owner = controller_of(job)
    return [] if owner is None else [owner.get("uid") or ""]
