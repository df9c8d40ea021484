# SPDX-License-Identifier: Apache-2.0
"""Plans of Deployments, StatefulSets and LeaderWorkerSets."""

from __future__ import annotations

import pytest

from kuota.api.base import Json
from kuota.api.config.load import load
from kuota.sim.parents import MOST_REPLICAS
from kuota.sim.scenario import Scenario, load_scenario
from manifests import local_queue

SERVING = load(
    "apiVersion: config.kueue.x-k8s.io/v1beta2\n"
    "kind: Configuration\n"
    "integrations:\n"
    "  frameworks: [deployment, statefulset, leaderworkerset.x-k8s.io/leaderworkerset]\n"
)
TEMPLATE: Json = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
}
API = {"LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1"}


def serving(kind: str, replicas: int = 3, *, queue: str = "main") -> Json:
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    spec: Json = {"selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
    if kind == "LeaderWorkerSet":
        spec = {"leaderWorkerTemplate": {"size": 2, "workerTemplate": TEMPLATE}}
    return {
        "apiVersion": API.get(kind, "apps/v1"),
        "kind": kind,
        "metadata": {"name": "web", "namespace": "default", "labels": labels},
        "spec": spec | {"replicas": replicas},
    }


def planned(*objects: Json) -> Scenario:
    return load_scenario([local_queue("main", namespace="default"), *objects], SERVING)


def sizes(scenario: Scenario) -> list[tuple[str, str, int]]:
    assert () == scenario.unqueued
    assert () == scenario.invalid
    return [
        (each.kind, each.name, sum(one.count for one in each.workload.pod_sets))
        for each in scenario.submissions
    ]


def test_the_pods_of_a_deployment_are_queued_one_by_one() -> None:
    found = planned(serving("Deployment"))
    assert [("Pod", f"web-{at}", 1) for at in range(3)] == sizes(found)
    assert {"main"} == {each.workload.queue for each in found.submissions}


def test_pods_that_a_deployment_already_has_are_not_planned_again() -> None:
    existing = serving("Deployment") | {"status": {"replicas": 2}}
    assert [("Pod", "web-2", 1)] == sizes(planned(existing))


def test_a_stateful_set_is_one_workload_of_all_replicas() -> None:
    assert [("StatefulSet", "web", 3)] == sizes(planned(serving("StatefulSet")))


def test_each_replica_of_a_leader_worker_set_is_a_workload() -> None:
    expected = [("LeaderWorkerSet", f"web-{at}", 2) for at in range(3)]
    assert expected == sizes(planned(serving("LeaderWorkerSet")))


def test_submission_and_duration_are_those_of_the_object() -> None:
    obj = serving("Deployment", 2)
    obj["metadata"]["annotations"] = {"kuota.dev/submit-after": "5s", "kuota.dev/runs-for": "60s"}
    assert [(5.0, 60.0)] * 2 == [(each.at, each.runs_for) for each in planned(obj).submissions]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "LeaderWorkerSet"])
def test_objects_without_a_queue_are_noted(kind: str) -> None:
    found = planned(serving(kind, queue=""))
    assert () == found.submissions
    assert any("it has no queue name" in note for note in found.notes)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "LeaderWorkerSet"])
def test_a_missing_priority_class_is_reported(kind: str) -> None:
    obj = serving(kind)
    obj["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "missing"
    (found,) = planned(obj).unqueued
    assert "missing" in found.why


def test_too_many_replicas_are_reported() -> None:
    (found,) = planned(serving("Deployment", MOST_REPLICAS + 1)).unqueued
    assert str(MOST_REPLICAS) in found.why
