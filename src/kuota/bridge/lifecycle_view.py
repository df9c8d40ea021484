# SPDX-License-Identifier: Apache-2.0
"""The inputs of a pass over a Workload, a job or a set of variants, and its configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from kuota.api.backoff import Backoff
from kuota.api.base import Json, Key, LabelSelector, LabelSelectorRequirement
from kuota.api.config.duration import Duration
from kuota.api.config.frameworks import GroupVersionKind
from kuota.api.config.shapes import Configuration
from kuota.api.gates import Gate, Gates
from kuota.api.kueue import ResourceFlavor
from kuota.api.match import matches
from kuota.api.rules.serving import MAX_REPLICAS
from kuota.engine import model
from kuota.engine.model import Struct

from .draft import StoredWorkload
from .job_pass.workload import PriorityClasses
from .jobs.ancestor import KNOWN, GroupKind, Lookup, Owners, ancestor, namespace_of, owners_of
from .jobs.kind import JobKey, JobKind
from .jobs.registry import ALL, JOB, JobKindRegistry
from .variants import is_parent, parent_of

HALF_AN_HOUR_S = 1800.0
NOT_OUR_OWN = LabelSelector(
    match_expressions=[
        LabelSelectorRequirement(
            key="kubernetes.io/metadata.name",
            operator="NotIn",
            values=["kube-system", "kueue-system"],
        )
    ]
)
"""The namespaces whose jobs are managed by default."""


class LifecycleConfig(Struct):
    """The configuration of the lifecycle of Workloads and jobs. A time of None means never.

    `timeout_s` is the time for pods to become ready; None disables waiting. `retain_finished_s` and
    `retain_deactivated_s` are how long the Workload of a finished job, and the job of a Workload
    that Kueue deactivated, are kept. With `defers_readiness`, a pass over a job leaves the first
    PodsReady=False to `kuota.control.pending_reports`.

    `external` are the external frameworks that other controllers queue: their objects are only
    looked up, as owners of jobs.

    With `manage_all`, jobs without a queue name are managed too, in all managed namespaces or only
    in those that `manage_all_in` selects. `max_replicas` limits the Workloads of a LeaderWorkerSet.
    """

    gates: Gates = Gates()
    timeout_s: float | None = HALF_AN_HOUR_S
    recovery_timeout_s: float | None = HALF_AN_HOUR_S
    backoff_limit: int | None = None
    backoff: Backoff = Backoff(base=60, cap=3600)
    retain_finished_s: float | None = None
    retain_deactivated_s: float | None = None
    defers_readiness: bool = False
    manage_all: bool = False
    manage_all_in: LabelSelector | None = None
    namespaces: LabelSelector | None = NOT_OUR_OWN
    labels_to_copy: tuple[str, ...] = ()
    annotations_to_copy: tuple[str, ...] = ()
    owners: Owners = Owners()
    registry: JobKindRegistry = ALL
    external: tuple[GroupVersionKind, ...] = ()
    max_replicas: int = MAX_REPLICAS

    def kind(self, kind: GroupKind) -> JobKind | None:
        """Return the job kind with this group and kind, if its integration is enabled."""
        found = self.registry.get(kind)
        if found is None or found.objects in self.owners.managed:
            return found
        return found.implied() if found.framework in self._required() else None

    def queued(self) -> frozenset[GroupKind]:
        """Return the kinds whose jobs wait for quota, also those that other controllers queue."""
        external = {(each.group, each.kind) for each in self.external}
        return frozenset(external.union(each.group_kind for each in self.kinds()))

    def manages_all(self, namespace: Mapping[str, str] | None) -> bool:
        """Whether jobs without a queue name are managed in a namespace with these labels."""
        if not self.manage_all or self.manage_all_in is None:
            return self.manage_all
        return namespace is not None and matches(self.manage_all_in, namespace)

    def kinds(self) -> list[JobKind]:
        """Return the job kinds whose integrations are enabled."""
        return [kind for each in self.registry if (kind := self.kind(each.group_kind)) is not None]

    def _required(self) -> set[str]:
        """Return the integrations that enabled ones require."""
        enabled = (each for each in self.registry if each.objects in self.owners.managed)
        return {name for each in enabled for name in each.requires}


def lifecycle_config(cfg: Configuration | None, gates: Gates) -> LifecycleConfig:
    """Return the LifecycleConfig of a configuration, by default Kueue's."""
    if cfg is None:
        return LifecycleConfig(gates=gates)
    retention = cfg.object_retention_policies
    kept = retention.workloads if retention is not None else None
    integrations = cfg.integrations
    copied = (integrations.label_keys_to_copy if integrations is not None else None) or ()
    labels, annotations = _measured(cfg, gates)
    return LifecycleConfig(
        gates=gates,
        retain_finished_s=_seconds(kept.after_finished if kept else None),
        retain_deactivated_s=_seconds(kept.after_deactivated_by_kueue if kept else None),
        manage_all=cfg.manage_jobs_without_queue_name,
        namespaces=cfg.managed_jobs_namespace_selector,
        labels_to_copy=tuple(dict.fromkeys([*copied, *labels])),
        annotations_to_copy=tuple(annotations),
        owners=_owners(cfg),
        external=_external(cfg),
        **_readiness(cfg, gates),
    )


def managing_all(config: LifecycleConfig) -> LifecycleConfig:
    """Return the configuration with every job kind enabled, whatever it says about integrations."""
    kinds = {each.objects for each in config.registry}
    owners = config.owners
    return replace(
        config,
        owners=replace(owners, managed=owners.managed | kinds, followed=owners.followed | kinds),
    )


def following_all(config: LifecycleConfig) -> LifecycleConfig:
    """Return the configuration for a caller that can look up owners of all known kinds."""
    followed = config.owners.followed | KNOWN
    return replace(config, owners=replace(config.owners, followed=followed))


def _measured(cfg: Configuration, gates: Gates) -> tuple[list[str], list[str]]:
    """Return the labels and annotations of Workloads that metrics use as labels."""
    labels: list[str] = []
    annotations: list[str] = []
    if gates.on(Gate.CustomMetricLabels):
        for each in cfg.metrics.custom_labels or ():
            if each.source_kind != "Workload":
                continue
            if each.source_annotation_key:
                annotations.append(each.source_annotation_key)
            else:
                labels.append(each.source_label_key or each.name)
    return labels, annotations


def _owners(cfg: Configuration) -> Owners:
    found = cfg.integrations
    if found is None:
        return Owners()
    known = owners_of(found.frameworks or (), found.external_frameworks or ())
    # The controllers do not watch kinds of disabled integrations.
    watched = known.managed.intersection(each.group_kind for each in ALL)
    return known.following(watched.union((each.group, each.kind) for each in _external(cfg)))


def _external(cfg: Configuration) -> tuple[GroupVersionKind, ...]:
    named = (cfg.integrations.external_frameworks if cfg.integrations is not None else None) or ()
    kinds = filter(None, map(GroupVersionKind.parse, named))
    return tuple(each for each in kinds if ALL.get((each.group, each.kind)) is None)


def _readiness(cfg: Configuration, gates: Gates) -> Json:
    ready = cfg.wait_for_pods_ready
    if gates.on(Gate.DisableWaitForPodsReady):
        return {"timeout_s": None, "recovery_timeout_s": None}
    if ready is None:
        return {}
    timeout_s = ready.timeout.seconds if ready.timeout else HALF_AN_HOUR_S
    recovery_s = _seconds(ready.recovery_timeout)
    found: Json = {
        "timeout_s": timeout_s,
        "recovery_timeout_s": timeout_s if recovery_s is None else recovery_s or None,
    }
    requeuing = ready.requeuing_strategy
    if requeuing is not None:
        base, cap = requeuing.backoff_base_seconds, requeuing.backoff_max_seconds
        found["backoff_limit"] = requeuing.backoff_limit_count
        found["backoff"] = Backoff(
            base=60 if base is None else base, cap=3600 if cap is None else cap
        )
    return found


def _seconds(given: Duration | None) -> float | None:
    return given.seconds if given is not None else None


class WorkloadPassInput(Struct):
    """The inputs of a pass over one Workload.

    `cluster_queue` is the one in which it has quota, or else that of its LocalQueue. The caller
    draws `jitter`.
    """

    stored: StoredWorkload
    config: LifecycleConfig = LifecycleConfig()
    local_queue: model.LocalQueue | None = None
    local_queue_deleting: bool = False
    cluster_queue: model.ClusterQueue | None = None
    cluster_queue_active: bool = False
    namespace_matches: bool = True
    faults: tuple[str, ...] = ()
    devices_unknown: bool = False
    jitter: float = 0.0

    @property
    def parent(self) -> bool:
        """Whether its variants are queued instead of it."""
        return self._concurrent and is_parent(self.stored.obj.metadata)

    @property
    def variant(self) -> bool:
        """Whether it is queued instead of its parent, which alone has pods."""
        return self._concurrent and parent_of(self.stored.obj.metadata) is not None

    @property
    def _concurrent(self) -> bool:
        return self.config.gates.on(Gate.ConcurrentAdmission)


class Ancestor(Struct):
    """The managed job that owns this one, and its newest unfinished Workload, if any."""

    key: JobKey
    newest: StoredWorkload | None = None


def ancestor_of(
    job: Json,
    look_up: Lookup,
    workloads_of: Callable[[JobKey], Iterable[StoredWorkload]],
    config: LifecycleConfig,
    namespace: Mapping[str, str] | None,
) -> Ancestor | None:
    """Return the managed job above this one, if any. Raises NestingError.

    `workloads_of` returns the Workloads that a job controls. `namespace` are the labels of the
    namespace.
    """
    manage_all = config.manages_all(namespace)
    found = ancestor(job, config.owners, look_up, manage_all=manage_all)
    if found is None:
        return None
    kind, above = found
    key = JobKey(kind, Key(namespace_of(job), above["metadata"]["name"]))
    unfinished = [each for each in workloads_of(key) if not each.true("Finished")]
    return Ancestor(key=key, newest=max(unfinished, key=_created, default=None))


def _created(stored: StoredWorkload) -> float:
    created = stored.obj.metadata.creation_timestamp
    return created.timestamp() if created is not None else 0.0


class JobPassInput(Struct):
    """The inputs of a pass over one job. Without `job`, it was deleted.

    `workloads` are those it controls, by name. `prebuilt` is the one it names, if any. `namespace`
    are the labels of its namespace; None if the namespace does not exist. `nesting` is why its
    owners cannot be determined. `occupied` are the UIDs of the jobs of this name, including deleted
    ones, whose pods may still have processes. It is None where nobody keeps track of processes.
    `dispatching` are the names of the admission checks of MultiKueue.
    """

    key: Key
    kind: JobKind = JOB
    job: Json | None = None
    workloads: tuple[StoredWorkload, ...] = ()
    prebuilt: StoredWorkload | None = None
    namespace: Mapping[str, str] | None = None
    local_queue_labels: Mapping[str, str] = {}
    ancestor: Ancestor | None = None
    nested_too_deep: bool = False
    nesting: str = ""
    occupied: frozenset[str] | None = None
    dispatching: frozenset[str] = frozenset()
    flavors: Mapping[str, ResourceFlavor] = {}
    classes: PriorityClasses = PriorityClasses()
    config: LifecycleConfig = LifecycleConfig()


class VariantsPassInput(Struct):
    """A parent, its variants, and their ClusterQueue, if it is known.

    Without `parent`, it was deleted; `variants` are those of a parent with the same name.
    """

    parent: StoredWorkload | None = None
    variants: tuple[StoredWorkload, ...] = ()
    queue: model.ClusterQueue | None = None
    config: LifecycleConfig = LifecycleConfig()
