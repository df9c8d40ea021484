# SPDX-License-Identifier: Apache-2.0
"""A controller starts while long lists are still being read."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from control.objects import job
from control.stage import Stage, run_scene
from kuota.api.base import Json, Key
from kuota.bridge.jobs.batch_job import BatchJob
from kuota.bridge.jobs.kind import JobKey
from kuota.bridge.lifecycle_view import LifecycleConfig
from kuota.control.reconcile_job import JobReconciler


def test_jobs_at_the_beginning_of_a_long_list_are_reconciled() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.stop()
        await stage.api.apply(job("one"), job("two"))
        stage.api.page_s = 1.0
        stage.start()
        await stage.rest(20)
        assert not stage.suspended("one")
        assert not stage.suspended("two")

    run_scene(scene)


def test_only_existing_jobs_of_an_unknown_kind_are_kept_for_a_later_pass() -> None:
    at = JobKey(BatchJob().group_kind, Key("team", "a"))
    existing: dict[JobKey, Json] = {}
    unknown = SimpleNamespace(known=lambda _kind: False)
    world: Any = SimpleNamespace(job_caches=unknown, job=existing.get)
    nothing: Any = None
    reconciler = JobReconciler(world, nothing, nothing, LifecycleConfig())

    def kept_after_a_pass() -> set[JobKey]:
        asyncio.run(reconciler.reconcile(at))
        return reconciler.take_postponed(at.kind)

    assert set() == kept_after_a_pass(), "kinds that are never defined would fill the memory"
    existing[at] = job("a")
    assert {at} == kept_after_a_pass()
    asyncio.run(reconciler.reconcile(at))
    del existing[at]
    assert set() == kept_after_a_pass()
