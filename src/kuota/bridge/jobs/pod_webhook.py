# SPDX-License-Identifier: Apache-2.0
"""The defaults of new Pods: a gate until they are admitted, and the marks of queued Pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuota.api.base import Json
from kuota.api.gates import Gate, Gates
from kuota.api.rules.job_common import queue_name
from kuota.api.rules.metadata import annotation
from kuota.api.rules.pod import ADMISSION_GATE, MANAGED, SUSPENDING_PARENT
from kuota.api.rules.report import child, elements, text

from .ancestor import Lookup, ancestor, owned
from .job_webhook import in_scope, namespace_labels, with_default_labels
from .pod_gates import FINALIZER, POD_INDEX, POD_INDEX_SOURCE, ROLE_HASH, TOPOLOGY_GATE, role
from .pod_gates import with_gate as gated

if TYPE_CHECKING:
    from ..lifecycle_view import LifecycleConfig


def defaulted(pod: Json, look_up: Lookup, config: LifecycleConfig) -> Json:
    """Return a new Pod, gated if it waits for quota. Raises NestingError.

    The controller that creates a Pod may ask for the gate. Otherwise, a Pod waits if it has a queue
    and no managed owner.
    """
    if annotation(pod, SUSPENDING_PARENT) is not None:
        return suspended(pod, config.gates)
    if not in_scope(pod, look_up, config):
        return pod
    manage_all = config.manages_all(namespace_labels(pod, look_up))
    labelled = with_default_labels(pod, look_up, config)
    unqueued = not queue_name(labelled) and not manage_all
    if unqueued and not owned(pod, config.owners):
        return pod  # Most pods of ReplicaSets: these are not looked up.
    if ancestor(pod, config.owners, look_up, manage_all=manage_all) is not None or unqueued:
        return pod
    meta = child(labelled, "metadata")
    finalizers = elements(meta.get("finalizers"))
    marked = meta | {"labels": child(meta, "labels") | {MANAGED: "true"}}
    if FINALIZER not in finalizers:
        marked["finalizers"] = [*finalizers, FINALIZER]
    return suspended(labelled | {"metadata": marked}, config.gates)


def suspended(pod: Json, gates: Gates) -> Json:
    """Return a Pod with its gates and its role."""
    pod = gated(pod, ADMISSION_GATE)
    if gates.on(Gate.TopologyAwareScheduling):
        pod = gated(_indexed(pod), TOPOLOGY_GATE)
    meta = child(pod, "metadata")
    annotations = child(meta, "annotations") | {ROLE_HASH: role(pod)}
    return pod | {"metadata": meta | {"annotations": annotations}}


def _indexed(pod: Json) -> Json:
    """Return the Pod with its group index, copied from the label that the annotation names."""
    source = annotation(pod, POD_INDEX_SOURCE)
    if source is None:
        return pod
    meta = child(pod, "metadata")
    labels = child(meta, "labels")
    index = text(labels.get(source))
    return pod | {"metadata": meta | {"labels": labels | {POD_INDEX: index}}}
