# SPDX-License-Identifier: Apache-2.0
"""ProvisioningRequests and their PodTemplates: what is created, and what an autoscaler answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kuota.api.base import Json, Key
from kuota.api.gates import Gate, Gates
from kuota.api.kueue import ProvisioningRequestConfigSpec, ResourceFlavor
from kuota.api.owners import owners
from kuota.api.podset import injection
from kuota.api.rules.report import child, elements, mapping, string_map, text
from kuota.api.workload import PodSetUpdate, Workload
from kuota.bridge.jobs.template_kind import merged_template
from kuota.kube.resources import POD_TEMPLATES, PROVISIONING_REQUESTS, WORKLOADS, Resource

from .names import attempt_annotations, request_name, template_name
from .pod_sets import MergedPodSet, containers

MANAGED = {"kueue.x-k8s.io/managed": "true"}
PARAMETER_PREFIX = "provreq.kueue.x-k8s.io/"
"""Annotations of a Workload with this prefix become parameters of its requests."""

CONSUME = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS = "autoscaling.x-k8s.io/provisioning-class-name"


def owning_workloads(request: Json) -> list[Key]:
    """Return the Workloads that may own a request, which its owner references name."""
    namespace = text(child(request, "metadata").get("namespace"))
    return [Key(namespace, text(each.get("name"))) for each in owners(request)]


def is_owned_by(obj: Json, uid: str) -> bool:
    return any(text(each.get("uid")) == uid for each in owners(obj))


def reference(resource: Resource, metadata: Mapping[str, Any]) -> Json:
    """Return the owner reference of a controller."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": metadata["name"],
        "uid": metadata.get("uid") or "",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def request_object(
    workload: Json,
    check: str,
    attempt: int,
    config: ProvisioningRequestConfigSpec,
    pod_sets: Sequence[MergedPodSet],
) -> Json:
    """Return the request of an attempt."""
    meta = workload["metadata"]
    name = request_name(meta["name"], check, attempt)
    metadata: Json = {
        "name": name,
        "namespace": meta.get("namespace", ""),
        "labels": dict(MANAGED),
        "ownerReferences": [reference(WORKLOADS, meta)],
    }
    annotations = attempt_annotations(meta["name"], check, attempt)
    if annotations:
        metadata["annotations"] = annotations
    spec: Json = {
        "provisioningClassName": config.provisioning_class_name,
        "podSets": [
            {
                "podTemplateRef": {"name": template_name(name, each.pod_set.name)},
                "count": each.count,
            }
            for each in pod_sets
        ],
    }
    parameters = _parameters(config, meta)
    if parameters:
        spec["parameters"] = parameters
    return {
        "apiVersion": PROVISIONING_REQUESTS.api_version,
        "kind": PROVISIONING_REQUESTS.kind,
        "metadata": metadata,
        "spec": spec,
    }


def _parameters(config: ProvisioningRequestConfigSpec, metadata: Json) -> dict[str, str]:
    """Return the parameters of the configuration, which annotations of the Workload override."""
    return (config.parameters or {}) | {
        key.removeprefix(PARAMETER_PREFIX): value
        for key, value in string_map(metadata.get("annotations")).items()
        if key.startswith(PARAMETER_PREFIX)
    }


def template_object(
    workload: Json,
    name: str,
    pod_set: MergedPodSet,
    flavors: Mapping[str, ResourceFlavor],
    gates: Gates,
) -> Json:
    """Return the PodTemplate of a pod set, with what its flavors inject.

    The Workload controls it until its request exists, so that it is never left behind. Raises
    FlavorMissing and MergeConflict.
    """
    topology = gates.on(Gate.TopologyAwareScheduling)
    added = injection(pod_set.assignment, pod_set.pod_set, flavors, topology=topology)
    template = merged_template(pod_set.template, added, elastic=True)
    meta = workload["metadata"]
    return {
        "apiVersion": POD_TEMPLATES.api_version,
        "kind": POD_TEMPLATES.kind,
        "metadata": {
            "name": name,
            "namespace": meta.get("namespace", ""),
            "labels": dict(MANAGED),
            "ownerReferences": [reference(WORKLOADS, meta)],
        },
        "template": _with_requests(template),
    }


def _with_requests(template: Json) -> Json:
    """Return the template with limits as requests where requests are missing."""
    spec = _requesting(child(template, "spec"))
    for field in ("initContainers", "containers"):
        if elements(spec.get(field)):
            listed = containers({"spec": {field: spec[field]}})
            spec = spec | {field: [_requesting(each) for each in listed]}
    return template | {"spec": spec}


def _requesting(owner: Json) -> Json:
    """Return a container, or the spec of a pod, with its limits as missing requests."""
    resources = child(owner, "resources")
    limits = mapping(resources.get("limits"))
    if not limits:
        return owner
    requests = {**limits, **mapping(resources.get("requests"))}
    return owner | {"resources": resources | {"requests": requests}}


def is_synced(request: Json, config: ProvisioningRequestConfigSpec, workload: Json) -> bool:
    """Whether a request has the class and the parameters of the configuration.

    In Kueue a request whose Workload overrides a parameter never has them, and is replaced forever.
    """
    spec = child(request, "spec")
    given, wanted = mapping(spec.get("parameters")), _parameters(config, workload["metadata"])
    return text(spec.get("provisioningClassName")) == config.provisioning_class_name and all(
        given.get(key) == wanted[key] for key in config.parameters or {}
    )


def answer(request: Json, type_: str) -> Json | None:
    """Return the condition of a request; None if the autoscaler has not set it."""
    listed = map(mapping, elements(child(request, "status").get("conditions")))
    return next((each for each in listed if each.get("type") == type_), None)


def is_true(request: Json, type_: str) -> bool:
    found = answer(request, type_)
    return found is not None and found.get("status") == "True"


def message(request: Json, type_: str) -> str:
    return text((answer(request, type_) or {}).get("message"))


def pod_set_updates(
    obj: Workload, request: Json, config: ProvisioningRequestConfigSpec
) -> list[PodSetUpdate]:
    """Return what pods need to run on the nodes of a request, for the pod sets that it has."""
    name = text(child(request, "metadata").get("name"))
    spec = child(request, "spec")
    sets = {template_name(name, each.name): each.name for each in obj.spec.pod_sets or ()}
    listed = [
        text(child(each, "podTemplateRef").get("name")) for each in elements(spec.get("podSets"))
    ]
    annotations = {CONSUME: name, CLASS: text(spec.get("provisioningClassName"))}
    return [
        PodSetUpdate(
            name=sets[each],
            annotations=annotations,
            node_selector=_node_selector(request, config) or None,
        )
        for each in listed
        if each in sets
    ]


def _node_selector(request: Json, config: ProvisioningRequestConfigSpec) -> dict[str, str]:
    updates = config.pod_set_updates
    details = string_map(child(request, "status").get("provisioningClassDetails"))
    return {
        each.key: details[each.value_from_provisioning_class_detail]
        for each in (updates.node_selector if updates is not None else None) or ()
        if each.value_from_provisioning_class_detail in details
    }
