# SPDX-License-Identifier: Apache-2.0
"""Which gated pods of an elastic job may be scheduled.

The pods of all slices of a chain carry the name of the chain, and a scheduling gate from their
template. As many pods run at once as the newest slice with quota has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kuota.api.base import Json, Key
from kuota.api.core import is_terminated
from kuota.api.podset import SLICE_ANNOTATION, WORKLOAD_ANNOTATION
from kuota.api.rules.metadata import ELASTIC_JOB
from kuota.api.rules.report import child, elements, mapping, string_map, text
from kuota.engine.model import Struct

from .draft import StoredWorkload
from .job_pass.injections import POD_SET_LABEL
from .job_pass.slices import counts_of

_PROVISIONED = (
    "autoscaling.x-k8s.io/consume-provisioning-request",
    "autoscaling.x-k8s.io/provisioning-class-name",
)
"""The annotations of admission checks that pods need before they are scheduled."""


class ElasticPod(Struct):
    """What matters about a pod that may belong to a chain of slices.

    `gates` are all its scheduling gates, and `annotations` only those that checks set.
    """

    key: Key
    version: str
    chain: str
    pod_set: str
    ended: bool = False
    gates: tuple[str, ...] = ()
    annotations: Mapping[str, str] = {}
    node_selector: Mapping[str, str] = {}

    @property
    def gated(self) -> bool:
        return ELASTIC_JOB in self.gates


def elastic_pod(pod: Json) -> ElasticPod:
    """Return what matters about a pod."""
    meta, spec = child(pod, "metadata"), child(pod, "spec")
    annotations = string_map(meta.get("annotations"))
    gates = (text(mapping(each).get("name")) for each in elements(spec.get("schedulingGates")))
    return ElasticPod(
        key=Key(text(meta.get("namespace")), text(meta.get("name"))),
        version=text(meta.get("resourceVersion")),
        chain=annotations.get(SLICE_ANNOTATION) or annotations.get(WORKLOAD_ANNOTATION) or "",
        pod_set=string_map(meta.get("labels")).get(POD_SET_LABEL, ""),
        ended=is_terminated(pod),
        gates=tuple(gates),
        annotations={key: annotations[key] for key in _PROVISIONED if key in annotations},
        node_selector=string_map(spec.get("nodeSelector")),
    )


class ChecksDisagree(ValueError):
    """Two admission checks require different values. No pod can satisfy both."""


class Release(Struct):
    """The merge patch that releases a pod."""

    key: Key
    body: Json


def releases(active: StoredWorkload, pods: Iterable[ElasticPod]) -> list[Release]:
    """Return which pods of the chain of an admitted slice are released, lowest names first.

    A pod that an earlier admission has tied to other nodes stays gated. Raises ChecksDisagree.
    """
    counts = counts_of(active)
    live = [each for each in pods if not each.ended]
    found: list[Release] = []
    for name, count in counts.items():
        members = [each for each in live if each.pod_set == name]
        room = count - sum(not each.gated for each in members)
        updates = _updates(active, name)
        gated = sorted((each for each in members if each.gated), key=lambda each: each.key.name)
        waiting = [each for each in gated if _compatible(each, updates)]
        found += [_release(each, updates) for each in waiting[: max(0, room)]]
    return found


class _Updates(Struct):
    annotations: dict[str, str]
    node_selector: dict[str, str]


def _updates(active: StoredWorkload, pod_set: str) -> _Updates:
    """Return what the checks of a slice require of the pods of a pod set."""
    found = _Updates(annotations={}, node_selector={})
    for update in _pod_set_updates(active, pod_set):
        provisioned = {k: v for k, v in update[0].items() if k in _PROVISIONED}
        _merge(found.annotations, provisioned, pod_set)
        _merge(found.node_selector, update[1], pod_set)
    return found


def _pod_set_updates(
    active: StoredWorkload, pod_set: str
) -> Iterator[tuple[Mapping[str, str], Mapping[str, str]]]:
    for check in active.obj.status.admission_checks or ():
        for update in check.pod_set_updates or ():
            if update.name == pod_set:
                yield update.annotations or {}, update.node_selector or {}


def _merge(into: dict[str, str], added: Mapping[str, str], pod_set: str) -> None:
    for key, value in added.items():
        if into.setdefault(key, value) != value:
            raise ChecksDisagree(
                f"admission checks require {key}={into[key]} and {key}={value} of the pods of "
                f"pod set {pod_set}"
            )


def _compatible(pod: ElasticPod, updates: _Updates) -> bool:
    return _agree(pod.annotations, updates.annotations) and _agree(
        pod.node_selector, updates.node_selector
    )


def _agree(some: Mapping[str, str], others: Mapping[str, str]) -> bool:
    return all(some.get(key, value) == value for key, value in others.items())


def _release(pod: ElasticPod, updates: _Updates) -> Release:
    left = [{"name": each} for each in pod.gates if each != ELASTIC_JOB]
    meta: Json = {"resourceVersion": pod.version}
    if updates.annotations:
        meta["annotations"] = updates.annotations
    spec: Json = {"schedulingGates": left or None}
    if updates.node_selector:
        spec["nodeSelector"] = updates.node_selector
    return Release(key=pod.key, body={"metadata": meta, "spec": spec})
