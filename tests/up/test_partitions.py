# SPDX-License-Identifier: Apache-2.0
"""Partial updates of StatefulSets and Deployments whose pods are real processes."""

from __future__ import annotations

import json

import pytest

from kuota.api.base import Json
from up.machine import Machine, running

pytestmark = pytest.mark.slow

QUOTA = 3
QUEUES = f"""
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {{name: default}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: services}}
spec:
  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: ["nvidia.com/gpu"]
    flavors: [{{name: default, resources: [{{name: nvidia.com/gpu, nominalQuota: {QUOTA}}}]}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: main, namespace: default}}
spec: {{clusterQueue: services}}
"""


def served(kind: str, name: str, replicas: int, **spec: object) -> str:
    """A manifest whose pods print their version, and use one GPU each."""
    container = {
        "name": "server",
        "image": "none",
        "command": ["sh", "-c", "echo version $VERSION; exec sleep 1000"],
        "env": [{"name": "VERSION", "value": "one"}],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    pod = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    labels = {"app": name}
    made: Json = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "main"}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
            **spec,
        },
    }
    return json.dumps(made)


def versions(machine: Machine, *pods: str) -> list[str]:
    """What the running process of each pod has printed."""
    return [machine.kubectl("logs", each).split()[-1] for each in pods]


def names(machine: Machine) -> list[str]:
    """The pods that stay."""
    found = [each["metadata"] for each in machine.get("pods")["items"]]
    return [each["name"] for each in found if not each.get("deletionTimestamp")]


def in_use(machine: Machine) -> int:
    (flavor,) = machine.get("clusterqueue", "services")["status"]["flavorsUsage"]
    return int(flavor["resources"][0]["total"])


def replaced(machine: Machine, pod: str) -> None:
    """Delete a pod, and wait until the next one of its name is ready."""
    before = machine.get("pod", pod)["metadata"]["uid"]
    machine.kubectl("delete", "pod", pod)
    machine.kubectl("wait", f"pod/{pod}", "--for=create")
    machine.kubectl("wait", f"pod/{pod}", "--for=condition=Ready")
    assert before != machine.get("pod", pod)["metadata"]["uid"]


def test_pods_below_the_partition_keep_their_version_until_it_is_lowered() -> None:
    pods = [f"db-{at}" for at in range(QUOTA)]
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    with running("--gpus", "4") as machine:
        machine.apply(QUEUES, served("StatefulSet", "db", QUOTA, updateStrategy=strategy))
        machine.kubectl("rollout", "status", "statefulset/db")
        assert ["one", "one", "one"] == versions(machine, *pods)
        machine.kubectl("set", "env", "statefulset/db", "VERSION=two")
        done = machine.kubectl("rollout", "status", "statefulset/db")
        assert "partitioned roll out complete: 1 new pods have been updated" in done
        assert ["one", "one", "two"] == versions(machine, *pods)
        replaced(machine, "db-0")
        machine.kill()
        machine.up("--gpus", "4")
        replaced(machine, "db-1")
        assert ["one", "one", "two"] == versions(machine, *pods)
        assert QUOTA == in_use(machine), "pods are replaced on the quota of their Workload"
        lower = {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}
        machine.kubectl("patch", "statefulset/db", "--patch", json.dumps(lower))
        machine.kubectl("rollout", "status", "statefulset/db")
        assert ["two", "two", "two"] == versions(machine, *pods)
        assert QUOTA == in_use(machine)
        assert 1 == len(machine.get("workloads")["items"])


def test_a_paused_deployment_is_updated_when_it_is_resumed() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    with running("--gpus", "4") as machine:
        machine.apply(QUEUES, served("Deployment", "web", 2, strategy=strategy))
        machine.kubectl("rollout", "status", "deployment/web")
        machine.kubectl("rollout", "pause", "deployment/web")
        machine.kubectl("set", "env", "deployment/web", "VERSION=two")
        lost, kept = names(machine)
        machine.kubectl("delete", "pod", lost)
        with machine.following("get", "pods", "--watch", "-o", "name") as changes:
            found = {kept}
            while len(found) < 2:
                found.add(changes.readline().strip().removeprefix("pod/"))
        for each in found:
            machine.kubectl("wait", f"pod/{each}", "--for=condition=Ready")
        assert ["one", "one"] == versions(machine, *found)
        machine.kubectl("rollout", "resume", "deployment/web")
        machine.kubectl("rollout", "status", "deployment/web")
        assert ["two", "two"] == versions(machine, *names(machine))
        total = "jsonpath={.status.flavorsUsage[0].resources[0].total}"
        machine.wait("clusterqueue/services", f"{total}=2")
