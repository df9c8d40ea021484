# SPDX-License-Identifier: Apache-2.0
"""What controllers read about the pods of a Workload, and the patch that removes their gates."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kuota.api.base import Json, Key
from kuota.api.core import is_terminated
from kuota.api.podset import SLICE_ANNOTATION, TOPOLOGY_GATE, WORKLOAD_ANNOTATION
from kuota.api.rules.metadata import ELASTIC_JOB, PREFIX
from kuota.api.rules.report import child, elements, mapping, string_map, text
from kuota.api.topology_codec import HOSTNAME
from kuota.engine.model import Struct

from .inbound_nodes import topology_annotated
from .job_pass.injections import POD_SET_LABEL

INDEX_OFFSET = f"{PREFIX}pod-index-offset"


class WorkloadPod(Struct):
    """A pod that may belong to a Workload.

    `chain` identifies its Workload, or all slices of an elastic job: it is the name of the first
    one. `ended` pods succeeded or failed. `node` is the node that the pod is bound to.
    """

    key: Key
    uid: str
    version: str
    workload: str
    chain: str
    pod_set: str
    phase: str = ""
    ended: bool = False
    deleting: bool = False
    placed: bool = False
    """Whether topology-aware scheduling chooses its node."""
    gates: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    node_selector: Mapping[str, str] = {}
    node: str = ""

    def gated(self, gate: str) -> bool:
        return gate in self.gates

    @property
    def waits_for_node(self) -> bool:
        """Whether it may be scheduled, but was not bound to a node so far."""
        pending = self.phase == "Pending" and not self.node
        return pending and not self.gated(TOPOLOGY_GATE)

    @property
    def hostname(self) -> str:
        """The only node that it may be bound to; "" if there is no such restriction."""
        return self.node_selector.get(HOSTNAME, "")


def workload_pod(pod: Json) -> WorkloadPod:
    """Return what matters about a pod."""
    meta, spec = child(pod, "metadata"), child(pod, "spec")
    annotations = string_map(meta.get("annotations"))
    labels = string_map(meta.get("labels"))
    gates = (text(mapping(each).get("name")) for each in elements(spec.get("schedulingGates")))
    workload = annotations.get(WORKLOAD_ANNOTATION, "")
    return WorkloadPod(
        key=Key(text(meta.get("namespace")), text(meta.get("name"))),
        uid=text(meta.get("uid")),
        version=text(meta.get("resourceVersion")),
        workload=workload,
        chain=annotations.get(SLICE_ANNOTATION) or workload,
        pod_set=labels.get(POD_SET_LABEL, ""),
        phase=text(child(pod, "status").get("phase")),
        ended=is_terminated(pod),
        deleting=bool(meta.get("deletionTimestamp")),
        placed=topology_annotated(annotations),
        gates=tuple(gates),
        labels=labels,
        annotations=annotations,
        node_selector=string_map(spec.get("nodeSelector")),
        node=text(spec.get("nodeName")),
    )


def chain_of(pod: Json) -> Key | None:
    """Return the key that identifies the Workload of a pod, or the slices of its elastic job."""
    meta = child(pod, "metadata")
    annotations = child(meta, "annotations")
    name = annotations.get(SLICE_ANNOTATION) or annotations.get(WORKLOAD_ANNOTATION)
    return Key(text(meta.get("namespace")), text(name)) if text(name) else None


def may_release(old: Json | None, new: Json | None) -> bool:
    """Whether a pod change may allow gates to be removed: the pod is gated, or it frees a place."""
    waits = new is not None and not is_terminated(new) and _gated(new)
    left = old is not None and not is_terminated(old) and (new is None or is_terminated(new))
    return waits or left


def _gated(pod: Json) -> bool:
    gates = elements(child(pod, "spec").get("schedulingGates"))
    return any(mapping(each).get("name") in (ELASTIC_JOB, TOPOLOGY_GATE) for each in gates)


class GateRemoval(Struct):
    """What changes about a pod that loses gates."""

    pod: WorkloadPod
    gates: frozenset[str]
    annotations: Mapping[str, str] = {}
    node_selector: Mapping[str, str] = {}

    def joined(self, other: GateRemoval) -> GateRemoval:
        """Return both changes of one pod. The other one takes precedence."""
        return GateRemoval(
            pod=self.pod,
            gates=self.gates | other.gates,
            annotations={**self.annotations, **other.annotations},
            node_selector={**self.node_selector, **other.node_selector},
        )

    @property
    def patch(self) -> Json:
        """The merge patch, based on the pod's version.

        Kubernetes allows changes of the node selector only together with, or before, the removal of
        the last gate.
        """
        return {
            "metadata": {"resourceVersion": self.pod.version}
            | ({"annotations": dict(self.annotations)} if self.annotations else {}),
            "spec": {"schedulingGates": _left(self.pod.gates, self.gates)}
            | ({"nodeSelector": dict(self.node_selector)} if self.node_selector else {}),
        }


def _left(gates: Collection[str], removed: Collection[str]) -> list[Json] | None:
    return [{"name": each} for each in gates if each not in removed] or None
