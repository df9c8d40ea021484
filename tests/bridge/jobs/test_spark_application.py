# SPDX-License-Identifier: Apache-2.0
"""Rules of SparkApplications that Kueue's recorded cases do not show."""

from __future__ import annotations

import pytest

from bridge.jobs.kinds import EXAMPLES
from kuota.api.base import Json
from kuota.api.gates import Gates
from kuota.api.podset import Injection
from kuota.bridge.jobs.fields import at, put
from kuota.bridge.jobs.kind import PodSetsUnknown
from kuota.bridge.jobs.spark_application import SparkApplication

KIND = SparkApplication()
GATES = Gates()
APP = EXAMPLES["SparkApplication"]


def driver(**fields: object) -> Json:
    """The pod template of a driver with these fields."""
    app = put(APP, ("spec", "driver"), fields)
    return dict(KIND.pod_sets(app, GATES)[0]["template"])


def requests(**fields: object) -> Json:
    container = driver(**fields)["spec"]["containers"][0]
    return dict(container.get("resources") or {})


@pytest.mark.parametrize(
    ("written", "expected"),
    [("512m", "512Mi"), ("1g", "1Gi"), ("2GB", "2Gi"), ("1t", "1Ti"), ("512Mi", "512Mi")],
)
def test_memory_is_written_as_in_java_or_as_in_kubernetes(written: str, expected: str) -> None:
    assert {"memory": expected} == requests(memory=written)["requests"]


def test_without_a_core_request_a_pod_requests_its_cores_as_spark_does() -> None:
    assert {"cpu": "64"} == requests(cores=64)["requests"]
    assert {"cpu": "500m"} == requests(cores=64, coreRequest="500m")["requests"]


def test_limits_and_gpus_are_counted() -> None:
    found = requests(coreLimit="2", memoryLimit="1g", gpu={"name": "nvidia.com/gpu", "quantity": 2})
    assert {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": 2} == found["limits"]
    assert {} == requests(gpu={"name": "nvidia.com/gpu", "quantity": -1})


def test_an_invalid_amount_is_rejected_with_its_role() -> None:
    app = put(APP, ("spec", "executor", "memory"), "much")
    with pytest.raises(PodSetsUnknown, match="memory"):
        KIND.pod_sets(app, GATES)
    assert ["spec.executor"] == [each.path for each in KIND.topology_faults(app, GATES)]


def test_sidecars_and_init_containers_count() -> None:
    sidecar = {"name": "proxy", "resources": {"requests": {"cpu": "1"}}}
    pod = driver(sidecars=[sidecar], initContainers=[{"name": "init"}])["spec"]
    assert ["spark-kubernetes-driver", "proxy"] == [each["name"] for each in pod["containers"]]
    assert ["init"] == [each["name"] for each in pod["initContainers"]]


def test_a_selector_of_all_roles_moves_to_each_role_and_survives_a_preemption() -> None:
    app = put(APP, ("spec", "nodeSelector"), {"zone": "a"})
    pod_sets = KIND.pod_sets(app, GATES)
    assert {"zone": "a"} == pod_sets[1]["template"]["spec"]["nodeSelector"]
    given = [Injection(node_selector={"pool": "gold"})] * 2
    running = KIND.started(app, given, GATES)
    assert at(running, ("spec", "nodeSelector")) is None
    assert {"zone": "a", "pool": "gold"} == at(running, ("spec", "driver", "nodeSelector"))
    restored = KIND.restored(KIND.suspend(running), pod_sets)
    for role in ("driver", "executor"):
        assert {"zone": "a"} == at(restored, ("spec", role, "nodeSelector"))


def test_a_changed_number_of_executors_is_restored() -> None:
    pod_sets = KIND.pod_sets(APP, GATES)
    grown = put(APP, ("spec", "executor", "instances"), 30)
    assert 3 == at(KIND.restored(grown, pod_sets), ("spec", "executor", "instances"))


def test_an_application_occupies_quota_until_its_pods_are_removed() -> None:
    states = {"RUNNING": True, "SUSPENDING": True, "SUSPENDED": False, "COMPLETED": False}
    found = {
        state: KIND.active(put(APP, ("status", "applicationState"), {"state": state}))
        for state in states
    }
    assert states == found


def test_executors_have_to_run_before_the_pods_are_ready() -> None:
    app = put(APP, ("status", "applicationState"), {"state": "RUNNING"})
    assert not KIND.pods_ready(app)
    states = {"1": "RUNNING", "2": "COMPLETED", "3": "FAILED"}
    assert not KIND.pods_ready(put(app, ("status", "executorState"), states))
    states["3"] = "RUNNING"
    assert KIND.pods_ready(put(app, ("status", "executorState"), states))


def test_a_change_of_an_application_without_a_queue_is_not_validated() -> None:
    unmanaged = put(APP, ("metadata", "labels"), {})
    bad = put(unmanaged, ("metadata", "labels"), {"kueue.x-k8s.io/max-exec-time-seconds": "x"})
    assert [] == list(KIND.faults(bad, unmanaged, GATES, managed=False, default_queue=False))
    assert [] != list(KIND.faults(bad, None, GATES, managed=False, default_queue=False))
    assert [] != list(KIND.faults(bad, APP, GATES, managed=False, default_queue=False))


@pytest.mark.parametrize("mount", [{}, 1])
def test_mounts_and_volumes_without_names_do_not_fail(mount: object) -> None:
    app = put(put(APP, ("spec", "volumes"), [{}]), ("spec", "driver", "volumeMounts"), [mount])
    assert [{}] == KIND.pod_sets(app, GATES)[0]["template"]["spec"]["volumes"]


def test_the_selector_of_a_role_takes_precedence_over_that_of_all_roles() -> None:
    app = put(APP, ("spec", "nodeSelector"), {"zone": "a", "disk": "hdd"})
    app = put(app, ("spec", "driver", "nodeSelector"), {"disk": "ssd"})
    running = KIND.started(app, [Injection(node_selector={"pool": "gold"})] * 2, GATES)
    wanted = {"zone": "a", "disk": "ssd", "pool": "gold"}
    assert wanted == at(running, ("spec", "driver", "nodeSelector"))
    assert wanted | {"disk": "hdd"} == at(running, ("spec", "executor", "nodeSelector"))


def test_an_empty_selector_of_all_roles_is_removed() -> None:
    app = put(APP, ("spec", "nodeSelector"), {})
    running = KIND.started(app, [Injection(node_selector={"pool": "gold"})] * 2, GATES)
    assert "nodeSelector" not in running["spec"]
