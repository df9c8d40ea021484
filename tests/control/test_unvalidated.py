# SPDX-License-Identifier: Apache-2.0
"""An object that validation should have rejected does not affect other objects."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.fake_api import FakeApi
from control.objects import condition, flavor, job, local_queue, namespace, queue
from control.stage import Stage, run_scene
from control.unvalidated import BAD, clusters, each_broken, manifests
from control.virtual import VirtualClock
from kuota.api.base import Json, Key
from kuota.api.gates import GATES, Gates
from kuota.bridge.jobs.registry import JOB
from kuota.bridge.messages import wait_text
from kuota.bridge.queue_status import cluster_queue_patch, cohort_patch, local_queue_patch
from kuota.control.cluster_cache import ClusterCache
from kuota.control.facts import FactSource
from kuota.control.node_facts import NodeFacts
from kuota.engine.decisions import Admit, Decision, Wait
from kuota.engine.engine import Engine
from kuota.engine.facts import Fact, ObjectStored
from kuota.engine.model import Node
from kuota.engine.policy import FINAL_SHARE, AdmissionFairSharing, Policy
from kuota.engine.quiescence import Quiescence
from kuota.engine.reasons import WaitReason
from kuota.kube import resources as kinds
from kuota.kube.resources import Resource

GOOD = Key("team", "good")
NODE = Node(
    name="node",
    labels={"zone": "a", "rack": "a"},
    allocatable={"cpu": 64_000, "memory": 1 << 40, "pods": 100, "example.com/gpu": 8},
)
"""A node of the flavor that the broken objects use."""


class Reports:
    """What is reported on objects, by kind and name."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], str] = {}

    def record(self, regarding: Json, reason: str, note: str, **_: Any) -> None:
        self.found[regarding["kind"], regarding["metadata"]["name"]] = f"{reason}: {note}"


class Cluster:
    """Informers, facts and an engine, fed by hand. A fact that the engine refuses is an error."""

    def __init__(self, policy: Policy) -> None:
        clock = VirtualClock()
        self.cache = ClusterCache(FakeApi(clock), clock, [JOB])
        self.engine = Engine(policy)
        self.reports = Reports()
        self.errors: list[Exception] = []
        self.decisions: list[Decision] = []
        self._tell(ObjectStored(value=NODE))
        FactSource(self.cache, self._tell, self.reports, None, policy.gates).follow()
        NodeFacts(self.cache, self._tell, policy.gates).follow()

    def _tell(self, fact: Fact) -> None:
        try:
            self.engine.apply(fact, 0.0)
        except Exception as error:
            self.errors.append(error)

    def put(self, resource: Resource, obj: Json) -> None:
        self.cache.wrote(resource, obj)

    def settle(self) -> list[Decision]:
        quiescence = Quiescence()
        while True:
            outcome = self.engine.cycle(0.0)
            self.decisions += outcome.decisions
            self.errors += [each.error for each in outcome.failures]
            if quiescence.after(outcome):
                return self.decisions


def _stored(obj: Json) -> Json:
    obj["metadata"] |= {"uid": f"{obj['kind']}-{obj['metadata']['name']}", "resourceVersion": "1"}
    return obj


def furnish(cluster: Cluster) -> None:
    """A valid queue, and a valid workload in it."""
    cluster.put(kinds.NAMESPACES, _stored(namespace("team")))
    cluster.put(kinds.RESOURCE_FLAVORS, _stored(flavor()))
    cluster.put(kinds.CLUSTER_QUEUES, _stored(queue("cq", 4)))
    cluster.put(kinds.LOCAL_QUEUES, _stored(local_queue("main", "cq")))
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    spec = {"queueName": "main", "podSets": [pod_set]}
    meta = {"name": GOOD.name, "namespace": GOOD.namespace}
    cluster.put(
        kinds.WORKLOADS, _stored({"kind": "Workload", "metadata": meta, "spec": spec, "status": {}})
    )


def check(cluster: Cluster) -> None:
    """The valid workload is admitted, nothing raised, and all that is said can be said."""
    cluster.settle()
    assert cluster.errors == []
    admitted = [each.workload.key for each in cluster.decisions if isinstance(each, Admit)]
    assert GOOD in admitted
    for each in cluster.decisions:
        if isinstance(each, Wait):
            wait_text(each)
    engine, world = cluster.engine, cluster.cache
    for held in world.cluster_queues.values():
        if held.value is not None:
            cluster_queue_patch(engine, held.value, held.json.get("status") or {}, 0.0)
    for local in world.local_queues.values():
        if local.value is not None:
            local_queue_patch(engine, local.value, local.json.get("status") or {}, 0.0)
    for name in engine.state.cohorts:
        cohort_patch(engine, name, {})
    for key in engine.state.workloads:
        engine.explain(key, 0.0)


def test_the_objects_are_valid_before_they_are_broken() -> None:
    """Otherwise no cycle would look at what is broken in them."""
    cluster = Cluster(Policy())
    for resource, obj in manifests():
        cluster.put(resource, obj)
    assert cluster.reports.found == {}
    assert cluster.engine.state.obstacles[BAD] == ()
    assert [type(each) for each in cluster.settle()] == [Admit]


UNKNOWN = {"matchExpressions": [{"key": "a", "operator": "Has"}]}


def _active(obj: Json) -> tuple[str, str, str]:
    found = condition(obj, "Active")
    return found["status"], found["reason"], found["message"]


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (queue("bad")["spec"] | {"namespaceSelector": UNKNOWN}, "unknown operator 'Has'"),
        ({"resourceGroups": "Nonsense"}, "Expected `array | null`, got `str`"),
    ],
)
def test_a_queue_that_cannot_be_understood_says_so_and_the_others_go_on(
    spec: Json, fault: str
) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(4)
        await stage.api.apply(queue("bad", 4), local_queue("broken", "bad"))
        await stage.api.apply(job("runs", "4", queue="broken"))
        await stage.rest()
        stage.api.store_unvalidated(kinds.CLUSTER_QUEUES, Key("", "bad"), {"spec": spec})
        await stage.api.apply(job("waits", "1", queue="broken"), job("good", "4"))
        await stage.rest(30)
        assert stage.says("good", "Admitted") == "True/Admitted"
        assert stage.says("waits", "QuotaReserved") == "False/Suspended"
        assert stage.says("runs", "Admitted") == "True/Admitted"
        status, reason, message = _active(stage.get(kinds.CLUSTER_QUEUES, "bad"))
        assert (status, reason) == ("False", "InvalidSpec")
        assert fault in message
        assert stage.get(kinds.CLUSTER_QUEUES, "bad")["status"]["admittedWorkloads"] == 1
        good = {"spec": queue("bad", 5)["spec"]}
        stage.api.store_unvalidated(kinds.CLUSTER_QUEUES, Key("", "bad"), good)
        await stage.rest(30)
        assert stage.says("waits", "Admitted") == "True/Admitted"
        assert _active(stage.get(kinds.CLUSTER_QUEUES, "bad"))[0] == "True"

    run_scene(scene)


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"count": -1}, "spec.podSets[0].count: must not be negative, is -1"),
        ({"minCount": 3}, "spec.podSets[0].minCount: must be between 0 and 2, is 3"),
        (
            {"template": {"spec": {"overhead": {"cpu": "many"}}}},
            "quantity 'many' has no digits",
        ),
    ],
)
def test_a_workload_that_cannot_be_understood_waits_and_says_why(changed: Json, fault: str) -> None:
    cluster = Cluster(Policy())
    for resource, obj in manifests():
        if obj["metadata"]["name"] == BAD and resource == kinds.WORKLOADS:
            obj["spec"]["podSets"][0] |= changed
        cluster.put(resource, obj)
    (waits,) = cluster.settle()
    assert isinstance(waits, Wait)
    assert waits.reason is WaitReason.MISCONFIGURED
    assert wait_text(waits).startswith(fault)


policies = st.builds(
    Policy,
    gates=st.sampled_from((Gates(), Gates.of(dict.fromkeys(GATES, True), check=False))),
    fair_sharing=st.sampled_from((None, (FINAL_SHARE,))),
    admission_fair_sharing=st.sampled_from(
        (None, AdmissionFairSharing(half_life_s=60.0, sampling_s=60.0))
    ),
)


@settings(max_examples=200)
@given(policies, clusters())
def test_a_valid_workload_is_admitted_whatever_else_is_stored(
    policy: Policy, objects: list[tuple[Resource, Json]]
) -> None:
    cluster = Cluster(policy)
    half = len(objects) // 2
    for resource, obj in objects[:half]:
        cluster.put(resource, obj)
    furnish(cluster)
    for resource, obj in objects[half:]:
        cluster.put(resource, obj)
    check(cluster)


@pytest.mark.parametrize("number", range(len(manifests())))
def test_no_single_fault_of_an_object_stops_the_others(number: int) -> None:
    _, obj = manifests()[number]
    for bad in each_broken(obj):
        cluster = Cluster(Policy())
        for at, (kind, valid) in enumerate(manifests()):
            cluster.put(kind, bad if at == number else valid)
        furnish(cluster)
        check(cluster)
