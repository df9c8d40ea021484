# SPDX-License-Identifier: Apache-2.0
"""Job kinds whose spec contains a pod template for each pod set, and a field that suspends them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import msgspec

from kuota.api.base import Json
from kuota.api.core import PodTemplateSpec
from kuota.api.faults import FieldError, invalid
from kuota.api.gates import Gate, Gates
from kuota.api.podset import Injection, MergeConflict, merged
from kuota.api.rules.report import mapping, text
from kuota.api.rules.topology import GroupMember, group_faults, topology_faults
from kuota.engine.model import Struct

from ..effects import Effect
from .fields import Path, at, put
from .kind import JobKind, PodSetsUnknown, Stop
from .topology_request import topology_request


class Template(Struct):
    """A pod set and the path of its pod template in the job.

    `ranks` are the fields of its topology request that define the order of its pods. `field` is the
    path of its metadata in faults, if that is not derived from `path`.
    """

    name: str
    count: int
    path: Path
    min_count: int | None = None
    ranks: Json | None = None
    field: str = ""

    @property
    def metadata_path(self) -> str:
        """The path of its metadata in faults."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return self.field or f"{''.join(steps)[1:]}.metadata"


class TemplateKind(JobKind):
    """A kind that is suspended by a boolean field and whose pod templates are in its spec."""

    suspend_path: ClassVar[Path] = ("spec", "suspend")
    validates_groups: ClassVar[bool] = False
    """Whether the webhook validates pod sets that share a topology group."""

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
                f"this {kind} has {expected} pod sets; the admission has {len(given)}"
            )
        elastic = gates.on(Gate.ElasticJobsViaWorkloadSlices)
        for slot, added in zip(slots, given, strict=True):
            job = self.injected(job, slot, added, elastic=elastic)
        return put(job, self.suspend_path, False)

    def injected(self, job: Json, slot: Template, added: Injection, *, elastic: bool) -> Json:
        """Return the job with an injection in one template. Raises MergeConflict."""
        template = mapping(at(job, slot.path))
        return put(job, slot.path, merged_template(template, added, elastic=elastic))

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
        template, original = mapping(at(job, slot.path)), mapping(pod_set.get("template"))
        return put(job, slot.path, restored_template(template, original))

    def own_faults(
        self, job: Json, old: Json | None, gates: Gates, *, managed: bool
    ) -> Iterable[FieldError]:
        return self.topology_faults(job, gates)

    def topology_faults(self, job: Json, gates: Gates) -> Iterator[FieldError]:
        """Yield the faults of the topology annotations of all templates."""
        if not gates.on(Gate.TopologyAwareScheduling):
            return
        members = []
        try:
            templates = self.templates(job)
            # As in Kueue, faults of a group name the last of the pod sets with one name.
            paths = {each.name: each.metadata_path for each in templates}
            for each in templates:
                metadata = self.pod_template(job, each).get("metadata")
                largest = self.largest_slice(each, templates)
                yield from topology_faults(metadata, each.metadata_path, largest, gates)
                members.append(GroupMember(paths[each.name], each.count, mapping(metadata)))
        except PodSetsUnknown as error:
            yield invalid(error.path, None, str(error))
        if self.validates_groups:
            yield from group_faults(members)

    def largest_slice(self, template: Template, templates: Sequence[Template]) -> int:
        """Return how many pods a slice of this pod set may have."""
        return template.count

    def pod_priority_class(self, job: Json) -> str:
        """Return the PriorityClass of the first template that names one."""
        named = (
            text(mapping(self.pod_template(job, each).get("spec")).get("priorityClassName"))
            for each in self.templates(job)
        )
        return next(filter(None, named), "")


_INJECTED = (
    ("metadata", "labels"),
    ("metadata", "annotations"),
    ("spec", "nodeSelector"),
    ("spec", "tolerations"),
    ("spec", "schedulingGates"),
)
"""The fields of a pod template that an admission may change."""


def merged_template(template: Json, added: Injection, *, elastic: bool) -> Json:
    """Return the template with an injection. Raises MergeConflict."""
    try:
        typed = msgspec.convert(template, PodTemplateSpec)
    except msgspec.ValidationError as error:
        raise MergeConflict(f"the pod template is malformed: {error}") from error
    return restored_template(template, msgspec.to_builtins(merged(typed, added, elastic=elastic)))


def restored_template(template: Json, original: Json) -> Json:
    """Return the template with everything that an injection changes as in `original`.

    A field that is empty in both stays as it is.
    """
    sections = {name: dict(mapping(template.get(name))) for name in ("metadata", "spec")}
    for section, field in _INJECTED:
        value = mapping(original.get(section)).get(field)
        if value:
            sections[section][field] = value
        elif sections[section].get(field):
            del sections[section][field]
    emptied = {name for name, each in sections.items() if template.get(name) and not each}
    kept = {name: each for name, each in template.items() if name not in emptied}
    return kept | {name: each for name, each in sections.items() if each}
