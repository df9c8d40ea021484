# SPDX-License-Identifier: Apache-2.0
"""The interface of a job kind: what Kuota needs to know in order to queue, start and stop its jobs.

A kind is a stateless object. Jobs are JSON as stored and may contain anything that the API server
accepts, so a kind reads them with the tolerant functions of `kuota.api.rules.report`. Kinds with
pod templates in their spec extend `kuota.bridge.jobs.template_kind.TemplateKind`. Optional features
are protocols; a kind supports one by having its methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, runtime_checkable

from kuota.api.base import Json, Key
from kuota.api.config.frameworks import GroupVersionKind
from kuota.api.faults import FieldError
from kuota.api.gates import Gate, Gates
from kuota.api.podset import Injection
from kuota.api.rules.job_common import (
    Supported,
    common_faults,
    common_update_faults,
    queue_name,
)
from kuota.api.rules.report import child, text
from kuota.api.workload import ReclaimablePod
from kuota.engine.model import Struct

from ..effects import Effect, edit
from .ancestor import GroupKind, Lookup
from .dispatch import Dispatch

if TYPE_CHECKING:
    # A configuration names the job kinds.
    from ..lifecycle_view import LifecycleConfig


class JobKey(NamedTuple):
    """Identifies a job among those of all kinds."""

    kind: GroupKind
    key: Key

    def __str__(self) -> str:
        return f"{self.kind[1]} {self.key}"


class End(Struct):
    """How a job ended. `timed_out` is set if it failed because it exceeded its own deadline."""

    success: bool
    message: str = ""
    timed_out: bool = False


class Stop(Struct):
    """The writes that stop a job, in order.

    `begins` is whether the job was running and no earlier pass has begun to stop it. Not `complete`
    means that the next pass has to continue.
    """

    effects: tuple[Effect, ...] = ()
    begins: bool = False
    complete: bool = True


class JobKind(ABC):
    """One kind of job. Methods do not modify their arguments."""

    framework: ClassVar[str]
    """Its name in `integrations.frameworks` of the configuration."""
    gvk: ClassVar[GroupVersionKind]
    described_pod_sets: ClassVar[str] = ""
    """Its pod sets, for the documentation."""
    described_suspension: ClassVar[str] = ""
    """What keeps its pods from starting, for the documentation."""
    partial_admission: ClassVar[bool] = False
    """Whether a job can start with fewer pods than it requests."""
    prebuilt: ClassVar[bool] = False
    """Whether a job can name a Workload that somebody else creates."""
    ranked: ClassVar[bool] = False
    """Whether its pods have ranks, by which topology placement orders them."""
    native_manager: ClassVar[str] = ""
    """The value of `managedBy` for the kind's own controller."""
    managed_by: ClassVar[tuple[str, ...]] = ()
    """The path of the field `managedBy`; empty if the kind has none."""
    ancestors: ClassVar[bool] = True
    """Whether a managed owner is queued instead of the job."""
    validates_unmanaged: ClassVar[bool] = True
    """Whether changes of jobs without a queue name are validated."""
    queued: ClassVar[bool] = True
    """Whether its objects get Workloads. Otherwise their Pods are queued."""
    mutated_on_update: ClassVar[bool] = False
    """Whether changed jobs get defaults too."""
    stays_gated: ClassVar[bool] = False
    """Whether jobs that MultiKueue dispatches must not start here. Others have `managedBy`."""
    held_from_creation: ClassVar[bool] = False
    """Whether a job can be queued only when it is created, because it cannot be suspended later."""
    requires: ClassVar[tuple[str, ...]] = ()
    """Other integrations that are enabled together with this one."""

    @property
    def group_kind(self) -> GroupKind:
        return self.gvk.group, self.gvk.kind

    @property
    def objects(self) -> GroupKind:
        """The kind of the objects that its jobs consist of, as the configuration enables it."""
        return self.group_kind

    @property
    def api_version(self) -> str:
        group, version = self.gvk.group, self.gvk.version
        return f"{group}/{version}" if group else version

    @property
    def plural(self) -> str:
        """The name of the resource."""
        return self.gvk.plural

    @property
    def name(self) -> str:
        """The name of the kind in effects: `Job.batch`, or `Pod` in the core group."""
        return ".".join(part for part in (self.gvk.kind, self.gvk.group) if part)

    @property
    def supported(self) -> Supported:
        """The optional features that validation asks for."""
        return Supported(elastic=isinstance(self, ElasticJob), prebuilt=self.prebuilt)

    @abstractmethod
    def pod_sets(self, job: Json, gates: Gates) -> list[Json]:
        """Return the pod sets of its Workload. Raises TopologyRequestError or PodSetsUnknown."""

    @abstractmethod
    def suspended(self, job: Json) -> bool:
        """Whether the job is suspended. A job that is still being stopped is not."""

    @abstractmethod
    def suspend(self, job: Json) -> Json:
        """Return the job with its suspend switch on, otherwise unchanged."""

    @abstractmethod
    def start(self, job: Json, given: Sequence[Injection], gates: Gates) -> list[Effect]:
        """Return the writes that inject an admission and start the job.

        `given` has one injection for each pod set, in the same order. Raises MergeConflict if that
        is impossible.
        """

    @abstractmethod
    def stop(self, job: Json, pod_sets: Sequence[Json] | None) -> Stop:
        """Return the writes that suspend the job and restore its templates.

        `pod_sets` are those of its Workload; without them, nothing is restored. A job that is
        stopped already needs no writes.
        """

    @abstractmethod
    def end(self, job: Json) -> End | None:
        """Return how the job ended; None if it has not."""

    @abstractmethod
    def active(self, job: Json) -> bool:
        """Whether the job occupies quota: usually, whether it has pods."""

    @abstractmethod
    def pods_ready(self, job: Json) -> bool:
        """Whether all pods are ready or have succeeded."""

    def pod_priority_class(self, job: Json) -> str:
        """Return the PriorityClass of its pods, which applies without a WorkloadPriorityClass."""
        return ""

    def dispatch(self) -> Dispatch | None:
        """Return how MultiKueue runs its jobs in other clusters; None if it does not."""
        return Dispatch(self.gvk, self.managed_by) if self.managed_by else None

    def follows_queue(self, job: Json) -> bool:
        """Whether a change of the job's queue name changes that of its Workload."""
        return True

    def defaulted(self, job: Json, gates: Gates, *, managed: bool) -> Json:
        """Return a new job with the kind's own defaults, after the defaults of all kinds.

        `managed` jobs wait for quota.
        """
        return job

    def faults(
        self, job: Json, old: Json | None, gates: Gates, *, managed: bool, default_queue: bool
    ) -> Iterator[FieldError]:
        """Yield what is wrong with a new job, or with a change from `old`.

        `managed` is whether jobs without a queue name are managed or the job has one.
        `default_queue` is whether the namespace has a LocalQueue named `default`.
        """
        if old is not None and not (self.validates_unmanaged or managed or _queued(old, gates)):
            return
        known = list(common_faults(job, gates, self.supported))
        yield from known
        if old is not None:
            changed = common_update_faults(
                job, old, gates, self.supported, default_queue, self.suspended
            )
            yield from (fault for fault in changed if fault not in known)
        yield from self.own_faults(job, old, gates, managed=managed)

    def own_faults(
        self, job: Json, old: Json | None, gates: Gates, *, managed: bool
    ) -> Iterable[FieldError]:
        """Return the faults by rules of this kind alone."""
        return ()

    def cached(self, obj: Json) -> Json:
        """Return what a cache keeps of an object, which may be modified."""
        return obj

    def rarely_read(self, obj: Json) -> bool:
        """Whether a cache may store the object compressed."""
        return self.suspended(obj) or self.end(obj) is not None

    def implied(self) -> JobKind:
        """Return the kind as it is if only other integrations require it."""
        return self

    def foreign(self, job: Json) -> bool:
        """Whether another integration manages the object, so that its webhooks ignore it."""
        return False

    def warnings(self, job: Json, old: Json | None, *, owned: bool) -> list[FieldError]:
        """Return what is accepted with a warning. `owned`: a managed kind controls the object."""
        return []

    def write(self, job: Json, after: Json, *, may_be_rejected: bool = False) -> list[Effect]:
        """Return the writes that change the job to `after`, except for its status."""
        return edit(self.name, key_of(job), job, after, may_be_rejected=may_be_rejected)


def _queued(old: Json, gates: Gates) -> bool:
    """Whether a job had a queue name, so that removing it is validated."""
    return gates.on(Gate.ValidateRayAndSparkJobUpdates) and bool(queue_name(old))


def key_of(job: Json) -> Key:
    meta = child(job, "metadata")
    return Key(text(meta.get("namespace")), text(meta.get("name")))


class PodSetsUnknown(ValueError):
    """The pod sets cannot be derived, for example because another object is missing.

    `path` is the field of the job that has to be corrected.
    """

    def __init__(self, message: str, path: str = "spec") -> None:
        super().__init__(message)
        self.path = path


@runtime_checkable
class JobWithReclaimablePods(Protocol):
    """A kind that releases the quota of pods that will not run again, before the job ends."""

    def reclaimable(self, job: Json, *, exact: bool) -> list[ReclaimablePod]:
        """Return those pods. With `exact`, never count a pod that may still run."""


@runtime_checkable
class ElasticJob(Protocol):
    """A kind whose jobs can be resized while they run, through workload slices."""

    def slice_suffix(self, job: Json) -> str:
        """Return what distinguishes the name of the next slice from the previous ones."""


@runtime_checkable
class JobWithRecordedSize(Protocol):
    """A kind that records on its elastic jobs what else their size depends on."""

    def recorded(self, job: Json, gates: Gates) -> dict[str, str]:
        """Return the annotations of the job; they are set before a slice is created."""


@runtime_checkable
class JobWithSkip(Protocol):
    """A kind with jobs that are not queued although they name a queue."""

    def skipped(self, job: Json, gates: Gates) -> bool:
        """Whether Kuota ignores the job."""


@runtime_checkable
class JobWithHold(Protocol):
    """A kind whose jobs can be on hold: their quota is released and they are not retried."""

    def on_hold(self, job: Json) -> str:
        """Return why the job is on hold; "" if it is not."""


@runtime_checkable
class JobWithFinalize(Protocol):
    """A kind that leaves a finalizer on jobs or other objects until their result is recorded."""

    def finalize(self, job: Json) -> list[Effect]:
        """Return the writes that remove it, after the job ended or while it is being deleted."""


class ReferencedKind(NamedTuple):
    """A kind of objects that jobs depend on."""

    gvk: GroupVersionKind
    namespaced: bool = True

    @property
    def group_kind(self) -> GroupKind:
        return self.gvk.group, self.gvk.kind


@runtime_checkable
class JobWithEarlierPodSets(Protocol):
    """A kind from whose jobs earlier versions of Kuota derived other pod sets.

    Their Workloads stay after an upgrade, so that jobs that run are not stopped for it.
    """

    def earlier_pod_sets(self, job: Json, gates: Gates) -> list[Json]:
        """Return the pod sets as earlier versions derived them. Raises PodSetsUnknown."""


@runtime_checkable
class JobWithReferences(Protocol):
    """A kind whose jobs are defined by other objects too, as a TrainJob is by its runtime.

    Every other method expects a resolved job.
    """

    referred: tuple[ReferencedKind, ...]
    """The kinds of those objects."""

    def references(self, job: Json) -> Sequence[tuple[GroupKind, Key]]:
        """Return the objects that the job names. If one changes, so do its pod sets."""

    def resolved(self, job: Json, look_up: Lookup) -> Json:
        """Return the job with what it takes from those objects, in fields that are not stored."""


def referred(kinds: Iterable[JobKind]) -> dict[GroupKind, ReferencedKind]:
    """Return the kinds of objects that jobs of these kinds depend on."""
    referring = (each for each in kinds if isinstance(each, JobWithReferences))
    return {found.group_kind: found for each in referring for found in each.referred}


def resolved(kind: JobKind, job: Json, look_up: Lookup) -> Json:
    """Return the job as the methods of its kind expect it."""
    return kind.resolved(job, look_up) if isinstance(kind, JobWithReferences) else job


@runtime_checkable
class JobWithOwnDefaults(Protocol):
    """A kind whose new objects get other defaults than those of all jobs."""

    def own_defaults(self, job: Json, look_up: Lookup, config: LifecycleConfig) -> Json:
        """Return a new object with its defaults. Raises NestingError."""


@runtime_checkable
class JobWithRelatedRules(Protocol):
    """A kind whose validation depends on other objects."""

    def related_faults(
        self, job: Json, old: Json | None, look_up: Lookup, config: LifecycleConfig
    ) -> Iterable[FieldError]:
        """Return the faults by rules about other objects. Raises NestingError."""
