# SPDX-License-Identifier: Apache-2.0
"""Kinds whose controllers create the Pods that are queued: Deployments and the like.

Their objects have no Workload in the passes over jobs. Their webhooks mark the pod templates, so
that new Pods are gated, and a pass of their own may create Workloads and let Pods join groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from kuota.api.base import Json, Key
from kuota.api.config.frameworks import FRAMEWORKS, POD
from kuota.api.faults import FieldError
from kuota.api.gates import Gates
from kuota.api.podset import Injection
from kuota.api.rules.pod import SUSPENDING_PARENT
from kuota.api.rules.report import child, elements
from kuota.api.rules.serving import MAX_REPLICAS, ready_replicas, serving_faults
from kuota.engine.model import Struct

from ..draft import PassResult, StoredWorkload
from ..effects import Effect
from ..job_pass.workload import PriorityClasses
from .ancestor import GroupKind, group_kind
from .kind import End, JobKind, PodSetsUnknown, Stop
from .topology_request import TopologyRequestError


class ParentView(Struct):
    """The inputs of a pass over an object whose Pods are queued. Without `obj`, it was deleted.

    `workloads` are those that it owns or that have one of its names, `pods` those that it suspends,
    and `related` the objects of other kinds that belong to it. `managed` is whether its Pods wait
    for quota, and `manages_all` whether Pods without a queue do. `max_replicas` limits how many
    replicas of a LeaderWorkerSet have Workloads.
    """

    key: Key
    obj: Json | None = None
    workloads: tuple[StoredWorkload, ...] = ()
    pods: tuple[Json, ...] = ()
    related: tuple[Json, ...] = ()
    managed: bool = True
    manages_all: bool = False
    classes: PriorityClasses = PriorityClasses()
    gates: Gates = Gates()
    labels_to_copy: tuple[str, ...] = ()
    annotations_to_copy: tuple[str, ...] = ()
    max_replicas: int = MAX_REPLICAS


def reconcile_parent(kind: PodParent, view: ParentView, now: float) -> PassResult:
    """Return the result of one pass over an object whose Pods are queued."""
    try:
        return kind.reconcile(view, now)
    except (TopologyRequestError, PodSetsUnknown) as error:
        return PassResult(fault=str(error))


class PodParent(JobKind):
    """A kind whose Pods are queued instead of its objects."""

    queued = False
    mutated_on_update = True
    requires = (POD,)
    pods: ClassVar[GroupKind] = (FRAMEWORKS[POD].group, FRAMEWORKS[POD].kind)
    related: ClassVar[tuple[GroupKind, ...]] = ()
    """Other kinds whose objects a pass needs."""

    def parent_of(self, pod: Json) -> str:
        """Return the name of the object that suspends a Pod; "" if none of this kind does."""
        return ""

    def parent_of_related(self, obj: Json) -> str:
        """Return the name of the object that a related one belongs to; "" if there is none."""
        return ""

    def workload_names(self, obj: Json, gates: Gates) -> list[str]:
        """Return the names that Workloads of the object may have without being owned by it."""
        return []

    def new_pods(self, obj: Json) -> list[Json]:
        """Return the Pods that its controller has yet to create and that are queued one by one."""
        return []

    def reconcile(self, view: ParentView, now: float) -> PassResult:
        """Return the result of one pass over an object."""
        return PassResult()

    def faults(
        self, job: Json, old: Json | None, gates: Gates, *, managed: bool, default_queue: bool
    ) -> Iterator[FieldError]:
        yield from serving_faults(job, old, gates)
        yield from self.own_faults(job, old, gates, managed=managed)

    def suspended(self, job: Json) -> bool:
        """Whether no Pod is ready, so that the queue may still change."""
        return not ready_replicas(job)

    def suspend(self, job: Json) -> Json:
        return job

    def pod_sets(self, job: Json, gates: Gates) -> list[Json]:
        return []

    def start(self, job: Json, given: Sequence[Injection], gates: Gates) -> list[Effect]:
        return []

    def stop(self, job: Json, pod_sets: Sequence[Json] | None) -> Stop:
        return Stop()

    def end(self, job: Json) -> End | None:
        return None

    def active(self, job: Json) -> bool:
        return False

    def pods_ready(self, job: Json) -> bool:
        return True


def marked(template: Json, labels: dict[str, str], annotations: dict[str, str]) -> Json:
    """Return a pod template with these labels and annotations. Empty values are not set."""
    meta = child(template, "metadata")
    for field, added in (("labels", labels), ("annotations", annotations)):
        given = {key: value for key, value in added.items() if value}
        if given:
            meta = meta | {field: child(meta, field) | given}
    return template | {"metadata": meta}


def parent_named(obj: Json) -> str:
    """Return the integration that suspends the Pods of a template or a Pod; "" for none."""
    named = child(obj, "metadata", "annotations").get(SUSPENDING_PARENT)
    return named if isinstance(named, str) else ""


def controller_name(obj: Json, kind: GroupKind) -> str:
    """Return the name of the controller of an object if it is of this kind, else ""."""
    for each in elements(child(obj, "metadata").get("ownerReferences")):
        if not isinstance(each, dict) or each.get("controller") is not True:
            continue
        if group_kind(each) == kind:
            return str(each.get("name") or "")
    return ""
