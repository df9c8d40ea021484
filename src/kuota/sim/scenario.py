# SPDX-License-Identifier: Apache-2.0
"""The scenario in a set of manifests: initial objects, and workloads with their submission times.

Objects are assumed to be valid (`kuota.api.rules`); objects that still cannot be used are returned
as faults. Objects without a creation time are created in the order of the manifests, after all
others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from kuota.api import kueue
from kuota.api.base import Json, Key, Object
from kuota.api.config.shapes import Configuration
from kuota.api.core import Job, LimitRange, Namespace, Node, Pod, PriorityClass, RuntimeClass
from kuota.api.faults import ErrorType, FieldError, Invalid
from kuota.api.gates import Gate, Gates
from kuota.api.priority import ClassMissing
from kuota.api.quantity import QuantityError
from kuota.api.rules.job_common import queue_name
from kuota.api.rules.references import name_of, namespace_of
from kuota.api.rules.report import child, text
from kuota.api.workload import Workload
from kuota.bridge import inbound, inbound_nodes, settings
from kuota.bridge.inbound_workload import workload as inbound_workload
from kuota.bridge.job_pass.workload import PriorityClasses
from kuota.bridge.job_pass.workload import workload as workload_of
from kuota.bridge.jobs.ancestor import NestingError, group_kind
from kuota.bridge.jobs.job_webhook import UnqueuedReason
from kuota.bridge.jobs.kind import JobKey, JobKind, PodSetsUnknown
from kuota.bridge.jobs.pod_parent import PodParent
from kuota.bridge.lifecycle_view import lifecycle_config, managing_all
from kuota.engine import model
from kuota.engine.facts import EngineObject
from kuota.engine.model import Instant, Struct

from . import nodes
from .created import completed
from .devices import offered_devices
from .faults import RUNS_FOR, SUBMIT_AFTER, duration_of, manifest_faults
from .jobs import Jobs
from .objects import NAMESPACED, bound, namespace_object, owners, stored_object
from .parents import ExpansionError, expanded

NAME_LABEL = "kubernetes.io/metadata.name"
_WHERE = re.compile(r"^(.*) - at `\$\.?(.*)`$", re.DOTALL)
_STEP_S = 1e-6
T = TypeVar("T", bound=Object)
R = TypeVar("R")


class Submission(Struct):
    """A workload and its submission time in seconds from the start.

    Without `runs_for` it never ends. `name` and `kind` are those of the manifest: a Job, or the
    Workload itself; or those of a group of Pods, of a replica, or of a Pod of a Deployment.
    """

    workload: model.Workload
    name: str
    kind: str
    at: Instant = 0.0
    runs_for: float | None = None


class UnqueuedJob(Struct):
    """A job for which Kueue would create no Workload, and the reason."""

    key: Key
    queue: str
    why: str


class InvalidObject(Struct):
    """A fault of the object at `index`."""

    index: int
    fault: FieldError


class Scenario(Struct):
    """Everything that a plan starts from. It cannot start if there are invalid objects."""

    start: Instant = 0.0
    known: tuple[EngineObject, ...] = ()
    submissions: tuple[Submission, ...] = ()
    unqueued: tuple[UnqueuedJob, ...] = ()
    notes: tuple[str, ...] = ()
    invalid: tuple[InvalidObject, ...] = ()
    priorities: Mapping[str, int] = {}  # By WorkloadPriorityClass.


def load_scenario(
    objects: Sequence[Json], cfg: Configuration | None = None, gates: Gates | None = None
) -> Scenario:
    """The scenario that the manifests, in either API version, describe."""
    return _Builder(objects, cfg, gates or Gates()).scenario()


class _Builder:
    """Decodes the objects by kind and collects notes about them."""

    def __init__(self, objects: Sequence[Json], cfg: Configuration | None, gates: Gates) -> None:
        self.cfg = cfg
        self.gates = gates
        self.invalid: list[InvalidObject] = []
        self.unqueued: list[UnqueuedJob] = []
        made, self.notes = completed(objects)
        self.objects = [stored_object(each, gates) for each in made]
        self.namespaces = {each.name: each for each in self._namespaces()}
        lifecycle = lifecycle_config(cfg, gates)
        self._lifecycle = managing_all(lifecycle) if cfg is None else lifecycle
        spaces = map(namespace_object, self.namespaces.values())
        self.jobs = Jobs([*self.objects, *spaces], self._lifecycle)
        self.accounting = settings.accounting(
            cfg,
            gates,
            self._of("LimitRange", LimitRange),
            self._of("RuntimeClass", RuntimeClass),
            offered_devices(objects, cfg),
        )
        self.classes = PriorityClasses(
            pods={each.metadata.name: each for each in self._of("PriorityClass", PriorityClass)},
            workloads={
                each.metadata.name: each
                for each in self._of("WorkloadPriorityClass", kueue.WorkloadPriorityClass)
            },
        )

    def scenario(self) -> Scenario:
        known = list(self._known())
        submissions = list(self._submissions())
        start = max((_latest(each.workload) for each in submissions), default=0.0)
        return Scenario(
            start=start,
            known=(*self.namespaces.values(), *known, *self._pods()),
            submissions=tuple(_dated(each, start, n) for n, each in enumerate(submissions)),
            unqueued=tuple(self.unqueued),
            notes=(*self.notes, *nodes.notes(known)),
            invalid=tuple(sorted(self.invalid, key=lambda each: each.index)),
            priorities={name: each.value for name, each in self.classes.workloads.items()},
        )

    def _each(self, kind: str) -> Iterator[tuple[int, Json]]:
        for index, obj in enumerate(self.objects):
            if obj.get("kind") == kind:
                yield index, obj

    def _of(self, kind: str, type_: type[T]) -> list[T]:
        found = [self._decoded(index, obj, type_) for index, obj in self._each(kind)]
        return [each for each in found if each is not None]

    def _decoded(self, index: int, obj: Json, type_: type[T]) -> T | None:
        return self._tried(index, lambda: msgspec.convert(obj, type_))

    def _tried(self, index: int, make: Callable[[], R]) -> R | None:
        """The result of `make`; None, and a recorded fault, if the object is invalid."""
        try:
            return make()
        except (msgspec.ValidationError, QuantityError) as error:
            self.invalid.append(InvalidObject(index=index, fault=_fault(str(error))))
            return None

    def _known(self) -> Iterator[EngineObject]:
        for kind, type_, inbound_of in _KNOWN:
            for index, obj in self._each(kind):
                value = self._tried(index, partial(_translated, obj, type_, inbound_of))
                if value is not None:
                    yield self._in_order(self._assumed_active(value, obj))

    def _assumed_active(self, value: EngineObject, obj: Json) -> EngineObject:
        """Treat an AdmissionCheck without a status as active."""
        reported = child(obj, "status").get("conditions")
        if not isinstance(value, model.AdmissionCheck) or reported:
            return value
        self.notes.append(
            f"AdmissionCheck {value.name} has no status and is assumed to be active. "
            "Workloads that need it only reserve quota."
        )
        return msgspec.structs.replace(value, active=True)

    def _in_order(self, value: EngineObject) -> EngineObject:
        """Disable concurrent admission: the simulation creates no variants."""
        if not isinstance(value, model.ClusterQueue) or value.concurrent_admission is None:
            return value
        if self.gates.on(Gate.ConcurrentAdmission):
            self.notes.append(
                f"ClusterQueue {value.name} tries its flavors at once, by variants of a workload; "
                "here they are tried one after the other, since nobody makes variants."
            )
        return msgspec.structs.replace(value, concurrent_admission=None)

    def _pods(self) -> Iterator[EngineObject]:
        """Yield what pods use that run already and that no topology places."""
        for index, obj in self._each("Pod"):
            decoded = self._decoded(index, obj, Pod)
            if decoded is not None:
                found = self._tried(index, partial(inbound_nodes.pod_usage, decoded))
                yield from [found] if found is not None else []

    def _namespaces(self) -> Iterator[model.Namespace]:
        """Namespaces in the manifests, and those that objects only mention."""
        given = {each.metadata.name: each for each in self._of("Namespace", Namespace)}
        for name, each in given.items():
            labels = {NAME_LABEL: name} | (each.metadata.labels or {})
            yield model.Namespace(name=name, labels=labels)
        kinds = NAMESPACED - {"LimitRange"}
        queued = (obj for obj in self.objects if obj.get("kind") in kinds and not bound(obj))
        named = {namespace_of(obj) for obj in queued}
        missing = sorted(named - given.keys())
        if missing:
            word, them = ("Namespace", "it is") if len(missing) == 1 else ("Namespaces", "they are")
            self.notes.append(
                f"{word} {', '.join(missing)}: not among the manifests; {them} taken to exist, "
                f"with no label but {NAME_LABEL}."
            )
        for name in missing:
            yield model.Namespace(name=name, labels={NAME_LABEL: name})

    def _submissions(self) -> Iterator[Submission]:
        """Yield the submissions. A group is submitted with its last member."""
        owned = {owner for _, obj in self._each("Workload") for owner in owners(obj)}
        new = [each for each in enumerate(self.objects) if self._is_new(each[1], owned)]
        groups: dict[JobKey, list[tuple[int, Json]]] = {}
        for index, obj in new:
            group = self._group_of(obj)
            if group is not None:
                groups.setdefault(group, []).append((index, obj))
        for index, obj in new:
            group, kind = self._group_of(obj), self._lifecycle.registry.get(group_kind(obj))
            if group is not None:
                if groups[group][-1][0] == index:
                    yield from self._of_group(group, groups[group])
                continue
            if isinstance(kind, PodParent):
                yield from self._of_parent(kind, index, obj)
                continue
            workload = obj if kind is None else self._workload_of(kind, index, obj)
            if workload is not None:
                kind_name = text(obj.get("kind"))
                yield from self._submission([(index, obj)], workload, name_of(obj), kind_name)

    def _is_new(self, obj: Json, owned: set[JobKey]) -> bool:
        """Whether the object is a Workload, or a job that has none and has not started."""
        if obj.get("kind") == "Workload":
            return True
        kind = self._lifecycle.registry.get(group_kind(obj))
        key = Key(namespace_of(obj), name_of(obj))
        return kind is not None and not bound(obj) and JobKey(kind.group_kind, key) not in owned

    def _group_of(self, obj: Json) -> JobKey | None:
        kind = self._lifecycle.registry.get(group_kind(obj))
        return self.jobs.group_of(kind, obj) if kind is not None else None

    def _workload_of(self, kind: JobKind, index: int, obj: Json) -> Json | None:
        """The workload of a new job; None if it needs none or can get none."""
        if obj.get("kind") == "Job" and self._decoded(index, obj, Job) is None:
            return None
        stored = self._stored(kind, index, obj) if kind.end(obj) is None else None
        if stored is None:
            return None
        try:
            return workload_of(kind, self.jobs.resolved(kind, stored), self.classes, self.gates)
        except (ClassMissing, PodSetsUnknown) as error:
            self._strand(obj, str(error.args[0]))
            return None

    def _stored(self, kind: JobKind, index: int, obj: Json) -> Json | None:
        """The job as the API server stores it; None if it is invalid or not queued."""
        try:
            stored = self.jobs.stored(kind, obj)
            reason = self.jobs.unqueued(kind, stored)
        except Invalid as error:
            self.invalid += [InvalidObject(index=index, fault=each) for each in error.errors]
        except NestingError as error:
            self._strand(obj, str(error.args[0]))
        else:
            if reason is None:
                return stored
            self._leave_out(kind, stored, reason)
        return None

    def _of_parent(self, kind: PodParent, index: int, obj: Json) -> Iterator[Submission]:
        """Yield the submissions of what an object such as a Deployment causes."""
        stored = self._stored(kind, index, obj)
        if stored is None:
            return
        try:
            found = expanded(kind, stored, self.jobs, self.classes, self._lifecycle)
        except ExpansionError as error:
            self._strand(obj, str(error))
            return
        for each in found:
            yield from self._submission([(index, obj)], each.workload, each.name, each.kind)

    def _of_group(self, group: JobKey, given: list[tuple[int, Json]]) -> Iterator[Submission]:
        """Yield the submission of a job that consists of several objects."""
        registry = self._lifecycle.registry
        stored = [self._stored(registry.kind(group_kind(obj)), index, obj) for index, obj in given]
        members = [each for each in stored if each is not None]
        if not members:
            return
        try:
            found = self.jobs.composed(group, members)
            if found.refused:
                self._strand(found.job, found.refused)
                return
            kind = registry.kind(group.kind)
            workload = workload_of(kind, found.job, self.classes, self.gates)
        except (ClassMissing, PodSetsUnknown) as error:
            self._strand(members[0], str(error.args[0]))
            return
        yield from self._submission(given, workload, group.key.name, kind.gvk.kind)

    def _leave_out(self, kind: JobKind, job: Json, reason: UnqueuedReason) -> None:
        if reason is UnqueuedReason.NAMESPACE and queue_name(job) and kind.queued:
            # Admission suspends a Job with a queue name whatever its namespace.
            self._strand(job, f"stays suspended: {reason}")
            return
        remedy = ""
        if reason is UnqueuedReason.INTEGRATION:
            remedy = f"; add {kind.framework} to integrations.frameworks of the configuration"
        key = Key(namespace_of(job), name_of(job))
        self.notes.append(f"{text(job.get('kind'))} {key} is not queued: {reason}{remedy}.")

    def _strand(self, job: Json, why: str) -> None:
        key = Key(namespace_of(job), name_of(job))
        self.unqueued.append(UnqueuedJob(key=key, queue=queue_name(job), why=why))

    def _submission(
        self, given: Sequence[tuple[int, Json]], obj: Json, name: str, kind: str
    ) -> Iterator[Submission]:
        """Yield the submission of a Workload that belongs to these objects.

        It is submitted with the last of them, and ends with the last.
        """
        faults = [(index, each) for index, one in given for each in manifest_faults(one)]
        self.invalid += [InvalidObject(index=index, fault=each) for index, each in faults]
        decoded = None if faults else self._decoded(given[0][0], obj, Workload)
        if decoded is None:
            return
        workload = self._tried(given[0][0], lambda: inbound_workload(decoded, self.accounting))
        if workload is not None:
            held = workload.reservation is not None
            lasts = [duration_of(each, RUNS_FOR) for _, each in given]
            yield Submission(
                workload=workload,
                name=name,
                kind=kind,
                at=0.0 if held else max(duration_of(e, SUBMIT_AFTER) or 0.0 for _, e in given),
                runs_for=None if None in lasts else max(each or 0.0 for each in lasts),
            )


_KNOWN: tuple[tuple[str, type[Object], Callable[[Any], EngineObject]], ...] = (
    ("ResourceFlavor", kueue.ResourceFlavor, inbound.flavor),
    ("Topology", kueue.Topology, inbound.topology),
    ("Node", Node, nodes.node),
    ("AdmissionCheck", kueue.AdmissionCheck, inbound.admission_check),
    ("Cohort", kueue.Cohort, inbound.cohort),
    ("ClusterQueue", kueue.ClusterQueue, inbound.cluster_queue),
    ("LocalQueue", kueue.LocalQueue, inbound.local_queue),
)


def _translated(
    obj: Json, type_: type[Object], inbound_of: Callable[[Any], EngineObject]
) -> EngineObject:
    return inbound_of(msgspec.convert(obj, type_))


def _latest(workload: model.Workload) -> Instant:
    since = workload.reservation.since if workload.reservation is not None else None
    return max(workload.created, since or 0.0)


def _dated(submission: Submission, start: Instant, number: int) -> Submission:
    """The submission with a creation time: that of the manifest, or one by position."""
    workload = submission.workload
    if workload.created:
        return submission
    created = start + submission.at + number * _STEP_S
    return msgspec.structs.replace(
        submission, workload=msgspec.structs.replace(workload, created=created)
    )


def _fault(message: str) -> FieldError:
    placed = _WHERE.match(message)
    path, words = (placed[2], placed[1]) if placed else ("", message)
    return FieldError(path=path.replace("[...]", ""), type=ErrorType.INVALID, message=words)
