# SPDX-License-Identifier: Apache-2.0
"""What connects Workloads to their queues, jobs and pods, in objects that are plain JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kuota.api.base import Json, Key
from kuota.api.podset import SLICE_ANNOTATION, WORKLOAD_ANNOTATION

from .conditions import holds


def marks(pod: Json | None) -> list[str | Key]:
    """Return what connects a pod to its Workload: UIDs of owners, its own UID, an annotation."""
    if pod is None:
        return []
    return [*owner_uids(pod), uid_of(pod), chain(pod, "")]


def has_failed(pod: Json | None) -> bool:
    """Whether the pod exists and failed."""
    return pod is not None and (pod.get("status") or {}).get("phase") == "Failed"


def chain(obj: Json, name: str) -> Key:
    """Return what the Workload, or all slices of an elastic job, have in common with their pods."""
    annotations = obj["metadata"].get("annotations") or {}
    found = annotations.get(SLICE_ANNOTATION) or name or annotations.get(WORKLOAD_ANNOTATION)
    return Key(object_key(obj).namespace, str(found or ""))


def object_key(obj: Json) -> Key:
    """Return the key of an object."""
    metadata = obj["metadata"]
    return Key(str(metadata.get("namespace") or ""), str(metadata["name"]))


def recency(workload: Json) -> tuple[bool, str, str]:
    """Sort the Workloads of one job: the newest one that has not finished is last."""
    created = str(workload["metadata"].get("creationTimestamp") or "")
    return not holds(workload, "Finished"), created, object_key(workload).name


def uid_of(obj: Json) -> str:
    """Return the UID of an object."""
    return str(obj["metadata"].get("uid"))


def spec_of(obj: Json | None) -> Json:
    """Return the spec of an object; empty if there is none."""
    return (obj or {}).get("spec") or {}


def owner_uids(obj: Json) -> list[str]:
    """Return the UIDs of the owners of an object."""
    references = (obj.get("metadata") or {}).get("ownerReferences") or ()
    return [str(each.get("uid")) for each in references]


def local_queue_key(workload: Json) -> Key:
    """Return the LocalQueue that a Workload names; its name may be empty."""
    name = (workload.get("spec") or {}).get("queueName")
    return Key(str(workload["metadata"].get("namespace") or ""), str(name or ""))


def cluster_queue_of(workload: Json, local_queues: Mapping[Key, Json]) -> str:
    """Return the ClusterQueue of a Workload; "" if its LocalQueue is unknown."""
    admission = (workload.get("status") or {}).get("admission") or {}
    target = spec_of(local_queues.get(local_queue_key(workload))).get("clusterQueue")
    return str(admission.get("clusterQueue") or target or "")
