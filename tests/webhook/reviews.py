# SPDX-License-Identifier: Apache-2.0
"""Builds admission reviews, and decodes the responses for comparison."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import msgspec

from kuota.api.advice import Names
from kuota.api.base import Json, Key
from kuota.api.config.shapes import Configuration
from kuota.api.gates import Gates
from kuota.kube.errors import Unreachable
from kuota.kube.resources import Resource
from kuota.server.patch import json_patch
from kuota.webhook.authors import Authorizer
from kuota.webhook.conversion import Conversion
from kuota.webhook.reviews import AdmissionReviews

QUEUE_NAME = "kueue.x-k8s.io/queue-name"
NAMESPACE: Json = {"metadata": {"labels": {"kubernetes.io/metadata.name": "team"}}}


class Objects:
    """A `Lookup` over what is written down: (plural, name) -> object."""

    def __init__(self, found: dict[tuple[str, str], Json] | None = None) -> None:
        self.found = {("namespaces", "team"): NAMESPACE} | (found or {})
        self.broken: set[str] = set()

    async def find(self, resource: Resource, key: Key) -> Json | None:
        if resource.plural in self.broken:
            raise Unreachable("nobody answers")
        return self.found.get((resource.plural, key.name))


class Answer(msgspec.Struct):
    """`object` is the object after the patch."""

    allowed: bool
    object: Json
    patch: list[Json]
    status: Json
    warnings: list[str]

    @property
    def faults(self) -> set[tuple[str, str]]:
        causes = (self.status.get("details") or {}).get("causes") or ()
        return {(each["field"], each["reason"]) for each in causes}


def review(obj: Any, operation: str = "CREATE", old: Any = None, **more: Any) -> bytes:
    """An AdmissionReview, with all that a real one carries."""
    found = obj if isinstance(obj, dict) else {}
    group, _, version = str(found.get("apiVersion", "")).rpartition("/")
    kind = {"group": group, "version": version, "kind": str(found.get("kind", ""))}
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": kind,
        "resource": {"group": group, "version": version, "resource": "things"},
        "operation": operation,
        "name": "x",
        "namespace": "team",
        "userInfo": {"username": "ann", "groups": ["system:authenticated"]},
        "object": obj,
        "oldObject": old,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
    }
    whole = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return msgspec.json.encode(whole | {"request": request | more})


def answered(
    path: str,
    obj: Json,
    old: Json | None = None,
    *,
    objects: Objects | None = None,
    config: Configuration | None = None,
    gates: Gates | None = None,
    topology_levels: Names | None = None,
    node_labels: Names | None = None,
    authorizer: Authorizer | None = None,
    operation: str = "",
    **more: Any,
) -> Answer:
    """What the webhooks say; an update if there is an old object."""
    found = objects or Objects()
    webhooks = AdmissionReviews(found, config, gates, topology_levels, node_labels, authorizer)
    operation = operation or ("CREATE" if old is None else "UPDATE")
    raw = asyncio.run(webhooks.answer(path, review(obj, operation, old, **more)))
    said = msgspec.json.decode(raw)
    assert said["kind"] == "AdmissionReview"
    response = said["response"]
    assert response["uid"] == "705ab4f5-6393-11e8-b7cc-42010a800002"
    patch = msgspec.json.decode(base64.b64decode(response.get("patch", "W10=")))
    assert response.get("patchType", "JSONPatch") == "JSONPatch"
    return Answer(
        response["allowed"],
        json_patch(obj, patch),
        patch,
        response.get("status", {}),
        response.get("warnings", []),
    )


def job(*, queue: str = "", suspend: bool | None = None, **metadata: Any) -> Json:
    labels = {QUEUE_NAME: queue} if queue else {}
    spec: Json = {"parallelism": 2, "completions": 2, "template": {"spec": {"containers": []}}}
    if suspend is not None:
        spec["suspend"] = suspend
    named = {"name": "x", "namespace": "team", "labels": labels} | metadata
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": named, "spec": spec}


def workload(version: str = "v1beta2", **spec: Any) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pod_set = {"name": "main", "count": 2, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": f"kueue.x-k8s.io/{version}",
        "kind": "Workload",
        "metadata": {"name": "x", "namespace": "team", "creationTimestamp": None},
        "spec": {"active": True, "queueName": "q", "podSets": [pod_set]} | spec,
    }


def cluster_queue(version: str = "v1beta2", **spec: Any) -> Json:
    quota = {"name": "cpu", "nominalQuota": "4"}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "d", "resources": [quota]}]}
    return {
        "apiVersion": f"kueue.x-k8s.io/{version}",
        "kind": "ClusterQueue",
        "metadata": {"name": "x"},
        "spec": {"namespaceSelector": {}, "resourceGroups": [group]} | spec,
    }


def converted(body: bytes) -> bytes:
    """The answer to a conversion review; raises Unreadable."""
    conversion = Conversion(body)
    for _ in conversion.steps():
        pass
    return conversion.answer()
