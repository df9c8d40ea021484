# SPDX-License-Identifier: Apache-2.0
"""Short builders of manifests for tests of commands."""

from __future__ import annotations

from typing import Any

import yaml

from kuota.api.base import Json

V1BETA2 = "kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"


def flavor(name: str = "h100", **spec: Any) -> Json:
    return _object(V1BETA2, "ResourceFlavor", name, spec=spec)


def cluster_queue(name: str, gpu: int, cohort: str = "lab", **spec: Any) -> Json:
    """A ClusterQueue open to all; `limits` are limits of its one quota."""
    quota = {"name": GPU, "nominalQuota": gpu, **spec.pop("limits", {})}
    group = {"coveredResources": [GPU], "flavors": [{"name": "h100", "resources": [quota]}]}
    given = {"namespaceSelector": {}, "resourceGroups": [group], **spec}
    return _object(V1BETA2, "ClusterQueue", name, spec=given | ({"cohortName": cohort}))


def local_queue(name: str, cluster_queue: str = "", namespace: str = "default") -> Json:
    spec = {"clusterQueue": cluster_queue or name}
    return _object(V1BETA2, "LocalQueue", name, namespace, spec=spec)


def job(
    name: str,
    queue: str = "",
    gpu: int = 1,
    *,
    after: str = "",
    runs_for: str = "",
    namespace: str = "default",
    **labels: str,
) -> Json:
    """A Job of as many pods as GPUs."""
    marks = {"kuota.dev/submit-after": after, "kuota.dev/runs-for": runs_for}
    tags = {"kueue.x-k8s.io/queue-name": queue}
    tags |= {f"kueue.x-k8s.io/{key.replace('_', '-')}": value for key, value in labels.items()}
    container = {"name": "c", "image": "i", "resources": {"limits": {GPU: 1}}}
    spec = {
        "suspend": True,
        "parallelism": gpu,
        "completions": gpu,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }
    made = _object("batch/v1", "Job", name, namespace, spec=spec)
    made["metadata"]["labels"] = {key: value for key, value in tags.items() if value}
    made["metadata"]["annotations"] = {key: value for key, value in marks.items() if value}
    return made


def priority_class(name: str, value: int) -> Json:
    return _object(V1BETA2, "WorkloadPriorityClass", name) | {"value": value}


def text(*objects: Json) -> str:
    return yaml.safe_dump_all(objects, sort_keys=False)


def _object(api_version: str, kind: str, name: str, namespace: str = "", **rest: Any) -> Json:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}
