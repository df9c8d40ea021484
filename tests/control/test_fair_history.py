# SPDX-License-Identifier: Apache-2.0
"""Admission fair sharing: the usage of LocalQueues is stored and restored."""

from __future__ import annotations

from control.objects import flavor, job, local_queue, queue
from control.stage import Stage, run_scene
from kuota.api.base import Json
from kuota.api.quantity import as_float
from kuota.kube.resources import LOCAL_QUEUES

CONFIG = {
    "admissionFairSharing": {"usageHalfLifeTime": "10m", "usageSamplingInterval": "5m"},
}
BY_USE: Json = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}


async def _setting(stage: Stage) -> None:
    await stage.api.apply(flavor(), queue("cq", 4, **BY_USE), local_queue(), local_queue("other"))
    await stage.rest()


def _history(stage: Stage, name: str = "main") -> Json:
    status = stage.get(LOCAL_QUEUES, name)["status"]
    found: Json = status["fairSharing"]["admissionFairSharingStatus"]["consumedResources"]
    return found


def test_what_a_queue_used_is_in_its_status_and_fades() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        assert {"cpu": "0"} == _history(stage)
        await stage.api.apply(job("a", "4"))
        await stage.rest()
        assert {"cpu": "0"} == _history(stage)
        await stage.rest(310)
        first = _history(stage)
        # The price of a start is the part of 4 CPUs that five minutes make of a half-life of ten.
        # Five minutes later as much has been used again, and part of the price is forgotten.
        assert 1.9 < as_float(first["cpu"]) < 2.1
        await stage.kubelet.succeed("a")
        await stage.rest(310)
        assert as_float(first["cpu"]) > as_float(_history(stage)["cpu"])
        assert {"cpu": "0"} == _history(stage, "other")

    run_scene(scene, CONFIG)


def test_a_queue_that_never_used_anything_is_not_written_about_again() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        before = stage.api.versions(LOCAL_QUEUES, "main")
        await stage.rest(3600)
        assert before == stage.api.versions(LOCAL_QUEUES, "main")

    run_scene(scene, CONFIG)


def test_who_used_less_goes_first_even_after_a_restart() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(job("a", "4"))
        await stage.rest(310)
        used = _history(stage)
        await stage.restart()
        await stage.rest()
        assert used == _history(stage)
        await stage.api.apply(job("greedy", "4"))
        await stage.rest(1)
        await stage.api.apply(job("modest", "4", queue="other"))
        await stage.rest()
        await stage.kubelet.succeed("a")
        await stage.rest()
        assert stage.suspended("greedy")
        assert not stage.suspended("modest")

    run_scene(scene, CONFIG)
