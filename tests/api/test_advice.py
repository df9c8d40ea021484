# SPDX-License-Identifier: Apache-2.0
"""Valid objects that can never have an effect are reported, and all others are not."""

from __future__ import annotations

from typing import Any

import pytest

from kuota.api.advice import Environment, advice
from kuota.api.advice.keys import intended_key
from kuota.api.base import Json
from kuota.api.config.frameworks import FRAMEWORKS

QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
SLICE_REQUIRED = "kueue.x-k8s.io/podset-slice-required-topology"
ON_THIS_MACHINE = Environment(pulls_images=False)
NODES = Environment(node_labels=lambda: {"kubernetes.io/hostname", "rack"})


def paths(obj: Json, environment: Environment | None = None) -> list[str]:
    found = advice(obj, environment or Environment())
    assert all(each.message for each in found)
    return [each.path for each in found]


def job(labels: Json | None = None, template: Json | None = None, **container: Any) -> Json:
    pod = {"containers": [{"name": "main", "image": "trainer", **container}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "labels": labels or {}},
        "spec": {"template": {"metadata": template or {}, "spec": pod}},
    }


def kueue_object(kind: str, **spec: Any) -> Json:
    meta = {"name": "x"}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": meta, "spec": spec}


def test_a_cluster_queue_without_a_namespace_selector_matches_nothing() -> None:
    assert ["spec.namespaceSelector"] == paths(kueue_object("ClusterQueue"))
    assert ["spec.namespaceSelector"] == paths(kueue_object("ClusterQueue", namespaceSelector=None))
    assert [] == paths(kueue_object("ClusterQueue", namespaceSelector={}))
    other = kueue_object("ClusterQueue") | {"apiVersion": "example.com/v1"}
    assert [] == paths(other)


def test_a_container_without_a_command_cannot_run_where_no_image_is_pulled() -> None:
    at = "spec.template.spec.containers[0].command"
    assert [at] == paths(job(), ON_THIS_MACHINE)
    assert [at] == paths(job(command=[]), ON_THIS_MACHINE)
    assert [at] == paths(job(args=["--epochs=3"]), ON_THIS_MACHINE)
    assert [] == paths(job(args=["train"]), ON_THIS_MACHINE)
    assert [] == paths(job(command=["train"]), ON_THIS_MACHINE)
    assert [] == paths(job())


def test_pods_cron_jobs_and_init_containers_need_a_command_too() -> None:
    containers = {"initContainers": [{"name": "i"}], "containers": [{"name": "c"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": containers}
    assert ["spec.initContainers[0].command", "spec.containers[0].command"] == paths(
        pod, ON_THIS_MACHINE
    )
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {}}
    cron["spec"] = {"jobTemplate": {"spec": {"template": {"spec": {"containers": [{}]}}}}}
    assert ["spec.jobTemplate.spec.template.spec.containers[0].command"] == paths(
        cron, ON_THIS_MACHINE
    )


@pytest.mark.parametrize("key", [REQUIRED, SLICE_REQUIRED])
def test_a_required_level_needs_a_node_with_its_label(key: str) -> None:
    asking = job(template={"annotations": {key: "block"}})
    assert [f"spec.template.metadata.annotations[{key}]"] == paths(asking, NODES)
    assert [] == paths(job(template={"annotations": {key: "rack"}}), NODES)
    assert [] == paths(asking), "nothing is known about nodes"
    preferred = job(template={"annotations": {"kueue.x-k8s.io/podset-preferred-topology": "block"}})
    assert [] == paths(preferred, NODES)


def test_a_required_level_needs_a_topology_that_has_it() -> None:
    environment = Environment(
        node_labels=lambda: {"rack", "block"}, topology_levels=lambda: {"rack"}
    )
    asking = job(template={"annotations": {REQUIRED: "block"}})
    (warning,) = advice(asking, environment)
    assert "no Topology has the level block" in warning.message


def test_a_workload_and_a_topology_are_held_to_the_nodes_as_well() -> None:
    request = {"topologyRequest": {"required": "rak"}}
    (warning,) = advice(kueue_object("Workload", podSets=[request]), NODES)
    assert "spec.podSets[0].topologyRequest.required" == warning.path
    assert "did you mean rack?" == warning.fix
    levels = [{"nodeLabel": "rack"}, {"nodeLabel": "block"}]
    assert ["spec.levels[1].nodeLabel"] == paths(kueue_object("Topology", levels=levels), NODES)


@pytest.mark.parametrize("name", ["multikueue", "provisioning-request"])
def test_an_admission_check_of_kueue_has_a_controller(name: str) -> None:
    own = kueue_object("AdmissionCheck", controllerName=f"kueue.x-k8s.io/{name}")
    assert [] == paths(own)


def test_an_admission_check_without_a_controller_is_named_with_a_remedy() -> None:
    (warning,) = advice(kueue_object("AdmissionCheck", controllerName="example.com/mine"))
    assert "spec.controllerName" == warning.path
    assert "run that controller" in warning.fix
    misspelt = kueue_object("AdmissionCheck", controllerName="kueue.x-k8s.io/multi-kueue")
    assert "did you mean kueue.x-k8s.io/multikueue?" == advice(misspelt)[0].fix
    known = Environment(check_controllers=frozenset({"example.com/mine"}))
    assert [] == paths(kueue_object("AdmissionCheck", controllerName="example.com/mine"), known)


@pytest.mark.parametrize("name", sorted(set(FRAMEWORKS) - {"batch/job"}))
def test_a_queue_name_on_a_kind_that_is_not_queued_has_no_effect(name: str) -> None:
    group, version, kind = FRAMEWORKS[name]
    labels = {"labels": {QUEUE_NAME: "q"}}
    obj = {"apiVersion": f"{group}/{version}".lstrip("/"), "kind": kind, "metadata": labels}
    assert [f"metadata.labels[{QUEUE_NAME}]"] == paths(obj)
    (warning,) = advice(obj)
    assert "is disabled" in warning.message


def test_a_pod_that_nothing_gates_is_reported_unless_a_controller_made_it() -> None:
    pod: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {QUEUE_NAME: "q"}}}
    (warning,) = advice(pod)
    assert "the integration pod is disabled" in warning.message
    pod["metadata"]["ownerReferences"] = [{"kind": "Job", "controller": True}]
    assert [] == advice(pod)


def test_a_queued_job_is_not_reported_unless_its_integration_is_disabled() -> None:
    labelled = job({QUEUE_NAME: "q"})
    assert [] == paths(labelled)
    assert [f"metadata.labels[{QUEUE_NAME}]"] == paths(labelled, Environment(queued=frozenset()))


def test_a_queue_name_that_another_controller_may_copy_to_its_pods_is_only_doubted() -> None:
    labels = {"labels": {QUEUE_NAME: "q"}}
    (warning,) = advice({"apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "metadata": labels})
    assert "only if its controller copies the label to pods or jobs" in warning.message


def test_a_queue_and_a_priority_class_that_do_not_exist_are_reported_with_those_that_do() -> None:
    known = Environment(
        local_queues=lambda namespace: {"gpu", "cpu"} if namespace == "vision" else set(),
        priority_classes=lambda: {"high"},
    )
    wrong = job({QUEUE_NAME: "fpga", PRIORITY_CLASS: "hihg"})
    wrong["metadata"]["namespace"] = "vision"
    queue, priority = advice(wrong, known)
    assert "there is no LocalQueue fpga in namespace vision: the Job waits" in queue.message
    assert "LocalQueues there: cpu, gpu" == queue.fix
    assert "there is no WorkloadPriorityClass hihg" in priority.message
    assert "did you mean high?" == priority.fix
    right = job({QUEUE_NAME: "gpu", PRIORITY_CLASS: "high"})
    right["metadata"]["namespace"] = "vision"
    assert [] == advice(right, known)
    assert [] == advice(wrong)


def test_a_cron_job_hands_no_queue_name_to_its_jobs() -> None:
    labels = {"labels": {QUEUE_NAME: "q"}}
    (warning,) = advice({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": labels})
    assert "spec.jobTemplate.metadata.labels" in warning.fix


def test_a_queue_name_that_is_not_a_label_of_the_job_is_reported() -> None:
    annotated = job()
    annotated["metadata"]["annotations"] = {QUEUE_NAME: "q"}
    assert [f"metadata.annotations[{QUEUE_NAME}]"] == paths(annotated)
    inside = job(template={"labels": {QUEUE_NAME: "q"}})
    assert [f"spec.template.metadata.labels[{QUEUE_NAME}]"] == paths(inside)
    assert [] == paths(job({QUEUE_NAME: "q"}, template={"labels": {QUEUE_NAME: "q"}}))


@pytest.mark.parametrize(
    "key",
    [
        "kueue.x-k8s.io/queue_name",
        "kueue.x-k8s.io/queuename",
        "kueue.x-k8s.io/queueName",
        "kueue.x-k8s.io/queue",
        "kueue.x-k8s.io/queue-nam",
        "kueue.x-k8s.io/que-name",
        "kueue.k8s.io/queue-name",
        "kueue.x-k8s.io.queue-name",
        "kueue.sigs.k8s.io/queue-name",
        "kueu.x-k8s.io/queue-name",
    ],
)
def test_a_misspelt_queue_name_is_recognized(key: str) -> None:
    assert QUEUE_NAME == intended_key(key)
    (warning,) = advice(job({key: "q"}))
    assert f"metadata.labels[{key}]" == warning.path
    assert f"did you mean {QUEUE_NAME}?" == warning.fix


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("kueue.x-k8s.io/priorityclass", "kueue.x-k8s.io/priority-class"),
        ("kueue.x-k8s.io/podset-required-toplogy", REQUIRED),
        ("kueue.x-k8s.io/max-exec-time", "kueue.x-k8s.io/max-exec-time-seconds"),
        ("kueue.x-k8s.io/pod-group", "kueue.x-k8s.io/pod-group-name"),
    ],
)
def test_other_keys_are_recognized_on_templates_too(key: str, meant: str) -> None:
    (warning,) = advice(job(template={"annotations": {key: "x"}}))
    assert f"spec.template.metadata.annotations[{key}]" == warning.path
    assert f"did you mean {meant}?" == warning.fix


@pytest.mark.parametrize(
    "key",
    [
        QUEUE_NAME,
        REQUIRED,
        "kueue.x-k8s.io/podset",
        "kueue.x-k8s.io/managed",
        "kueue.x-k8s.io/team",
        "provreq.kueue.x-k8s.io/maxRunDurationSeconds",
        "example.com/queue-name",
        "queue-name",
        "app.kubernetes.io/name",
        "kuota.dev/team",
    ],
)
def test_keys_that_are_known_or_far_away_are_left_alone(key: str) -> None:
    assert "" == intended_key(key)


@pytest.mark.parametrize("obj", [{}, {"kind": 1}, {"kind": "Job", "apiVersion": 2, "metadata": 3}])
def test_nothing_is_said_about_what_cannot_be_read(obj: Json) -> None:
    assert [] == advice(obj, ON_THIS_MACHINE)
