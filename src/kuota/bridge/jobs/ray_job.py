# SPDX-License-Identifier: Apache-2.0
"""The RayJob of KubeRay: a RayCluster, and a submitter that runs one program on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kuota.api.base import Json
from kuota.api.config.frameworks import FRAMEWORKS
from kuota.api.faults import FieldError, invalid, required
from kuota.api.gates import Gates
from kuota.api.podset import Injection
from kuota.api.rules.job_common import common_update_faults
from kuota.api.rules.report import child, elements, mapping, text

from .fields import at, put
from .kind import End
from .ray_autoscaled import Autoscaled
from .ray_faults import cluster_faults
from .ray_spec import with_container
from .template_kind import Template

RAY_JOB = "ray.io/rayjob"
_SUBMITTER = "submitter"
_SUBMITTER_PATH = ("spec", "submitterPodTemplate")
_CONTAINER = "ray-job-submitter"
_RESOURCES: Json = {
    "requests": {"cpu": "500m", "memory": "200Mi"},
    "limits": {"cpu": "1", "memory": "1Gi"},
}
_NOT_RUNNING = ("", "Suspended")
_OVER = ("Complete", "Failed")


class RayJob(Autoscaled):
    """A RayJob. One that selects an existing cluster needs no quota and is ignored.

    Its elastic pods are gated by the RayCluster that KubeRay creates.
    """

    framework = RAY_JOB
    described_pod_sets = "`head`, one for each worker group, `submitter`"
    gvk = FRAMEWORKS[RAY_JOB]
    cluster_path = ("spec", "rayClusterSpec")
    shown_path = "spec.rayClusterSpec"
    gated = False

    def templates(self, job: Json) -> Sequence[Template]:
        found = [*super().templates(job)]
        if child(job, "spec").get("submissionMode") == "K8sJobMode":
            found.append(Template(name=_SUBMITTER, count=1, path=_SUBMITTER_PATH))
        return found

    def pod_template(self, job: Json, template: Template) -> Json:
        if template.path == _SUBMITTER_PATH:
            return self._submitter(job)
        pod = super().pod_template(job, template)
        sidecar = child(job, "spec").get("submissionMode") == "SidecarMode"
        if sidecar and template.path[-2] == "headGroupSpec":
            return with_container(pod, {"name": _CONTAINER, "resources": _RESOURCES})
        return pod

    def _submitter(self, job: Json) -> Json:
        """Return the template of the submitter. KubeRay's default has the image of the head."""
        own = at(job, _SUBMITTER_PATH)
        if own is not None:
            return mapping(own)
        head = child(self.cluster(job), "headGroupSpec", "template", "spec")
        first = mapping(next(iter(elements(head.get("containers"))), None))
        image = text(first.get("image"))
        container: Json = {"name": _CONTAINER, "resources": _RESOURCES}
        container |= {"image": image} if image else {}
        return {"spec": {"containers": [container], "restartPolicy": "Never"}}

    def injected(self, job: Json, slot: Template, added: Injection, *, elastic: bool) -> Json:
        if slot.path == _SUBMITTER_PATH:
            job = put(job, _SUBMITTER_PATH, self._submitter(job))
        return super().injected(job, slot, added, elastic=elastic)

    def template_restored(self, job: Json, slot: Template, pod_set: Json) -> Json:
        if at(job, slot.path) is None:
            return job
        return super().template_restored(job, slot, pod_set)

    def end(self, job: Json) -> End | None:
        status = child(job, "status")
        if status.get("jobDeploymentStatus") not in _OVER:
            return None
        success = status.get("jobStatus") == "SUCCEEDED"
        return End(success=success, message=text(status.get("message")))

    def active(self, job: Json) -> bool:
        return text(child(job, "status").get("jobDeploymentStatus")) not in _NOT_RUNNING

    def pods_ready(self, job: Json) -> bool:
        return child(job, "status", "rayClusterStatus").get("state") == "ready"

    def skipped(self, job: Json, gates: Gates) -> bool:
        return bool(child(job, "spec", "clusterSelector"))

    def on_hold(self, job: Json) -> str:
        status = child(job, "status")
        if status.get("jobDeploymentStatus") != "ValidationFailed":
            return ""
        return f"KubeRay rejected the job: {text(status.get('message')) or 'ValidationFailed'}"

    def cluster_name(self, job: Json) -> str:
        return text(child(job, "status").get("rayClusterName"))

    def faults(
        self, job: Json, old: Json | None, gates: Gates, *, managed: bool, default_queue: bool
    ) -> Iterator[FieldError]:
        """Yield the faults. Jobs on existing clusters, and those without any, are not examined."""
        spec = child(job, "spec")
        selector, own = child(spec, "clusterSelector"), spec.get("rayClusterSpec")
        if not managed or (own is not None and not selector):
            given = {"managed": managed, "default_queue": default_queue}
            yield from super().faults(job, old, gates, **given)
            return
        if old is not None:
            yield from common_update_faults(
                job, old, gates, self.supported, default_queue, self.suspended
            )
        if selector and own is not None:
            message = "a queued job cannot use an existing cluster and describe its own"
            fix = "remove clusterSelector, or rayClusterSpec"
            yield invalid("spec.clusterSelector", selector, message, fix)
        elif not selector:
            message = "a queued job needs a cluster of its own"
            yield required(self.shown_path, message, "describe the cluster")

    def own_faults(
        self, job: Json, old: Json | None, gates: Gates, *, managed: bool
    ) -> Iterable[FieldError]:
        if managed:
            kept = child(job, "spec").get("shutdownAfterJobFinishes")
            if kept is not True:
                message = "the cluster of a queued job must not outlive it"
                yield invalid("spec.shutdownAfterJobFinishes", kept, message, "set it to true")
            yield from cluster_faults(self.cluster(job), job, self.shown_path, gates)
        if self.cluster(job):
            yield from self.topology_faults(job, gates)
