# SPDX-License-Identifier: Apache-2.0
"""The RayCluster of KubeRay: a head, and groups of workers that an autoscaler may resize."""

from __future__ import annotations

from collections.abc import Iterable

from kuota.api.base import Json
from kuota.api.config.frameworks import FRAMEWORKS
from kuota.api.faults import FieldError
from kuota.api.gates import Gates
from kuota.api.rules.report import child

from .dispatch import Dispatch
from .dispatch_ray import RayClusterDispatch
from .kind import End
from .ray_faults import cluster_faults, elastic_cluster_faults
from .ray_spec import RayKind

RAY_CLUSTER = "ray.io/raycluster"


class RayCluster(RayKind):
    """A RayCluster. It runs until it is deleted."""

    framework = RAY_CLUSTER
    described_pod_sets = "`head`, one for each worker group"
    gvk = FRAMEWORKS[RAY_CLUSTER]

    def dispatch(self) -> Dispatch | None:
        return RayClusterDispatch(self.gvk, self.managed_by)

    def end(self, job: Json) -> End | None:
        return None

    def active(self, job: Json) -> bool:
        return child(job, "status").get("state") == "ready"

    def pods_ready(self, job: Json) -> bool:
        return self.active(job)

    def own_faults(
        self, job: Json, old: Json | None, gates: Gates, *, managed: bool
    ) -> Iterable[FieldError]:
        if managed:
            yield from cluster_faults(self.cluster(job), job, self.shown_path, gates)
            yield from elastic_cluster_faults(job, gates)
        yield from self.topology_faults(job, gates)
