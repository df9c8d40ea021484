# SPDX-License-Identifier: Apache-2.0
"""What the Ray kinds have in common: the spec of a RayCluster, and the pods that it describes.

KubeRay adds containers and a cleanup Job that no pod template shows. They are part of the pod sets
here, so that they are charged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from kuota.api.base import Json
from kuota.api.gates import Gates
from kuota.api.podset import Injection
from kuota.api.rules.metadata import ELASTIC_JOB, annotation, elastic
from kuota.api.rules.report import child, elements, integer, mapping, nano, text

from .fields import Path, at, put
from .kind import PodSetsUnknown
from .template_kind import Template, TemplateKind

HEAD = "head"
MANAGER = "ray.io/kuberay-operator"
_FAULT_TOLERANT = "ray.io/ft-enabled"
_AUTOSCALER = {"cpu": "500m", "memory": "512Mi"}
_REDIS_CLEANUP = {"cpu": "200m", "memory": "256Mi"}


class RayKind(TemplateKind):
    """A kind with the spec of a RayCluster at `cluster_path`."""

    prebuilt = True
    native_manager = MANAGER
    managed_by = ("spec", "managedBy")
    validates_unmanaged = False
    validates_groups = True
    cluster_path: ClassVar[Path] = ("spec",)
    shown_path: ClassVar[str] = "spec"
    """The path of the cluster in faults."""
    gated: ClassVar[bool] = True
    """Whether the pods of elastic jobs are gated by the job's own templates."""

    def cluster(self, job: Json) -> Json:
        """Return the spec of the RayCluster."""
        return mapping(at(job, self.cluster_path))

    def templates(self, job: Json) -> Sequence[Template]:
        return [self._slot(HEAD, 1, "headGroupSpec"), *self._workers(job)]

    def _workers(self, job: Json) -> Iterable[Template]:
        for index, group in enumerate(worker_groups(self.cluster(job))):
            yield self._slot(group_name(group), worker_count(group), "workerGroupSpecs", index)

    def _slot(self, name: str, count: int, *steps: str | int) -> Template:
        path = (*self.cluster_path, *steps, "template")
        below = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in steps)
        field = f"{self.shown_path}{below}.template.metadata"
        return Template(name=name, count=count, path=path, field=field)

    def pod_template(self, job: Json, template: Template) -> Json:
        """Return the template. That of the head includes what KubeRay adds to it."""
        pod = super().pod_template(job, template)
        if template.path[-2] != "headGroupSpec":
            return pod
        spec = self.cluster(job)
        if fault_tolerant(spec, job):
            pod = self._with_redis_cleanup(pod)
        if spec.get("enableInTreeAutoscaling") is True:
            pod = with_container(pod, _autoscaler(spec))
        return pod

    def _with_redis_cleanup(self, template: Json) -> Json:
        """Let the Ray container request at least what the Job needs that cleans up Redis."""
        containers = elements(child(template, "spec").get("containers"))
        if not containers:
            raise PodSetsUnknown(
                "with GCS fault tolerance, the Ray container of the head has to request what the "
                "Job needs that cleans up Redis; there is no container",
                f"{self.shown_path}.headGroupSpec.template.spec.containers",
            )
        first = mapping(containers[0])
        resources = child(first, "resources")
        requests = child(resources, "requests")
        raised = requests | {
            name: _larger(requests.get(name), least) for name, least in _REDIS_CLEANUP.items()
        }
        changed = first | {"resources": resources | {"requests": raised}}
        return put(template, ("spec", "containers"), [changed, *containers[1:]])

    def started(self, job: Json, given: Sequence[Injection], gates: Gates) -> Json:
        job = super().started(job, given, gates)
        return self.with_gates(job) if self.gated and elastic(job, gates) else job

    def defaulted(self, job: Json, gates: Gates, *, managed: bool) -> Json:
        return self.with_gates(job) if self.gated and elastic(job, gates) else job

    def with_gates(self, job: Json) -> Json:
        """Return the job with the gate that holds the pods of a slice until it is admitted."""
        for slot in self.templates(job):
            path = (*slot.path, "spec", "schedulingGates")
            if not has_gate(at(job, slot.path)):
                job = put(job, path, [*elements(at(job, path)), {"name": ELASTIC_JOB}])
        return job

    def slice_suffix(self, job: Json) -> str:
        return str(integer(child(job, "metadata").get("generation")) or 0)


def worker_groups(spec: Json) -> list[Json]:
    """Return the worker groups of a RayCluster. A malformed one becomes an empty object."""
    return [mapping(each) for each in elements(spec.get("workerGroupSpecs"))]


def group_name(group: Json) -> str:
    """Return the name of the pod set of a worker group."""
    return text(group.get("groupName")).lower()


def worker_count(group: Json) -> int:
    """Return the number of pods of a worker group: its replicas, each with so many hosts."""
    replicas, hosts = integer(group.get("replicas")), integer(group.get("numOfHosts")) or 0
    return max(0, 1 if replicas is None else replicas) * max(1, hosts)


def fault_tolerant(spec: Json, job: Json) -> bool:
    """Whether the cluster stores its state in Redis, which a Job cleans up after its deletion."""
    if spec.get("gcsFaultToleranceOptions") is not None:
        return True
    return (annotation(job, _FAULT_TOLERANT) or "").lower() == "true"


def has_gate(template: object) -> bool:
    """Whether a pod template has the gate of elastic jobs."""
    gates = elements(child(template, "spec").get("schedulingGates"))
    return any(mapping(each).get("name") == ELASTIC_JOB for each in gates)


def with_container(template: Json, container: Json) -> Json:
    spec = child(template, "spec")
    listed = [*elements(spec.get("containers")), container]
    return template | {"spec": spec | {"containers": listed}}


def _autoscaler(spec: Json) -> Json:
    own = child(spec, "autoscalerOptions").get("resources")
    amounts: Json = {"requests": dict(_AUTOSCALER), "limits": dict(_AUTOSCALER)}
    return {"name": "autoscaler", "resources": own if isinstance(own, dict) else amounts}


def _larger(amount: object, least: str) -> object:
    return amount if (nano(amount) or 0) > (nano(least) or 0) else least
