# SPDX-License-Identifier: Apache-2.0
"""Ray kinds that own a RayCluster, whose autoscaler decides how many workers they have."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from kuota.api.base import Json, Key
from kuota.api.config.frameworks import FRAMEWORKS
from kuota.api.gates import Gates
from kuota.api.rules.metadata import PREFIX, annotation, elastic
from kuota.api.rules.report import child, integer

from .ancestor import GroupKind, Lookup, namespace_of
from .kind import PodSetsUnknown, ReferencedKind
from .ray_spec import RayKind, group_name, worker_count, worker_groups
from .template_kind import Template

GENERATION = f"{PREFIX}raycluster-generation"
_CLUSTER = ReferencedKind(FRAMEWORKS["ray.io/raycluster"])
_RESOLVED = "rayCluster"
"""The field of a resolved job with its RayCluster."""


class Autoscaled(RayKind):
    """A kind whose elastic jobs follow the size of their RayCluster."""

    referred = (_CLUSTER,)

    @abstractmethod
    def cluster_name(self, job: Json) -> str:
        """Return the name of the job's RayCluster; "" if there is none."""

    def references(self, job: Json) -> Sequence[tuple[GroupKind, Key]]:
        name = self.cluster_name(job)
        return [(_CLUSTER.group_kind, Key(namespace_of(job), name))] if name else []

    def resolved(self, job: Json, look_up: Lookup) -> Json:
        found = [look_up(kind, key) for kind, key in self.references(job)]
        return job | {_RESOLVED: found[0] if found else None}

    def pod_sets(self, job: Json, gates: Gates) -> list[Json]:
        """Return the pod sets. The autoscaler of an elastic job decides about their sizes."""
        found, live = super().pod_sets(job, gates), job.get(_RESOLVED)
        scaled = self.cluster(job).get("enableInTreeAutoscaling") is True
        if not isinstance(live, dict) or not scaled or not elastic(job, gates):
            return found
        return scaled_pod_sets(found, live)

    def largest_slice(self, template: Template, templates: Sequence[Template]) -> int:
        """Return the size of the pod set. As in Kueue, it is found by its name."""
        return next(each.count for each in templates if each.name == template.name)

    def recorded(self, job: Json, gates: Gates) -> dict[str, str]:
        """Return the generation of the RayCluster, which distinguishes slices."""
        if not elastic(job, gates):
            return {}
        live = job.get(_RESOLVED)
        generation = integer(child(live, "metadata").get("generation")) or 0
        return {GENERATION: str(generation) if isinstance(live, dict) else ""}

    def slice_suffix(self, job: Json) -> str:
        scaled = annotation(job, GENERATION)
        return super().slice_suffix(job) + (f"_{scaled}" if scaled else "")


def scaled_pod_sets(pod_sets: Sequence[Json], cluster: Json) -> list[Json]:
    """Return the pod sets with the sizes of the worker groups of a RayCluster.

    Raises PodSetsUnknown if the cluster has another worker group.
    """
    known = {each["name"]: each for each in pod_sets}
    for group in worker_groups(child(cluster, "spec")):
        name = group_name(group)
        if name not in known:
            own = child(cluster, "metadata").get("name")
            raise PodSetsUnknown(
                f"RayCluster {own} has the worker group {name!r}, which the job does not describe"
            )
        if group.get("replicas") is not None:
            known[name] = known[name] | {"count": worker_count(group)}
    return [known[each["name"]] for each in pod_sets]
