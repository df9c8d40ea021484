# SPDX-License-Identifier: Apache-2.0
"""The pod sets that a ProvisioningRequest covers, and which of them are merged."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kuota.api.base import Json
from kuota.api.kueue import ProvisioningRequestConfigSpec
from kuota.api.rules.report import child, elements, mapping, same
from kuota.api.workload import PodSet, PodSetAssignment
from kuota.bridge.draft import StoredWorkload
from kuota.engine.model import Struct

IDENTICAL_TEMPLATES = "IdenticalPodTemplates"
IDENTICAL_REQUIREMENTS = "IdenticalWorkloadSchedulingRequirements"

_REQUIREMENTS = ("resources", "nodeSelector", "tolerations", "affinity", "resourceClaims")


class Inconsistent(ValueError):
    """The admission lacks a pod set of the Workload."""


class MergedPodSet(Struct):
    """A pod set, with the pods of all pod sets that were merged into it."""

    pod_set: PodSet
    template: Json
    assignment: PodSetAssignment
    count: int


def is_needed(stored: StoredWorkload, config: ProvisioningRequestConfigSpec) -> bool:
    """Whether an admitted pod uses managed resources. Raises Inconsistent."""
    return any(each.count > 0 for each in _covered(stored, config.managed_resources or ()))


def merged_pod_sets(
    stored: StoredWorkload, config: ProvisioningRequestConfigSpec
) -> list[MergedPodSet]:
    """Return the pod sets of a request in order, merged by the policy. Raises Inconsistent."""
    found: list[MergedPodSet] = []
    for each in _covered(stored, config.managed_resources or ()):
        if each.count <= 0:
            continue
        policy = config.pod_set_merge_policy
        at = next((i for i, e in enumerate(found) if _alike(e.template, each.template, policy)), -1)
        if at < 0:
            found.append(each)
            continue
        first = found[at]
        found[at] = MergedPodSet(
            pod_set=first.pod_set,
            template=first.template,
            assignment=first.assignment,
            count=first.count + each.count,
        )
    return found


def _covered(stored: StoredWorkload, resources: Collection[str]) -> Iterator[MergedPodSet]:
    by_name = {each.name: each for each in stored.obj.assignments}
    templates = [
        child(each, "template") for each in elements(child(stored.json, "spec")["podSets"])
    ]
    for pod_set, template in zip(stored.obj.spec.pod_sets or (), templates, strict=True):
        if pod_set.count <= 0 or (resources and not _uses(template, resources)):
            continue
        assignment = by_name.get(pod_set.name)
        if assignment is None:
            raise Inconsistent(f"the admission has no assignment for pod set {pod_set.name!r}")
        count = pod_set.count if assignment.count is None else assignment.count
        yield MergedPodSet(pod_set=pod_set, template=template, assignment=assignment, count=count)


def _uses(template: Json, resources: Collection[str]) -> bool:
    return any(
        name in resources
        for container in containers(template)
        for field in ("requests", "limits")
        for name in child(container, "resources", field)
    )


def containers(template: Json) -> Iterator[Json]:
    """Yield the init containers and the containers of a pod template."""
    for field in ("initContainers", "containers"):
        yield from map(mapping, elements(child(template, "spec").get(field)))


def _alike(one: Json, other: Json, policy: str | None) -> bool:
    if policy == IDENTICAL_TEMPLATES:
        return same(one, other)
    if policy != IDENTICAL_REQUIREMENTS:
        return False
    mine, theirs = child(one, "spec"), child(other, "spec")
    return all(
        same(_requests(mine.get(each)), _requests(theirs.get(each)))
        for each in ("containers", "initContainers")
    ) and all(same(mine.get(each), theirs.get(each)) for each in _REQUIREMENTS)


def _requests(listed: object) -> Json:
    """Return the requests of containers by position."""
    found = [child(each, "resources").get("requests") or {} for each in elements(listed)]
    return {"length": len(found)} | {str(at): {"requests": each} for at, each in enumerate(found)}
