# SPDX-License-Identifier: Apache-2.0
"""The official Python client against a real server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from server.served import Served, job

client = pytest.importorskip("kubernetes.client")
config = pytest.importorskip("kubernetes.config")
watch = pytest.importorskip("kubernetes.watch")

QUEUES = ("kueue.x-k8s.io", "v1beta2", "default", "localqueues")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("cluster"))
    config.load_kube_config(str(served.kubeconfig))
    yield served
    served.close()


def test_jobs_are_created_listed_patched_and_deleted(cluster: Served) -> None:
    batch = client.BatchV1Api()
    made = batch.create_namespaced_job("default", job("py", suspend=True))
    assert (1, True) == (made.spec.completions, made.spec.suspend)
    patched = batch.patch_namespaced_job("py", "default", {"spec": {"parallelism": 3}})
    assert 3 == patched.spec.parallelism
    found = batch.list_namespaced_job("default", limit=1)
    assert ["py"] == [each.metadata.name for each in found.items]
    done = batch.delete_namespaced_job("py", "default", propagation_policy="Background")
    assert "Success" == dict(done)["status"]
    with pytest.raises(client.ApiException) as error:
        batch.read_namespaced_job("py", "default")
    assert 404 == error.value.status


def test_custom_objects_are_created_listed_and_patched(cluster: Served) -> None:
    custom = client.CustomObjectsApi()
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "q"},
        "spec": {"clusterQueue": "research"},
    }
    custom.create_namespaced_custom_object(*QUEUES, queue)
    status = {"status": {"pendingWorkloads": 2}}
    custom.patch_namespaced_custom_object_status(*QUEUES, "q", status)
    found = custom.list_namespaced_custom_object(*QUEUES)
    assert [2] == [each["status"]["pendingWorkloads"] for each in found["items"]]


def test_a_watch_reports_each_change(cluster: Served) -> None:
    core = client.CoreV1Api()
    start = core.list_namespaced_config_map("default").metadata.resource_version
    core.create_namespaced_config_map("default", {"metadata": {"name": "w"}})
    core.patch_namespaced_config_map("w", "default", {"data": {"a": "b"}})
    core.delete_namespaced_config_map("w", "default")
    seen = []
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, "default", resource_version=start, timeout_seconds=1
    )
    for event in stream:
        seen.append((event["type"], event["object"].metadata.name))
    assert [("ADDED", "w"), ("MODIFIED", "w"), ("DELETED", "w")] == seen


def test_namespaces_pods_and_logs_are_typed_as_the_client_expects(cluster: Served) -> None:
    core = client.CoreV1Api()
    names = [each.metadata.name for each in core.list_namespace().items]
    assert ["default", "kube-system"] == names
    container = {"name": "main", "image": "busybox", "resources": {"limits": {"cpu": "1000m"}}}
    body = {"metadata": {"generateName": "gen-"}, "spec": {"containers": [container]}}
    made = core.create_namespaced_pod("default", body)
    assert made.metadata.name.startswith("gen-")
    assert ("Pending", "Burstable") == (made.status.phase, made.status.qos_class)
    assert {"cpu": "1"} == made.spec.containers[0].resources.requests
