# SPDX-License-Identifier: Apache-2.0
"""Members create Pods and groups of Pods, and never hold more than their quota with them.

The member's team has a quota of one GPU. `Enforced.until` checks after every change that processes
hold no more.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attack.enforced import TEAM, Enforced, holder
from attack.test_quota import QUEUE, holding, play, refused
from kuota.api.base import Json, Key
from kuota.kube.errors import ApiError
from kuota.kube.requests import PatchType
from kuota.kube.resources import JOBS, PODS, WORKLOADS
from kuota.up.charges import CHARGED_TO

pytestmark = pytest.mark.slow  # real processes; tests/up/test_quota_rules.py has the fast ones
GATE = "kueue.x-k8s.io/admission"
MANAGED = "kueue.x-k8s.io/managed"
GROUP, TOTAL = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
ROLE = "kueue.x-k8s.io/role-hash"
PARENT = "kueue.x-k8s.io/pod-suspending-parent"
GPU = "nvidia.com/gpu"


def pod(name: str = "plain", *, gpus: int = 1, queue: str = "main", **meta: Any) -> Json:
    """A Pod that holds GPUs until it is told to end."""
    spec = holder()["spec"]["template"]["spec"]
    spec["containers"][0]["resources"] = {"limits": {GPU: gpus}} if gpus else {}
    labels = ({QUEUE: queue} if queue else {}) | meta.pop("labels", {})
    return {"metadata": {"name": name, "namespace": TEAM, "labels": labels, **meta}, "spec": spec}


def member(name: str, total: int, *, gpus: int = 1, **notes: str) -> Json:
    """A Pod of the group `group`."""
    annotations = {TOTAL: str(total)} | notes
    return pod(name, gpus=gpus, labels={GROUP: "group"}, annotations=annotations)


def stored(machine: Enforced, name: str = "plain") -> Json:
    return machine.store.get(PODS.name, Key(TEAM, name)) or {}


def runs(machine: Enforced, name: str = "plain") -> bool:
    return (stored(machine, name).get("status") or {}).get("phase") == "Running"


def waiting(machine: Enforced, name: str = "plain") -> bool:
    spec = stored(machine, name)["spec"]
    gates = {each["name"] for each in spec.get("schedulingGates") or ()}
    return GATE in gates and "nodeName" not in spec


async def create(machine: Enforced, *pods: Json) -> None:
    for each in pods:
        await machine.ann.create(PODS, each)


async def patch(
    machine: Enforced, name: str, body: Json, kind: PatchType = PatchType.MERGE
) -> Json:
    return await machine.ann.patch(PODS, Key(TEAM, name), body, kind=kind)


def test_a_pod_is_queued_and_runs_when_there_is_quota(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        await create(machine, pod("first"))
        await machine.until(lambda: runs(machine, "first"))
        await create(machine, pod("second"))
        await machine.settle()
        assert waiting(machine, "second")
        # Its quota is in use until its processes have ended.
        await machine.ann.delete(PODS, Key(TEAM, "first"))
        await machine.settle()
        assert waiting(machine, "second")
        machine.let_end(stored(machine, "first"))
        await machine.until(lambda: runs(machine, "second"))

    play(tmp_path, story)


def test_a_pod_without_a_queue_waits_until_it_has_one(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        await create(machine, pod(queue=""))
        await machine.settle()
        assert waiting(machine)
        await patch(machine, "plain", {"metadata": {"labels": {QUEUE: "main"}}})
        await machine.until(lambda: runs(machine))

    play(tmp_path, story)


def test_force_deletion_does_not_release_the_quota_of_a_pod(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        await create(machine, pod("first"))
        await machine.until(lambda: runs(machine, "first"))
        await patch(machine, "first", {"metadata": {"finalizers": None}})
        for _ in range(5):
            await machine.ann.delete(PODS, Key(TEAM, "first"), grace_s=0)
            await create(machine, pod("next"))
            await machine.until(lambda: not stored(machine, "first") or waiting(machine, "next"))
            await machine.until(lambda: runs(machine, "next"))
            await machine.ann.delete(PODS, Key(TEAM, "next"), grace_s=0)
            await machine.until(lambda: not stored(machine, "next"))
            await create(machine, pod("first"))
            await machine.until(lambda: runs(machine, "first"))

    play(tmp_path, story)


def _owner(machine: Enforced) -> Json:
    found = machine.store.get(JOBS.name, Key(TEAM, "holder"))
    assert found is not None
    uid = {"name": "holder", "uid": found["metadata"]["uid"], "controller": True}
    return {"apiVersion": "batch/v1", "kind": "Job", **uid}


REJECTED: dict[str, tuple[Callable[[Enforced], Json], str]] = {
    "owned by a running Job": (
        lambda machine: pod(ownerReferences=[_owner(machine)]),
        "only the controller of a job",
    ),
    "on a node": (
        lambda machine: pod() | {"spec": pod()["spec"] | {"nodeName": "here"}},
        "spec.nodeName",
    ),
    "with an ephemeral container": (
        lambda machine: pod() | {"spec": pod()["spec"] | {"ephemeralContainers": [{"name": "x"}]}},
        "ephemeralContainers",
    ),
    "with a negative request": (lambda machine: pod(gpus=-1), "must be"),
}


@pytest.mark.parametrize("attempt", REJECTED)
def test_a_pod_that_claims_quota_of_others_is_rejected(tmp_path: Path, attempt: str) -> None:
    made, words = REJECTED[attempt]

    async def story(machine: Enforced) -> None:
        await holding(machine)
        assert words in await refused(machine.ann.create(PODS, made(machine)))

    play(tmp_path, story)


WAITING: dict[str, Callable[[Enforced], Json]] = {
    "without a queue": lambda machine: pod(queue=""),
    "in an unknown queue": lambda machine: pod(queue="unknown"),
    "with a gate of its own": lambda machine: (
        pod() | {"spec": pod()["spec"] | {"schedulingGates": [{"name": "mine"}]}}
    ),
    "said to be suspended by a controller": lambda machine: pod(annotations={PARENT: "deployment"}),
    "said to be charged": lambda machine: pod(
        annotations={
            CHARGED_TO: f"Job.batch/holder/{_owner(machine)['uid']}/main",
            "kuota.dev/created-for": _owner(machine)["uid"],
        }
    ),
    "owned, but not controlled, by a running Job": lambda machine: pod(
        ownerReferences=[_owner(machine) | {"controller": False}],
        annotations={"kuota.dev/created-for": _owner(machine)["uid"]},
    ),
    "with the Workload of a running Job": lambda machine: pod(
        labels={"kueue.x-k8s.io/prebuilt-workload-name": machine.workloads()[0]["metadata"]["name"]}
    ),
    "in a group named like the Workload of a running Job": lambda machine: pod(
        labels={GROUP: machine.workloads()[0]["metadata"]["name"]}, annotations={TOTAL: "1"}
    ),
    "declared as not managed": lambda machine: pod(labels={MANAGED: "true"}),
}


@pytest.mark.parametrize("attempt", WAITING)
def test_a_pod_beyond_the_quota_waits(tmp_path: Path, attempt: str) -> None:
    async def story(machine: Enforced) -> None:
        await holding(machine)
        await create(machine, WAITING[attempt](machine))
        await machine.settle()
        assert waiting(machine)
        assert machine.held() == 1

    play(tmp_path, story)


CHANGES: dict[str, tuple[Json, PatchType]] = {
    "removes the gate": ({"spec": {"schedulingGates": None}}, PatchType.MERGE),
    "removes the gate from the list": (
        {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}},
        PatchType.STRATEGIC,
    ),
    "is no longer managed": ({"metadata": {"labels": {MANAGED: None}}}, PatchType.MERGE),
    "joins a group": (
        {"metadata": {"labels": {GROUP: "other"}, "annotations": {TOTAL: "9"}}},
        PatchType.MERGE,
    ),
    "changes its role": ({"metadata": {"annotations": {ROLE: "small"}}}, PatchType.MERGE),
    "requests less": (
        {"spec": {"containers": [{"name": "main", "resources": {"limits": {GPU: 0}}}]}},
        PatchType.STRATEGIC,
    ),
    "requests more": (
        {"spec": {"containers": [{"name": "main", "resources": {"limits": {GPU: 4}}}]}},
        PatchType.STRATEGIC,
    ),
    "gets a node": ({"spec": {"nodeName": "here"}}, PatchType.MERGE),
    "gets an owner": (
        {
            "metadata": {
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}]
            }
        },
        PatchType.MERGE,
    ),
    "gets an ephemeral container": (
        {"spec": {"ephemeralContainers": [{"name": "x", "image": "none"}]}},
        PatchType.MERGE,
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_waiting_pod_cannot_be_changed_into_a_running_one(tmp_path: Path, change: str) -> None:
    async def story(machine: Enforced) -> None:
        await holding(machine)
        await create(machine, pod())
        await refused(patch(machine, "plain", *CHANGES[change]))
        for below in ("status", "binding", "ephemeralcontainers", "resize"):
            with pytest.raises(ApiError):
                await machine.ann.patch(
                    PODS,
                    Key(TEAM, "plain"),
                    CHANGES[change][0],
                    kind=PatchType.MERGE,
                    subresource=below,
                )
        await machine.settle()
        assert waiting(machine)

    play(tmp_path, story)


RUNNING: dict[str, Json] = {
    "is no longer managed": {"metadata": {"labels": {MANAGED: None}}},
    "leaves its queue": {"metadata": {"labels": {QUEUE: None}}},
    "changes its queue": {"metadata": {"labels": {QUEUE: "other"}}},
    "is charged to nobody": {"metadata": {"annotations": {"kueue.x-k8s.io/workload": None}}},
}


@pytest.mark.parametrize("change", RUNNING)
def test_a_running_pod_stays_charged(tmp_path: Path, change: str) -> None:
    async def story(machine: Enforced) -> None:
        await create(machine, pod())
        await machine.until(lambda: runs(machine))
        await refused(patch(machine, "plain", RUNNING[change]))
        uncharged = {"metadata": {"annotations": {CHARGED_TO: None}}}
        assert CHARGED_TO in (await patch(machine, "plain", uncharged))["metadata"]["annotations"]
        await create(machine, pod("next"))
        await machine.settle()
        assert waiting(machine, "next")

    play(tmp_path, story)


def test_the_quota_of_a_running_pod_is_not_released_with_its_workload(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        await create(machine, pod("first"))
        await machine.until(lambda: runs(machine, "first"))
        (workload,) = machine.workloads()
        key = Key(TEAM, workload["metadata"]["name"])
        await refused(machine.ann.delete(WORKLOADS, key))
        await machine.root.delete(WORKLOADS, key)
        await create(machine, pod("next"))
        await machine.settle()
        assert waiting(machine, "next")
        machine.let_end(stored(machine, "first"))
        await machine.until(lambda: runs(machine, "next"))

    play(tmp_path, story)


def test_a_group_runs_when_it_is_complete(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        await create(machine, member("a", 2))
        await machine.settle()
        assert waiting(machine, "a")
        await create(machine, member("b", 2, gpus=0))
        await machine.until(lambda: runs(machine, "a") and runs(machine, "b"))
        for name in ("a", "b"):
            machine.let_end(stored(machine, name))
        await create(machine, pod("next"))
        await machine.until(lambda: runs(machine, "next"))

    play(tmp_path, story)


def test_a_group_stays_charged_until_its_last_process_has_ended(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        await create(machine, member("a", 2), member("b", 2, gpus=0))
        await machine.until(lambda: runs(machine, "a") and runs(machine, "b"))
        await create(machine, pod("next"))
        for name in ("a", "b"):
            await machine.ann.delete(PODS, Key(TEAM, name))
        machine.let_end(stored(machine, "b"))
        await machine.until(lambda: not stored(machine, "b"))
        await machine.settle()
        assert waiting(machine, "next")
        machine.let_end(stored(machine, "a"))
        await machine.until(lambda: runs(machine, "next"))

    play(tmp_path, story)


def test_a_group_with_more_pods_than_it_says_gets_quota_for_those_only(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        await create(machine, *(member(name, 1) for name in "abcd"))
        await machine.until(lambda: any(runs(machine, name) for name in "abcd"))
        await create(machine, *(member(name, 1) for name in "efgh"))
        await machine.settle()
        assert machine.held() == 1

    play(tmp_path, story)


@pytest.mark.parametrize("fast", ["true", "false"])
def test_pods_of_a_group_that_claim_to_be_alike_are_charged_as_they_are(
    tmp_path: Path, fast: str
) -> None:
    async def story(machine: Enforced) -> None:
        notes = {ROLE: "alike", "kueue.x-k8s.io/pod-group-fast-admission": fast}
        await create(machine, member("a", 2, gpus=0, **notes), member("b", 2, gpus=4, **notes))
        await machine.settle()
        assert waiting(machine, "b")
        assert machine.held() == 0

    play(tmp_path, story)


def test_pods_without_requests_do_not_take_all_places(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        names = [f"free-{at}" for at in range(4)]
        await create(machine, *(pod(name, gpus=0) for name in names))
        await machine.until(lambda: sum(runs(machine, name) for name in names) == 2)
        await machine.settle()
        assert 2 == sum(waiting(machine, name) for name in names)
        machine.let_end(next(stored(machine, name) for name in names if runs(machine, name)))
        await machine.until(lambda: sum(waiting(machine, name) for name in names) == 1)

    play(tmp_path, story, most_pods=2)


def test_a_job_without_requests_does_not_take_all_places(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        made = holder("many")
        made["spec"]["template"]["spec"]["containers"][0]["resources"] = {}
        made["spec"] |= {"parallelism": 1_000_000, "completions": 1_000_000}
        await machine.ann.create(JOBS, made)
        await machine.until(lambda: len(machine.pods("many")) == 3)
        await machine.settle()
        assert 3 == len(machine.pods("many"))
        machine.let_end(machine.pods("many")[0])
        await machine.until(lambda: len(machine.pods("many")) == 4)

    play(tmp_path, story, most_pods=3)
