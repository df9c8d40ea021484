# SPDX-License-Identifier: Apache-2.0
"""The scheduling hash: equal for workloads that the scheduler cannot distinguish.

If a workload does not fit, others with the same hash need not be tried. The hash covers the
priority and, for every pod set, its size, its requests and the parts of its template that affect
node selection. Names of workloads, labels, limits, images and commands do not matter.
"""

from __future__ import annotations

import hashlib

from kuota.api.base import Struct
from kuota.api.canonical_json import canonical_json
from kuota.api.core import Container, PodSpec, ResourceRequirements
from kuota.api.workload import TopologyRequest
from kuota.engine.model import PodSet


class _Shape(Struct):
    name: str
    pods: int
    requests: dict[str, int]
    min_count: int | None
    topology: TopologyRequest | None
    spec: PodSpec


def scheduling_hash(priority: int, pod_sets: tuple[PodSet, ...], allowed_flavors: str) -> str:
    """Return the hash; equal if the workloads differ in nothing that the scheduler evaluates."""
    shapes = [
        _Shape(
            name=each.name,
            pods=each.pods,
            requests=each.requests,
            min_count=each.min_count,
            topology=each.topology,
            spec=_scheduling_part(each.template.spec),
        )
        for each in pod_sets
    ]
    return hashlib.sha256(canonical_json((priority, shapes, allowed_flavors))).hexdigest()[:16]


def _scheduling_part(spec: PodSpec) -> PodSpec:
    resources = spec.resources
    return PodSpec(
        containers=[_bare(each) for each in spec.containers or ()],
        init_containers=[_bare(each) for each in spec.init_containers or ()],
        node_selector=spec.node_selector,
        affinity=spec.affinity,
        tolerations=spec.tolerations,
        runtime_class_name=spec.runtime_class_name,
        priority=spec.priority,
        topology_spread_constraints=spec.topology_spread_constraints,
        overhead=spec.overhead,
        resource_claims=spec.resource_claims,
        resources=ResourceRequirements(requests=resources.requests) if resources else None,
    )


def _bare(container: Container) -> Container:
    return Container(
        resources=ResourceRequirements(requests=container.resources.requests),
        ports=container.ports,
        restart_policy=container.restart_policy,
    )
