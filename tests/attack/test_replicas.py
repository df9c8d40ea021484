# SPDX-License-Identifier: Apache-2.0
"""Deployments and StatefulSets hold no more than the quota of their team."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attack.enforced import DEPLOYMENTS, STATEFUL_SETS, TEAM, Enforced, holder
from attack.test_pods import GPU, PARENT, pod, runs, stored, waiting
from attack.test_quota import QUEUE, holding, play, refused
from kuota.api.base import Json, Key
from kuota.kube.requests import PatchType
from kuota.kube.resources import PODS, Resource

pytestmark = pytest.mark.slow
KINDS = pytest.mark.parametrize(
    "kind", [DEPLOYMENTS, STATEFUL_SETS], ids=["Deployment", "StatefulSet"]
)


def replicated(
    replicas: int, *, queue: str = "main", gpus: int = 1, notes: dict[str, str] | None = None
) -> Json:
    spec = pod(gpus=gpus)["spec"] | {"restartPolicy": "Always"}
    labels = {QUEUE: queue} if queue else {}
    template = {"metadata": {"labels": {"app": "web"}, "annotations": notes or {}}, "spec": spec}
    selector = {"matchLabels": {"app": "web"}}
    return {
        "metadata": {"name": "web", "namespace": TEAM, "labels": labels},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }


def pods(machine: Enforced) -> list[Json]:
    found = machine.store.list(PODS.name, TEAM).items
    return [each for each in found if each["metadata"]["labels"].get("app") == "web"]


def running(machine: Enforced) -> list[str]:
    names = (each["metadata"]["name"] for each in pods(machine))
    return [name for name in names if runs(machine, name)]


def ready(machine: Enforced, kind: Resource) -> int:
    found = machine.store.get(kind.name, Key(TEAM, "web")) or {}
    return (found.get("status") or {}).get("readyReplicas") or 0


async def patch(machine: Enforced, kind: Resource, body: Json) -> None:
    await machine.ann.patch(kind, Key(TEAM, "web"), body, kind=PatchType.MERGE)


def test_a_deployment_runs_as_many_pods_as_there_is_quota(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        await machine.ann.create(DEPLOYMENTS, replicated(3))
        await machine.until(lambda: ready(machine, DEPLOYMENTS) == 1 and len(pods(machine)) == 3)
        await machine.settle()
        assert 1 == machine.held()
        # A new template takes the place of the old one when its processes have ended.
        (before,) = running(machine)
        noted = {"metadata": {"annotations": {"note": "changed"}}}
        await patch(machine, DEPLOYMENTS, {"spec": {"replicas": 1, "template": noted}})
        await machine.until(lambda: stored(machine, before)["metadata"].get("deletionTimestamp"))
        await machine.settle()
        assert [before] == running(machine)
        machine.let_end(stored(machine, before))
        await machine.until(lambda: running(machine) not in ([], [before]))

    play(tmp_path, story)


@KINDS
@pytest.mark.parametrize(
    "notes",
    [{}, {PARENT: ""}, {PARENT: "leaderworkerset"}, {"kuota.dev/created-for": "x"}],
    ids=["plain", "without a parent", "with another parent", "said to be created"],
)
@pytest.mark.parametrize("queue", ["main", "", "unknown"])
def test_replicas_beyond_the_quota_wait(
    tmp_path: Path, kind: Resource, notes: dict[str, str], queue: str
) -> None:
    async def story(machine: Enforced) -> None:
        await holding(machine)
        await machine.ann.create(kind, replicated(2, queue=queue, notes=notes))
        await machine.until(lambda: pods(machine))
        await machine.settle()
        assert all(waiting(machine, each["metadata"]["name"]) for each in pods(machine))
        name = pods(machine)[0]["metadata"]["name"]
        for gates in (None, [{"name": "mine"}]):
            body: dict[str, Any] = {"spec": {"schedulingGates": gates}}
            await refused(machine.ann.patch(PODS, Key(TEAM, name), body, kind=PatchType.MERGE))
        assert 1 == machine.held()

    play(tmp_path, story)


@KINDS
def test_the_pods_of_a_deleted_owner_are_charged_until_they_are_gone(
    tmp_path: Path, kind: Resource
) -> None:
    async def story(machine: Enforced) -> None:
        await machine.ann.create(kind, replicated(1))
        await machine.until(lambda: ready(machine, kind) == 1)
        (before,) = running(machine)
        await machine.ann.delete(kind, Key(TEAM, "web"), propagation="Background")
        await machine.ann.create(PODS, pod("next"))
        await machine.settle()
        assert waiting(machine, "next")
        machine.let_end(stored(machine, before))
        await machine.until(lambda: runs(machine, "next"))

    play(tmp_path, story)


def test_a_stateful_set_scaled_to_zero_is_charged_until_its_processes_are_gone(
    tmp_path: Path,
) -> None:
    async def story(machine: Enforced) -> None:
        await machine.ann.create(STATEFUL_SETS, replicated(1))
        await machine.until(lambda: ready(machine, STATEFUL_SETS) == 1)
        await machine.ann.create(PODS, pod("next"))
        await patch(machine, STATEFUL_SETS, {"spec": {"replicas": 0}})
        await machine.settle()
        assert waiting(machine, "next")
        machine.let_end(stored(machine, "web-0"))
        await machine.until(lambda: runs(machine, "next"))
        await patch(machine, STATEFUL_SETS, {"spec": {"replicas": 1}})
        await machine.settle()
        assert waiting(machine, "web-0")

    play(tmp_path, story)


def test_the_update_of_a_stateful_set_starts_no_pod_without_quota(tmp_path: Path) -> None:
    """Kueue starts pods of the old revision without quota, so that an update can be undone."""

    async def story(machine: Enforced) -> None:
        await holding(machine)
        await machine.ann.create(STATEFUL_SETS, replicated(1))
        await machine.until(lambda: pods(machine))
        noted = {"metadata": {"annotations": {"note": "changed"}}}
        await patch(machine, STATEFUL_SETS, {"spec": {"template": noted}})
        await machine.settle()
        await machine.until(lambda: pods(machine))
        assert waiting(machine, "web-0")

    play(tmp_path, story)


def test_requests_cannot_grow_behind_the_back_of_the_workload(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        await machine.ann.create(STATEFUL_SETS, replicated(1, gpus=0))
        await machine.until(lambda: ready(machine, STATEFUL_SETS) == 1)
        more = holder()["spec"]["template"]["spec"]["containers"][0]
        more["resources"] = {"limits": {GPU: 4}}
        old = stored(machine, "web-0")
        await patch(
            machine, STATEFUL_SETS, {"spec": {"template": {"spec": {"containers": [more]}}}}
        )
        machine.let_end(old)
        await machine.until(lambda: pods(machine) and waiting(machine, "web-0"))
        await machine.settle()
        assert waiting(machine, "web-0")
        assert 0 == machine.held()

    play(tmp_path, story)
