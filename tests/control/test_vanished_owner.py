# SPDX-License-Identifier: Apache-2.0
"""A job whose owner does not exist gets a reason; everything else continues."""

from __future__ import annotations

from control.objects import job
from control.stage import Stage, run_scene
from kuota.kube.resources import JOBS, WORKLOADS

CONFIG = {"integrations": {"frameworks": ["batch/job", "jobset.x-k8s.io/jobset"]}}
GONE = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "name": "gone",
    "uid": "uid-gone",
    "controller": True,
}


def test_a_job_whose_owner_has_vanished_says_so_and_others_continue() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=1)
        orphan = job("orphan")
        orphan["metadata"]["ownerReferences"] = [GONE]
        await stage.api.create(JOBS, orphan)
        await stage.api.create(JOBS, job("other"))
        await stage.rest(3)
        assert [] == stage.events("Job", "orphan"), "the watch of its owner may be late"
        await stage.rest(60)
        assert "InvalidOwner" in stage.events("Job", "orphan")
        assert ["other"] == [
            each["metadata"]["ownerReferences"][0]["name"] for each in stage.api.all(WORKLOADS)
        ]
        assert not stage.suspended("other")
        await stage.edit(JOBS, "orphan", {"metadata": {"ownerReferences": None}})
        await stage.rest()
        assert 2 == len(stage.api.all(WORKLOADS)), "it is queued once its references are correct"

    run_scene(scene, CONFIG)


def test_a_job_that_has_quota_finishes_without_its_owner() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=1)
        await stage.api.create(JOBS, job("below"))
        await stage.rest()
        assert not stage.suspended("below")
        await stage.edit(JOBS, "below", {"metadata": {"ownerReferences": [GONE]}})
        done = {"type": "Complete", "status": "True", "reason": "CompletionsReached"}
        await stage.status(JOBS, "below", {"conditions": [done], "succeeded": 1, "active": 0})
        await stage.api.create(JOBS, job("next"))
        await stage.rest()
        assert "True/Succeeded" == stage.says("below", "Finished")
        assert not stage.suspended("next"), "its quota is released"

    run_scene(scene, CONFIG)
