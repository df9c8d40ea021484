# SPDX-License-Identifier: Apache-2.0
"""One ClusterQueue of GPUs, `lab`, with its LocalQueue `main`, and Jobs for it."""

from __future__ import annotations

import json

# An older version among the newer ones: it is converted on its way in.
_QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: lab}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: ["nvidia.com/gpu"]
    flavors: [{name: default, resources: [{name: nvidia.com/gpu, nominalQuota: QUOTA}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: main, namespace: default}
spec: {clusterQueue: lab}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: high}
value: 100
"""

_REQUEUED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
REQUEUE = {"podFailurePolicy": {"rules": [_REQUEUED]}}
"""Part of the spec of a Job that runs again after a restart of its machine."""


def queues(gpus: int = 2) -> str:
    return _QUEUES.replace("QUOTA", str(gpus))


def job(
    name: str,
    script: str,
    gpus: int = 1,
    *,
    restart: str = "Never",
    retries: int = 6,
    requeue: bool = False,
    urgent: bool = False,
) -> str:
    amounts = {"nvidia.com/gpu": gpus}
    container = {
        "name": "main",
        "image": "none",
        "command": ["sh", "-c", script],
        "resources": {"requests": amounts, "limits": amounts},
    }
    pods = {
        "restartPolicy": restart,
        "terminationGracePeriodSeconds": 20,
        "containers": [container],
    }
    labels = {"kueue.x-k8s.io/queue-name": "main"}
    if urgent:
        labels["kueue.x-k8s.io/priority-class"] = "high"
    manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "backoffLimit": retries,
            "template": {"spec": pods},
            **(REQUEUE if requeue else {}),
        },
    }
    return json.dumps(manifest) + "\n"
