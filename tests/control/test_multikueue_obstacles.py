# SPDX-License-Identifier: Apache-2.0
"""What keeps a worker from running a job is named in the check of its Workload."""

from __future__ import annotations

from typing import Any

from control.multikueue_fleet import told
from control.objects import job, local_queue
from kuota.api.base import Key
from kuota.kube.errors import NotFound
from kuota.kube.resources import JOBS, LOCAL_QUEUES


def test_a_job_of_somebody_else_in_the_winner_is_named_in_the_check() -> None:
    async def scene(fleet: Any) -> None:
        only = fleet.members["only"]
        await only.api.create(JOBS, job("train", queue=""))
        await fleet.submit("train")
        await fleet.rest(30)
        (check,) = fleet.workload("train")["status"]["admissionChecks"]
        assert check["state"] == "Pending"
        assert "cluster only: Job team/train exists in the cluster and was not" in check["message"]
        await only.api.delete(JOBS, Key("team", "train"))
        await fleet.rest(120)
        assert fleet.where("train") == ["only"]
        assert fleet.state("train") == "Ready"

    told(scene, {"only": 4})


def test_what_workers_lack_is_named_in_the_check_until_it_exists() -> None:
    async def scene(fleet: Any) -> None:
        near, far = fleet.members["near"], fleet.members["far"]
        lacking = NotFound(404, "NotFound", 'namespaces "team" not found')
        near.api.refuse["create", "Workload"] = [lacking] * 100
        await far.api.delete(LOCAL_QUEUES, Key("team", "main"))
        await fleet.submit("train")
        await fleet.rest(60)
        (check,) = fleet.workload("train")["status"]["admissionChecks"]
        assert check["state"] == "Pending"
        assert "cluster near: cannot create Workload" in check["message"]
        assert "The namespace team and the kind Workload have to exist" in check["message"]
        assert "cluster far: LocalQueue" in check["message"]
        await far.api.apply(local_queue())
        await fleet.rest(60)
        assert fleet.where("train") == ["far"]

    told(scene)
