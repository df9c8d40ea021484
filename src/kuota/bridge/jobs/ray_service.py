# SPDX-License-Identifier: Apache-2.0
"""The RayService of KubeRay: a RayCluster that serves requests."""

from __future__ import annotations

from collections.abc import Iterable

from kuota.api.base import Json
from kuota.api.config.frameworks import FRAMEWORKS
from kuota.api.faults import FieldError
from kuota.api.gates import Gate, Gates
from kuota.api.rules.report import child, text

from .dispatch import Dispatch
from .dispatch_ray import RayServiceDispatch
from .job_conditions import true_condition
from .kind import End
from .ray_autoscaled import Autoscaled
from .ray_faults import cluster_faults
from .ray_spec import fault_tolerant

RAY_SERVICE = "ray.io/rayservice"


class RayService(Autoscaled):
    """A RayService. It runs until it is deleted."""

    framework = RAY_SERVICE
    described_pod_sets = "`head`, one for each worker group"
    gvk = FRAMEWORKS[RAY_SERVICE]
    cluster_path = ("spec", "rayClusterConfig")
    suspend_path = ("spec", "rayClusterConfig", "suspend")
    # Kueue reports the name of the Go field, which the API does not have.
    shown_path = "spec.rayClusterSpec"

    def dispatch(self) -> Dispatch | None:
        return RayServiceDispatch(self.gvk, self.managed_by)

    def end(self, job: Json) -> End | None:
        return None

    def active(self, job: Json) -> bool:
        return true_condition(job, "Ready") is not None

    def pods_ready(self, job: Json) -> bool:
        return self.active(job)

    def skipped(self, job: Json, gates: Gates) -> bool:
        """Whether it is being deleted and a Job still has to clean up Redis with its quota."""
        if not gates.on(Gate.DeferRayServiceFinalizationForRedisCleanup):
            return False
        leaving = bool(child(job, "metadata").get("deletionTimestamp"))
        return leaving and fault_tolerant(self.cluster(job), job)

    def cluster_name(self, job: Json) -> str:
        return text(child(job, "status", "activeServiceStatus").get("rayClusterName"))

    def own_faults(
        self, job: Json, old: Json | None, gates: Gates, *, managed: bool
    ) -> Iterable[FieldError]:
        if managed:
            yield from cluster_faults(self.cluster(job), job, self.shown_path, gates)
        yield from self.topology_faults(job, gates)
