# SPDX-License-Identifier: Apache-2.0
"""Expands Deployments, StatefulSets and the like into the Workloads that they cause. Pure.

Their Pods are queued, so a plan shows what their controllers and Kuota would create.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from kuota.api.base import Json, Key
from kuota.api.faults import Invalid
from kuota.api.priority import ClassMissing
from kuota.api.rules.references import name_of, namespace_of
from kuota.api.rules.serving import replicas
from kuota.bridge.effects import Create
from kuota.bridge.job_pass.workload import PriorityClasses, workload
from kuota.bridge.jobs.ancestor import NestingError
from kuota.bridge.jobs.kind import PodSetsUnknown
from kuota.bridge.jobs.pod_parent import PodParent, reconcile_parent
from kuota.bridge.jobs.topology_request import TopologyRequestError
from kuota.bridge.lifecycle_view import LifecycleConfig
from kuota.engine.model import Struct

from .jobs import Jobs

MOST_REPLICAS = 10_000
"""A plan of more replicas would take minutes and show nothing else."""


class ExpansionError(ValueError):
    """The object causes no Workloads, for this reason."""


class Expansion(Struct):
    """One Workload, and the name and kind of what it is for."""

    name: str
    kind: str
    workload: Json


def expanded(
    kind: PodParent, obj: Json, jobs: Jobs, classes: PriorityClasses, config: LifecycleConfig
) -> list[Expansion]:
    """Return the Workloads that a stored object causes. Raises ExpansionError."""
    if replicas(obj) > MOST_REPLICAS:
        raise ExpansionError(
            f"has {replicas(obj)} replicas; a plan can have {MOST_REPLICAS} of one object"
        )
    try:
        return [*_of_pods(kind, obj, jobs, classes, config), *_of_passes(kind, obj, jobs, classes)]
    except (ClassMissing, PodSetsUnknown, TopologyRequestError, NestingError) as error:
        raise ExpansionError(str(error.args[0])) from error
    except Invalid as error:
        raise ExpansionError("; ".join(map(str, error.errors))) from error


def _of_pods(
    kind: PodParent, obj: Json, jobs: Jobs, classes: PriorityClasses, config: LifecycleConfig
) -> Iterator[Expansion]:
    """Yield the Workloads of Pods that are queued one by one."""
    pods = config.registry.kind(kind.pods)
    for each in kind.new_pods(obj):
        stored = jobs.stored(pods, each)
        reason = jobs.unqueued(pods, stored)
        if reason is not None:
            raise ExpansionError(f"its pods are not queued: {reason}")
        made = workload(pods, stored, classes, config.gates)
        yield Expansion(name=name_of(each), kind=pods.gvk.kind, workload=made)


def _of_passes(
    kind: PodParent, obj: Json, jobs: Jobs, classes: PriorityClasses
) -> Iterator[Expansion]:
    """Yield the Workloads that a pass over the new object creates before its Pods exist."""
    key = Key(namespace_of(obj), name_of(obj))
    result = reconcile_parent(kind, jobs.parent_view(key, obj, classes), 0.0)
    if result.fault:
        raise ExpansionError(result.fault)
    made = [each.object for each in result.effects if isinstance(each, Create)]
    numbers = count()
    for each in made:
        name = key.name if len(made) == 1 else f"{key.name}-{next(numbers)}"
        yield Expansion(name=name, kind=kind.gvk.kind, workload=each)
