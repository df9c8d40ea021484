# SPDX-License-Identifier: Apache-2.0
"""A member with a quota of one GPU never holds two, whatever the member requests.

What counts are the devices that processes hold, not what the API says: `Enforced.until` checks them
after every change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from attack.enforced import TEAM, Enforced, enforced, holder
from attack.members import job
from kuota.api.base import Json, Key
from kuota.kube.errors import ApiError, KubeError
from kuota.kube.requests import PatchType
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    CRON_JOBS,
    JOBS,
    PODS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)

Story = Callable[[Enforced], Awaitable[None]]
QUEUE = "kueue.x-k8s.io/queue-name"


def play(folder: Path, story: Story, **options: Any) -> None:
    async def whole() -> None:
        async with enforced(folder, **options) as machine:
            await story(machine)

    asyncio.run(whole())


async def refused(attempt: Awaitable[Any]) -> str:
    """The message with which a request is rejected."""
    with pytest.raises(ApiError) as error:
        await attempt
    return str(error.value)


async def patched(machine: Enforced, name: str, **fields: Any) -> Json:
    """Patch a Job as the member."""
    return await machine.ann.patch(JOBS, Key(TEAM, name), fields, kind=PatchType.MERGE)


async def holding(machine: Enforced, name: str = "holder") -> None:
    await machine.ann.create(JOBS, holder(name))
    await machine.started(name)


async def waits(machine: Enforced, name: str) -> None:
    """Check that the Job does not get a pod, even though everything was processed."""
    await machine.settle()
    assert [] == machine.pods(name)
    assert machine.held() == 1


def test_members_leave_the_owner_of_a_pod_alone(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        await holding(machine)
        (pod,) = machine.pods()
        key = Key(TEAM, pod["metadata"]["name"])
        nothing: list[Json] = []
        for owners in (None, nothing):
            lost: Json = {"metadata": {"ownerReferences": owners}}
            said = await refused(machine.ann.patch(PODS, key, lost, kind=PatchType.MERGE))
            assert "which Job is charged" in said
        kept = {"metadata": {"labels": {"note": "mine"}, "finalizers": None}}
        await machine.ann.patch(PODS, key, kept, kind=PatchType.MERGE)
        await machine.settle()
        assert (1, 1) == (machine.held(), len(machine.pods()))

    play(tmp_path, story)


def _unqueued() -> Json:
    return holder("attempt", queue="")


def _unknown_queue() -> Json:
    return holder("attempt", queue="unknown")


def _running_from_the_start() -> Json:
    made = holder("attempt")
    made["spec"]["suspend"] = False
    return made


def _owned(kind: str) -> Callable[[Json], Json]:
    def made(owner: Json) -> Json:
        child = holder("attempt", queue="")
        reference = {"apiVersion": "batch/v1", "kind": kind, "name": "holder"}
        uid = {"uid": owner["metadata"]["uid"], "controller": True}
        child["metadata"]["ownerReferences"] = [reference | uid]
        return child

    return made


@pytest.mark.parametrize(
    "attempt",
    [
        lambda owner: _unqueued(),
        lambda owner: _unknown_queue(),
        lambda owner: _running_from_the_start(),
        _owned("Job"),
    ],
    ids=["without a queue", "in an unknown queue", "not suspended", "owned by a running Job"],
)
def test_a_second_job_waits_and_cannot_be_resumed(
    tmp_path: Path, attempt: Callable[[Json], Json]
) -> None:
    async def story(machine: Enforced) -> None:
        await holding(machine)
        owner = machine.store.get(JOBS.name, Key(TEAM, "holder"))
        assert owner is not None
        await machine.ann.create(JOBS, attempt(owner))
        await waits(machine, "attempt")
        said = await refused(patched(machine, "attempt", spec={"suspend": False}))
        assert "spec.suspend is set by the queue" in said
        assert "spec.suspend" in await refused(
            machine.root.patch(
                JOBS, Key(TEAM, "attempt"), {"spec": {"suspend": None}}, kind=PatchType.MERGE
            )
        )
        await waits(machine, "attempt")

    play(tmp_path, story)


def test_jobs_of_a_cron_job_wait_too(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        await holding(machine)
        template = {"spec": holder()["spec"]}
        spec = {"schedule": "* * * * *", "jobTemplate": template, "suspend": True}
        await machine.ann.create(
            CRON_JOBS, {"metadata": {"name": "often", "namespace": TEAM}, "spec": spec}
        )
        owner = machine.store.get(CRON_JOBS.name, Key(TEAM, "often"))
        assert owner is not None
        # What `kubectl create job --from=cronjob/often` sends.
        made = _owned("CronJob")(owner)
        made["metadata"]["ownerReferences"][0]["name"] = "often"
        await machine.ann.create(JOBS, made)
        await waits(machine, "attempt")

    play(tmp_path, story)


def test_a_running_job_cannot_leave_its_queue_or_its_pods(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        await holding(machine)
        await machine.ann.create(JOBS, holder("attempt"))
        for name in (None, "other"):
            await refused(patched(machine, "holder", metadata={"labels": {QUEUE: name}}))
        said = await refused(patched(machine, "holder", metadata={"finalizers": ["orphan"]}))
        assert "without quota" in said
        key = Key(TEAM, "holder")
        for client in (machine.ann, machine.root):
            said = await refused(client.delete(JOBS, key, propagation="Orphan"))
            assert "--cascade=background" in said
        await waits(machine, "attempt")

    play(tmp_path, story)


def test_raising_the_parallelism_of_a_running_job_starts_no_pod(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        await holding(machine)
        await patched(machine, "holder", spec={"parallelism": 3})
        await machine.settle()
        assert machine.held() <= 1

    play(tmp_path, story)


def test_members_do_not_write_workloads(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        await holding(machine)
        (workload,) = machine.workloads()
        key = Key(TEAM, workload["metadata"]["name"])
        for body, subresource in (
            ({"status": {"reclaimablePods": [{"name": "main", "count": 1}]}}, "status"),
            ({"status": {"admission": None, "conditions": None}}, "status"),
            ({"spec": {"active": False}}, ""),
            ({"metadata": {"finalizers": None}}, ""),
        ):
            await refused(
                machine.ann.patch(
                    WORKLOADS, key, body, kind=PatchType.MERGE, subresource=subresource
                )
            )
        await refused(machine.ann.delete(WORKLOADS, key))
        await refused(machine.ann.create(WORKLOADS, deepcopy(workload)))

    play(tmp_path, story)


def test_quota_is_charged_until_the_processes_of_deleted_jobs_are_gone(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        await holding(machine, "first")
        for before, after in (("first", "second"), ("second", "third")):
            await machine.ann.create(JOBS, holder(after))
            await machine.ann.delete(JOBS, Key(TEAM, before), propagation="Background")
            await waits(machine, after)
            await machine.end(before)
            await machine.started(after)

    play(tmp_path, story)


def test_a_recreated_job_waits_for_the_processes_of_its_predecessor(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        await holding(machine)
        for _ in range(2):
            (before,) = machine.pods()
            await machine.ann.delete(JOBS, Key(TEAM, "holder"), propagation="Background")
            await machine.ann.create(JOBS, holder())
            await machine.settle()
            assert [before["metadata"]["uid"]] == [
                each["metadata"]["uid"] for each in machine.pods()
            ]
            await machine.end()
            await machine.started("holder")

    play(tmp_path, story)


@pytest.mark.parametrize("grace_s", [None, 3600, 0])
def test_a_deleted_pod_is_replaced_after_its_processes_are_gone(
    tmp_path: Path, grace_s: int | None
) -> None:
    async def story(machine: Enforced) -> None:
        await holding(machine)
        (first,) = machine.pods()
        key, uid = Key(TEAM, first["metadata"]["name"]), first["metadata"]["uid"]
        await machine.ann.delete(PODS, key, grace_s=grace_s)
        assert machine.store.get(PODS.name, key) is not None, "it has a process"
        if grace_s != 0:
            await machine.settle()
            assert [uid] == [each["metadata"]["uid"] for each in machine.pods()]
            await machine.end()
        await machine.until(lambda: machine.pods() and machine.pods()[0]["metadata"]["uid"] != uid)
        await machine.started("holder")
        assert machine.held() == 1

    play(tmp_path, story)


def test_a_suspended_job_is_charged_until_its_processes_are_gone(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        await holding(machine)
        await machine.ann.create(JOBS, holder("attempt"))
        for _ in range(3):
            for suspend in (True, False):
                with suppress(KubeError):
                    await patched(machine, "holder", spec={"suspend": suspend})
            await machine.settle()
        assert machine.held() <= 1

    play(tmp_path, story)


@pytest.mark.parametrize("deactivated", [False, True], ids=["preempted", "deactivated"])
def test_an_evicted_job_is_charged_through_its_grace_period(
    tmp_path: Path, deactivated: bool
) -> None:
    async def story(machine: Enforced) -> None:
        await holding(machine)
        urgent = holder("urgent")
        if deactivated:
            (workload,) = machine.workloads()
            key = Key(TEAM, workload["metadata"]["name"])
            off = {"spec": {"active": False}}
            await machine.root.patch(WORKLOADS, key, off, kind=PatchType.MERGE)
        else:
            await machine.admin.create(
                WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 100}
            )
            lower = {"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}}
            await machine.admin.patch(CLUSTER_QUEUES, Key("", TEAM), lower, kind=PatchType.MERGE)
            urgent["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "urgent"
        await machine.ann.create(JOBS, urgent)
        await waits(machine, "urgent")
        await machine.end()
        await machine.started("urgent")
        assert machine.held() == 1

    play(tmp_path, story)


def test_an_admin_cannot_release_quota_that_is_in_use(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        await holding(machine)
        (workload,) = machine.workloads()
        key = Key(TEAM, workload["metadata"]["name"])
        for body, subresource in (
            ({"status": {"conditions": None, "admission": None}}, "status"),
            ({"status": {"conditions": [_finished()]}}, "status"),
        ):
            said = await refused(
                machine.root.patch(
                    WORKLOADS, key, body, kind=PatchType.MERGE, subresource=subresource
                )
            )
            assert "still use its quota" in said
        await machine.ann.create(JOBS, holder("attempt"))
        await machine.root.delete(WORKLOADS, key)
        await waits(machine, "attempt")

    play(tmp_path, story)


def _finished() -> Json:
    words = {"reason": "Succeeded", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {"type": "Finished", "status": "True", **words}


def test_grace_periods_have_a_maximum(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        await holding(machine)
        (pod,) = machine.pods()
        key = Key(TEAM, pod["metadata"]["name"])
        stored = await machine.ann.delete(PODS, key, grace_s=86400)
        assert 2 == stored["metadata"]["deletionGracePeriodSeconds"]
        uid = pod["metadata"]["uid"]
        await machine.until(lambda: uid not in [each["metadata"]["uid"] for each in machine.pods()])

    play(tmp_path, story, max_grace_s=2)


def test_the_quota_of_running_pods_is_not_reclaimed(tmp_path: Path) -> None:
    """Kueue releases more than it may if parallelism exceeds completions."""

    async def story(machine: Enforced) -> None:
        nominal = {"name": "nvidia.com/gpu", "nominalQuota": 2}
        group = {
            "coveredResources": ["nvidia.com/gpu"],
            "flavors": [{"name": "default", "resources": [nominal]}],
        }
        more = {"spec": {"resourceGroups": [group]}}
        await machine.admin.patch(CLUSTER_QUEUES, Key("", TEAM), more, kind=PatchType.MERGE)
        machine.quota = 2
        script = 'test "$JOB_COMPLETION_INDEX" = 0 || while :; do sleep 0.1; done'
        some = job("some", ["sh", "-c", script])
        some["metadata"]["namespace"] = TEAM
        some["spec"] |= {"parallelism": 5, "completions": 2, "completionMode": "Indexed"}
        await machine.ann.create(JOBS, some)
        await machine.until(lambda: machine.status("some").get("succeeded"))
        await machine.ann.create(JOBS, holder("next"))
        await machine.started("next")
        await machine.ann.create(JOBS, holder("last"))
        await machine.settle()
        assert ([], 2) == (machine.pods("last"), machine.held())

    play(tmp_path, story)
