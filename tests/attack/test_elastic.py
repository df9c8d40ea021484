# SPDX-License-Identifier: Apache-2.0
"""A member resizes an elastic Job. Its processes hold no more than its slices are charged for."""

from __future__ import annotations

from pathlib import Path

from attack.enforced import Enforced, holder
from attack.test_quota import patched, play
from kuota.api.base import Json, Key
from kuota.api.rules.metadata import ELASTIC_JOB
from kuota.kube.requests import PatchType
from kuota.kube.resources import CLUSTER_QUEUES, JOBS

TWO = 2


async def _quota_of_two(machine: Enforced) -> None:
    """Give the team a second GPU."""
    (queue,) = [
        each
        for each in machine.store.list(CLUSTER_QUEUES.name).items
        if each["metadata"]["name"].startswith("vision")
    ]
    (group,) = queue["spec"]["resourceGroups"]
    for flavor in group["flavors"]:
        for resource in flavor["resources"]:
            resource["nominalQuota"] = str(TWO)
    key = Key("", queue["metadata"]["name"])
    body = {"spec": {"resourceGroups": [group]}}
    await machine.root.patch(CLUSTER_QUEUES, key, body, kind=PatchType.MERGE)
    machine.quota = TWO


def _elastic(name: str, pods: int) -> Json:
    made = holder(name)
    made["metadata"]["annotations"] = {ELASTIC_JOB: "true"}
    made["spec"] |= {"parallelism": pods, "completions": 100}
    return made


def test_an_elastic_job_grows_only_as_far_as_its_quota(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        await _quota_of_two(machine)
        await machine.ann.create(JOBS, _elastic("holder", 1))
        await machine.started("holder")
        await patched(machine, "holder", spec={"parallelism": 3})
        await machine.settle()
        assert machine.held() == 1
        await patched(machine, "holder", spec={"parallelism": TWO})
        await machine.until(lambda: machine.held() == TWO)
        await machine.ann.create(JOBS, holder("second"))
        await machine.settle()
        assert [] == machine.pods("second")

    play(tmp_path, story)


def test_a_smaller_elastic_job_is_charged_until_its_processes_are_gone(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        await _quota_of_two(machine)
        await machine.ann.create(JOBS, _elastic("holder", TWO))
        await machine.until(lambda: machine.held() == TWO)
        await patched(machine, "holder", spec={"parallelism": 1})
        await machine.ann.create(JOBS, holder("second"))
        await machine.settle()
        assert [] == machine.pods("second"), "a process that ignores the request to end has its GPU"
        leaving = [e for e in machine.pods() if e["metadata"].get("deletionTimestamp")]
        assert len(leaving) == 1
        await machine.end("holder")
        await machine.until(lambda: machine.pods("second"))

    play(tmp_path, story)
