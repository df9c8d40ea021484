# SPDX-License-Identifier: Apache-2.0
"""Job kinds whose spec contains a pod template for each pod set, and a field that suspends them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

import msgspec

from kuota.api.base import Json
from kuota.api.core import PodTemplateSpec
from kuota.api.gates import Gate, Gates
from kuota.api.podset import Injection, MergeConflict, merged, restored
from kuota.api.rules.report import mapping, text
from kuota.engine.model import Struct

from ..effects import Effect
from .kind import JobKind, Stop
from .topology_request import topology_request

Path = tuple[str | int, ...]


class Template(Struct):
    """A pod set and the path of its pod template in the job.

    `ranks` are the fields of its topology request that define the order of its pods.
    """

    name: str
    count: int
    path: Path
    min_count: int | None = None
    ranks: Json | None = None


class TemplateKind(JobKind):
    """A kind that is suspended by a boolean field and whose pod templates are in its spec."""

    suspend_path: ClassVar[Path] = ("spec", "suspend")

    @abstractmethod
    def templates(self, job: Json) -> Sequence[Template]:
        """Return the pod sets of a job in Kueue's order."""

    def pod_template(self, job: Json, template: Template) -> Json:
        """Return the pod template of a pod set, as its pods will be."""
        return mapping(at(job, template.path))

    def pod_sets(self, job: Json, gates: Gates) -> list[Json]:
        return [self._pod_set(job, each, gates) for each in self.templates(job)]

    def _pod_set(self, job: Json, template: Template, gates: Gates) -> Json:
        pod = self.pod_template(job, template)
        topology = gates.on(Gate.TopologyAwareScheduling)
        request = topology_request(pod, gates, template.ranks) if topology else None
        fields = {
            "name": template.name,
            "count": template.count,
            "minCount": template.min_count,
            "template": pod,
            "topologyRequest": request,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def suspended(self, job: Json) -> bool:
        return at(job, self.suspend_path) is True

    def suspend(self, job: Json) -> Json:
        return put(job, self.suspend_path, True)

    def start(self, job: Json, given: Sequence[Injection], gates: Gates) -> list[Effect]:
        return self.write(job, self.started(job, given, gates))

    def started(self, job: Json, given: Sequence[Injection], gates: Gates) -> Json:
        """Return the job with its injections, unsuspended. Raises MergeConflict."""
        slots = self.templates(job)
        if len(given) != len(slots):
            expected, kind = len(slots), self.gvk.kind
            raise MergeConflict(
                f"this {kind} has {expected} pod sets, the admission has {len(given)}"
            )
        elastic = gates.on(Gate.ElasticJobsViaWorkloadSlices)
        for slot, added in zip(slots, given, strict=True):
            job = self.injected(job, slot, added, elastic=elastic)
        return put(job, self.suspend_path, False)

    def injected(self, job: Json, slot: Template, added: Injection, *, elastic: bool) -> Json:
        """Return the job with an injection in one template. Raises MergeConflict."""
        template = mapping(at(job, slot.path))
        new = merged(msgspec.convert(template, PodTemplateSpec), added, elastic=elastic)
        return put(job, slot.path, written(template, new))

    def stop(self, job: Json, pod_sets: Sequence[Json] | None) -> Stop:
        if self.suspended(job):
            return Stop()
        stopped = self.restored(self.suspend(job), pod_sets)
        return Stop(effects=tuple(self.write(job, stopped)), begins=True)

    def restored(self, job: Json, pod_sets: Sequence[Json] | None) -> Json:
        """Return the job with the templates of these pod sets.

        If their number differs from the job's, the job stays as it is.
        """
        slots = self.templates(job)
        if pod_sets is None or len(pod_sets) != len(slots):
            return job
        for slot, pod_set in zip(slots, pod_sets, strict=True):
            job = self.template_restored(job, slot, pod_set)
        return job

    def template_restored(self, job: Json, slot: Template, pod_set: Json) -> Json:
        """Return the job with everything restored that an injection changed in one template."""
        template = mapping(at(job, slot.path))
        original = msgspec.convert(mapping(pod_set.get("template")), PodTemplateSpec)
        new = restored(msgspec.convert(template, PodTemplateSpec), original)
        return put(job, slot.path, written(template, new))

    def pod_priority_class(self, job: Json) -> str:
        """Return the PriorityClass of the first template that names one."""
        named = (
            text(mapping(self.pod_template(job, each).get("spec")).get("priorityClassName"))
            for each in self.templates(job)
        )
        return next(filter(None, named), "")


def at(obj: object, path: Iterable[str | int]) -> object:
    """Return the value at a path; None if there is none."""
    for step in path:
        if isinstance(step, int):
            obj = obj[step] if isinstance(obj, list) and step < len(obj) else None
        else:
            obj = mapping(obj).get(step)
    return obj


def put(obj: Json, path: Sequence[str | int], value: object) -> Json:
    """Return the object with a value at a path. Missing objects on the way are added."""
    changed: Json = _put(obj, path, value)  # type: ignore[assignment]
    return changed


def _put(obj: object, path: Sequence[str | int], value: object) -> object:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        items = list(obj) if isinstance(obj, list) else []
        items[step] = _put(items[step], rest, value)
        return items
    fields = mapping(obj)
    return fields | {step: _put(fields.get(step), rest, value)}


def written(template: Json, new: PodTemplateSpec) -> Json:
    """Return the template with the fields of `new` that an admission may change."""
    meta, spec = dict(mapping(template.get("metadata"))), dict(mapping(template.get("spec")))
    _set(meta, "labels", new.metadata.labels)
    _set(meta, "annotations", new.metadata.annotations)
    _set(spec, "nodeSelector", new.spec.node_selector)
    _set(spec, "tolerations", msgspec.to_builtins(new.spec.tolerations))
    _set(spec, "schedulingGates", new.spec.scheduling_gates)
    rest = {name: value for name, value in template.items() if name != "metadata"}
    return rest | {"spec": spec} | ({"metadata": meta} if meta else {})


def _set(into: Json, field: str, value: object) -> None:
    """Set a field. An empty value is omitted unless it was present before."""
    if value or (value is not None and field in into and not into[field]):
        into[field] = value
    elif into.get(field):
        del into[field]
