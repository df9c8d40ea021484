# SPDX-License-Identifier: Apache-2.0
"""What a job shows after the API server has rejected a write about it."""

from __future__ import annotations

from typing import Any

import pytest

from control.objects import job
from control.stage import Stage, run_scene
from kuota.api.base import Json
from kuota.kube.errors import Conflict, NotFound, ServerError
from kuota.kube.resources import CORE_EVENTS

MISSING = NotFound(404, "NotFound", 'namespaces "team" not found')


def _about_job(stage: Stage, reason: str) -> list[Json]:
    events = stage.api.all(CORE_EVENTS)
    about = (each for each in events if each["involvedObject"]["kind"] == "Job")
    return [each for each in about if each["reason"] == reason]


def test_a_workload_that_cannot_be_created_for_lack_of_its_namespace_is_reported() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        stage.api.refuse["create", "Workload"] = [MISSING, MISSING]
        await stage.api.apply(job("train", "1"))
        await stage.rest()
        (told,) = _about_job(stage, "ErrWorkloadCompose")
        assert 'namespaces "team" not found' in told["message"]
        assert stage.says("train", "Admitted") == "True/Admitted", "the creation was repeated"

    run_scene(scene)


@pytest.mark.parametrize(
    "error",
    [ServerError(500, "InternalError", "etcd is slow"), Conflict(409, "Conflict", "changed")],
    ids=["an error of the server", "a conflict"],
)
@pytest.mark.parametrize("failures", [1, 3])
def test_the_event_of_a_finished_workload_survives_failed_writes(error: Any, failures: int) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("train", "1"))
        await stage.rest()
        stage.api.refuse["status", "Workload"] = [error] * failures
        await stage.kubelet.succeed("train")
        await stage.rest(60)
        assert not stage.api.refuse["status", "Workload"], "no write has failed"
        assert stage.says("train", "Finished") == "True/Succeeded"
        (told,) = _about_job(stage, "FinishedWorkload")
        assert 1 == told["count"]

    run_scene(scene)


def test_the_event_of_a_finished_workload_is_recorded_once_if_its_release_fails() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("train", "1"))
        await stage.rest()
        stage.api.refuse["patch", "Workload"] = [ServerError(500, "InternalError", "slow")] * 2
        await stage.kubelet.succeed("train")
        await stage.rest(60)
        assert not stage.api.refuse["patch", "Workload"], "no write has failed"
        (told,) = _about_job(stage, "FinishedWorkload")
        assert 1 == told["count"]

    run_scene(scene)
