# SPDX-License-Identifier: Apache-2.0
"""The pod sets of AppWrappers, and how they are started and stopped."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.jobs.kinds import EXAMPLES, JOB_SET_SPEC, job, template
from kuota.api.base import Json
from kuota.api.gates import Gates
from kuota.api.podset import Injection
from kuota.bridge.jobs.app_wrapper import AppWrapper
from kuota.bridge.jobs.fields import at, put
from kuota.bridge.jobs.kind import End

KIND = AppWrapper()
GATES = Gates()


def wrapper(*wrapped: Json, **component: Any) -> Json:
    return job("AppWrapper", {"components": [{"template": e} | component for e in wrapped]})


def wrapped(version: str, kind: str, **spec: Any) -> Json:
    return {"apiVersion": version, "kind": kind, "spec": spec}


RAY: Json = {
    "headGroupSpec": {"template": template()},
    "workerGroupSpecs": [{"replicas": 2, "numOfHosts": 4, "template": template()}],
}
REPLICAS = {"Master": {"template": template()}, "Worker": {"replicas": 3, "template": template()}}


@pytest.mark.parametrize(
    ("obj", "pods"),
    [
        (wrapped("batch/v1", "Job", parallelism=3, completions=2, template=template()), [2]),
        (wrapped("apps/v1", "Deployment", template=template()), [1]),
        (wrapped("apps/v1", "StatefulSet", replicas=3, template=template()), [3]),
        (wrapped("jobset.x-k8s.io/v1alpha2", "JobSet", **JOB_SET_SPEC), [1, 6]),
        (wrapped("kubeflow.org/v1", "PyTorchJob", pytorchReplicaSpecs=REPLICAS), [1, 3]),
        (wrapped("ray.io/v1", "RayCluster", **RAY), [1, 8]),
        (wrapped("ray.io/v1", "RayJob", rayClusterSpec=RAY), [1, 8]),
        ({"apiVersion": "v1", "kind": "Pod"} | template(), [1]),
        (wrapped("v1", "Service"), []),
    ],
    ids=lambda value: value.get("kind") if isinstance(value, dict) else "",
)
def test_pod_sets_of_known_kinds_are_inferred(obj: Json, pods: list[int]) -> None:
    assert pods == [each["count"] for each in KIND.pod_sets(wrapper(obj), GATES)]


def test_a_wrapped_job_set_is_ranked_like_one_of_its_own() -> None:
    found = KIND.pod_sets(
        wrapper(wrapped("jobset.x-k8s.io/v1alpha2", "JobSet", **JOB_SET_SPEC)), GATES
    )
    assert {
        "podIndexLabel": "batch.kubernetes.io/job-completion-index",
        "subGroupIndexLabel": "jobset.sigs.k8s.io/job-index",
        "subGroupCount": 3,
    } == found[1]["topologyRequest"]


@pytest.mark.parametrize(
    "path",
    ["spec.template", "template.spec.missing", "template.spec[0]", "template.", "template..a", ""],
)
def test_a_path_that_leads_nowhere_is_no_pod_set(path: str) -> None:
    declared = wrapper(wrapped("v1", "Custom", template=template()), podSets=[{"path": path}])
    assert [] == KIND.pod_sets(declared, GATES)


def test_declared_pod_sets_say_how_their_pods_are_ranked() -> None:
    prefix = "workload.codeflare.dev.appwrapper/tas-"
    notes = {f"{prefix}pod-index-label": "rank", f"{prefix}sub-group-count": "two"}
    pod_set = {"replicas": 2, "path": "template.spec.template", "annotations": notes}
    declared = wrapper(wrapped("v1", "Custom", template=template()), podSets=[pod_set])
    (found,) = KIND.pod_sets(declared, GATES)
    assert {"podIndexLabel": "rank"} == found["topologyRequest"]


def test_of_a_wrapped_pod_only_labels_and_annotations_are_kept() -> None:
    pod = template() | {"apiVersion": "v1", "kind": "Pod"}
    pod |= {"metadata": {"name": "p", "labels": {"a": "b"}}}
    (found,) = KIND.pod_sets(wrapper(pod), GATES)
    assert {"labels": {"a": "b"}} == found["template"]["metadata"]


def test_admissions_are_written_beside_what_is_wrapped_and_removed_again() -> None:
    app = EXAMPLES["AppWrapper"]
    given = [Injection(node_selector={"pool": name}) for name in ("a", "b")]
    running = KIND.started(app, given, GATES)
    infos = [at(running, ("spec", "components", n, "podSetInfos")) for n in (0, 1)]
    assert [[{"nodeSelector": {"pool": "a"}}], [{"nodeSelector": {"pool": "b"}}]] == infos
    assert running == KIND.started(running, given, GATES), "a second start replaces the first"
    assert app == KIND.restored(KIND.suspend(running), None)


def test_a_failed_wrapper_occupies_quota_until_its_objects_are_deleted() -> None:
    deployed = {"type": "ResourcesDeployed", "status": "True"}
    failed = put(EXAMPLES["AppWrapper"], ("status",), {"phase": "Failed"})
    assert KIND.end(put(failed, ("status", "conditions"), [deployed])) is None
    assert End(success=False, message="AppWrapper failed") == KIND.end(failed)
