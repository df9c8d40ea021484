# SPDX-License-Identifier: Apache-2.0
"""Deployments, StatefulSets and LeaderWorkerSets: their Pods wait for quota."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from control.objects import namespace
from control.stage import Stage, run_scene
from kuota.api.base import Json, Key, LabelSelector
from kuota.api.config.frameworks import FRAMEWORKS
from kuota.bridge.job_pass.workload import PriorityClasses
from kuota.bridge.jobs.ancestor import owners_of
from kuota.bridge.jobs.job_webhook import defaulted
from kuota.bridge.jobs.kind import JobKey, JobKind
from kuota.bridge.jobs.leader_worker_set import LeaderWorkerSet
from kuota.bridge.jobs.pod import PodKind
from kuota.bridge.jobs.stateful_set import StatefulSet
from kuota.bridge.lifecycle_view import LifecycleConfig
from kuota.control.reconcile_job import JobReconciler
from kuota.kube.resources import PODS, WORKLOADS, Resource

PREFIX = "kueue.x-k8s.io/"
LWS = "leaderworkerset.x-k8s.io/leaderworkerset"
SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
GROUPS = Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet")
TEMPLATE: Json = {
    "metadata": {},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
}
CONFIG = {"integrations": {"frameworks": ["statefulset", LWS]}}


def _look_up(kind: tuple[str, str], key: Key) -> Json | None:
    return namespace("team") if kind == ("", "Namespace") else None


def stored(kind: JobKind, obj: Json) -> Json:
    """An object as the webhook stores it."""
    config = LifecycleConfig(owners=owners_of(FRAMEWORKS))
    return defaulted(kind, obj, _look_up, config)


def stateful_set(replicas: int) -> Json:
    labels = {f"{PREFIX}queue-name": "main"}
    meta = {"name": "db", "namespace": "team", "labels": labels}
    obj = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta}
    return stored(StatefulSet(), obj | {"spec": {"replicas": replicas, "template": TEMPLATE}})


def pod(name: str, template: Json, owner: Json, **labels: str) -> Json:
    """A Pod of a StatefulSet, as the webhook stores it."""
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "controller": True}
    meta = template["metadata"] | {
        "name": name,
        "namespace": "team",
        "labels": (template["metadata"].get("labels") or {}) | labels,
        "ownerReferences": [
            reference | {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        ],
    }
    obj: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
    return stored(PodKind(), obj) | {"status": {"phase": "Pending"}}


def gated(stage: Stage, name: str) -> bool:
    return bool(stage.get(PODS, name)["spec"].get("schedulingGates"))


async def create_pods(stage: Stage, owner: Json, count: int, **labels: str) -> None:
    """What the controller of StatefulSets does."""
    template = owner["spec"]["template"]
    name = owner["metadata"]["name"]
    pods = [pod(f"{name}-{i}", template, owner, **labels) for i in range(count)]
    await stage.api.apply(*pods)


def test_the_pods_of_a_stateful_set_start_when_all_of_them_have_quota() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=2)
        made = await stage.api.create(SETS, stateful_set(3))
        await create_pods(stage, made, 3)
        await stage.rest()
        (workload,) = stage.api.all(WORKLOADS)
        assert 3 == workload["spec"]["podSets"][0]["count"]
        assert all(gated(stage, f"db-{i}") for i in range(3))
        await stage.edit_queue_quota(cpu=3)
        await stage.rest()
        assert not any(gated(stage, f"db-{i}") for i in range(3))
        owners = stage.api.all(WORKLOADS)[0]["metadata"]["ownerReferences"]
        assert {"db", "db-0", "db-1", "db-2"} == {each["name"] for each in owners}

    run_scene(scene, CONFIG)


def test_a_stateful_set_scaled_to_zero_releases_its_quota_and_returns() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=2)
        made = await stage.api.create(SETS, stateful_set(2))
        await stage.rest()
        await stage.edit(SETS, "db", {"spec": {"replicas": 0}})
        await stage.rest()
        assert "False/OnHold" == stage.says("db", "QuotaReserved")
        await stage.edit(SETS, "db", {"spec": {"replicas": 1}})
        await stage.rest()
        assert "True" == stage.condition("db", "QuotaReserved")["status"]
        assert 1 == stage.workload("db")["spec"]["podSets"][0]["count"]
        await create_pods(stage, made, 1)
        await stage.rest()
        assert not gated(stage, "db-0")

    run_scene(scene, CONFIG)


def leader_worker_set(replicas: int) -> Json:
    labels = {f"{PREFIX}queue-name": "main"}
    spec: Any = {
        "replicas": replicas,
        "leaderWorkerTemplate": {"size": 2, "workerTemplate": TEMPLATE},
    }
    meta = {"name": "llm", "namespace": "team", "labels": labels}
    obj = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
    return stored(LeaderWorkerSet(), obj | {"metadata": meta, "spec": spec})


def test_each_replica_of_a_leader_worker_set_is_admitted_on_its_own() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=2)
        made = await stage.api.create(GROUPS, leader_worker_set(2))
        template = made["spec"]["leaderWorkerTemplate"]["workerTemplate"]
        name = {"leaderworkerset.sigs.k8s.io/name": "llm"}
        sets = {"apiVersion": "apps/v1", "kind": "StatefulSet"}
        meta = {"name": "llm", "namespace": "team", "labels": name}
        spec = {"replicas": 2, "template": template}
        owner = await stage.api.create(SETS, sets | {"metadata": meta, "spec": spec})
        for index in range(2):
            labels = name | {"leaderworkerset.sigs.k8s.io/group-index": str(index)}
            await stage.api.apply(
                pod(f"llm-{index}", template, owner, **labels),
                pod(f"llm-{index}-1", template, owner, **labels),
            )
        await stage.rest()
        waiting = {name for name in ("llm-0", "llm-0-1", "llm-1", "llm-1-1") if gated(stage, name)}
        assert 2 == len(stage.api.all(WORKLOADS))
        assert waiting in ({"llm-0", "llm-0-1"}, {"llm-1", "llm-1-1"})
        await stage.edit(GROUPS, "llm", {"spec": {"replicas": 1}})
        await stage.rest()
        assert 1 == len(stage.api.all(WORKLOADS))

    run_scene(scene, CONFIG)


def test_a_large_leader_worker_set_has_a_workload_for_each_replica() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=2)
        await stage.api.create(GROUPS, leader_worker_set(250))
        await stage.rest()
        assert 250 == len(stage.api.all(WORKLOADS))
        await stage.edit(GROUPS, "llm", {"spec": {"replicas": 10}})
        await stage.rest()
        assert 10 == len(stage.api.all(WORKLOADS))

    run_scene(scene, CONFIG)


def test_the_pods_of_a_set_that_no_longer_exists_are_not_held_back() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=0)
        made = await stage.api.create(GROUPS, leader_worker_set(1))
        template = made["spec"]["leaderWorkerTemplate"]["workerTemplate"]
        labels = {"leaderworkerset.sigs.k8s.io/name": "llm"}
        orphan = pod("llm-0", template, {"metadata": {"name": "llm", "uid": "u"}}, **labels)
        await stage.api.apply(orphan)
        await stage.rest()
        await stage.api.delete(GROUPS, Key("team", "llm"))
        await stage.rest()
        assert not gated(stage, "llm-0")

    run_scene(scene, CONFIG)


@pytest.mark.parametrize("selected", ["team", "other"])
def test_sets_without_a_queue_are_managed_only_in_the_selected_namespaces(selected: str) -> None:
    space = SimpleNamespace(json={"metadata": {"name": "team", "labels": {"name": "team"}}})
    world: Any = SimpleNamespace(
        job=lambda _at: None,
        namespaces={Key("", "team"): space},
        workloads_owned_by=lambda _at: (),
        job_caches=SimpleNamespace(pods_of=lambda *_: (), related_to=lambda *_: ()),
        classes=PriorityClasses,
    )
    selector = LabelSelector(match_labels={"name": selected})
    config = LifecycleConfig(manage_all=True, manage_all_in=selector, max_replicas=7)
    nothing: Any = None
    reconciler = JobReconciler(world, nothing, nothing, config)
    kind = StatefulSet()
    view = reconciler.parent_view(kind, JobKey(kind.group_kind, Key("team", "db")))
    assert (selected == "team") is view.manages_all
    assert 7 == view.max_replicas
