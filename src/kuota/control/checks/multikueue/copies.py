# SPDX-License-Identifier: Apache-2.0
"""Copies of a Workload in worker clusters: how they are created, compared and removed."""

from __future__ import annotations

from collections.abc import Iterator

from kuota.api.base import Json, Key
from kuota.api.defaults import FINALIZER
from kuota.api.gates import Gate, Gates
from kuota.api.priority import effective_priority
from kuota.api.rules.job_common import PREBUILT
from kuota.api.rules.metadata import PREFIX
from kuota.api.rules.report import child, same, string_map, text
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.effects import WORKLOAD, Create, Delete, Effect, Patch
from kuota.bridge.job_pass.injections import MULTI_KUEUE_ORIGIN
from kuota.bridge.job_pass.workload import JOB_UID
from kuota.bridge.jobs.dispatch import Dispatch, ForeignObject, copied_metadata, is_owned

from .group import MultiKueueSettings, RemoteCopies
from .identity import MANAGER, RESERVATION, created_by_other, reservation_of

PREEMPTION_GATE = f"{PREFIX}multikueue"
_POD_CLASS = "PriorityClass"
_WORKLOAD_CLASS = "WorkloadPriorityClass"


def copy_of(local: StoredWorkload, settings: MultiKueueSettings, *, gated: bool = True) -> Json:
    """Return the Workload to create in another cluster.

    If it is `gated` and preemption is orchestrated, it must not preempt others before the manager
    opens its gate.
    """
    metadata = copied_metadata(local.json)
    labels = string_map(metadata.get("labels"))
    labels.pop(JOB_UID, None)
    spec = dict(child(local.json, "spec"))
    if gated and settings.gates.on(Gate.MultiKueueOrchestratedPreemption):
        spec["preemptionGates"] = [{"name": PREEMPTION_GATE}]
    if settings.manager:
        notes = string_map(metadata.get("annotations"))
        made_by = {MANAGER: settings.manager, RESERVATION: reservation_of(local)}
        metadata |= {"annotations": notes | made_by}
    return {
        "apiVersion": local.json.get("apiVersion", "kueue.x-k8s.io/v1beta2"),
        "kind": WORKLOAD,
        "metadata": metadata | {"labels": labels | {MULTI_KUEUE_ORIGIN: settings.origin}},
        "spec": spec,
    }


def created(local: StoredWorkload, settings: MultiKueueSettings, *, gated: bool = True) -> Create:
    return Create(key=local.key, object=copy_of(local, settings, gated=gated))


def outdated(local: StoredWorkload, remote: StoredWorkload, *, while_evicted: bool = False) -> bool:
    """Whether the spec of a copy differs. Each cluster has its own preemption gates.

    A Workload that is deactivated will be evicted, and a cluster that stops the job of an evicted
    one deactivates its copy. Neither makes the copy outdated.
    """
    deactivated = remote.obj.spec.active is False and local.obj.spec.active is not False
    if deactivated and not while_evicted:
        return True
    return not same(_compared(local), _compared(remote))


def _compared(stored: StoredWorkload) -> object:
    ignored = ("preemptionGates", "active")
    spec = child(stored.json, "spec").items()
    return _written({key: value for key, value in spec if key not in ignored})


def _written(value: object) -> object:
    """Return the value without what a controller in Go drops when it writes an object back."""
    if isinstance(value, dict):
        kept = {key: _written(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each is not False and each != 0}
    return [_written(each) for each in value] if isinstance(value, list) else value


def priority_changed(local: StoredWorkload, remote: StoredWorkload, gates: Gates) -> bool:
    """Whether a WorkloadPriorityClass gives the local Workload another priority."""
    ours, theirs = local.obj.spec.priority_class_ref, remote.obj.spec.priority_class_ref
    if (ours is not None and ours.kind == _POD_CLASS) or theirs is None:
        return False
    if theirs.kind != _WORKLOAD_CLASS:
        return False
    if theirs.name and theirs.name != (ours.name if ours is not None else ""):
        return True
    boosting = gates.on(Gate.PriorityBoost)
    before, after = (effective_priority(each.obj, boosting=boosting) for each in (remote, local))
    return before != after


def patched(remote: StoredWorkload, spec: Json) -> Patch:
    """Return the write that changes fields of the spec of a copy."""
    version = remote.obj.metadata.resource_version
    return Patch(key=remote.key, resource_version=version, body={"spec": spec})


def removal(
    dispatch: Dispatch | None, remote: RemoteCopies, settings: MultiKueueSettings, *, jobs: bool
) -> list[Effect]:
    """Return the writes that remove the copies from a cluster: `jobs` first, then the Workload.

    Objects that this manager did not create stay.
    """
    effects: list[Effect] = []
    if jobs and dispatch is not None:
        effects += _deleted_jobs(dispatch, remote, settings)
    stored = remote.workload
    if stored is None or not owned(stored.json, settings):
        return effects
    key, meta = stored.key, stored.obj.metadata
    finalizers = meta.finalizers or []
    if FINALIZER in finalizers:
        left = [each for each in finalizers if each != FINALIZER] or None
        body: Json = {"metadata": {"finalizers": left}}
        effects.append(Patch(key=key, resource_version=meta.resource_version, body=body))
    if meta.deletion_timestamp is None:
        effects.append(Delete(key=key, uid=meta.uid))
    return effects


def _deleted_jobs(
    dispatch: Dispatch, remote: RemoteCopies, settings: MultiKueueSettings
) -> Iterator[Effect]:
    for each in (*remote.jobs, *remote.strays):
        if each is None or not owned(each, settings):
            continue
        meta = child(each, "metadata")
        if not meta.get("deletionTimestamp"):
            key = Key(text(meta.get("namespace")), text(meta.get("name")))
            yield Delete(key=key, uid=text(meta.get("uid")), kind=dispatch.name)


def owned(remote: Json, settings: MultiKueueSettings) -> bool:
    """Whether this manager created an object."""
    try:
        return is_owned(remote, settings.origin) and not created_by_other(remote, settings.manager)
    except ForeignObject:
        return False


def workload_named(remote: Json) -> str:
    """Return the Workload that a copy of a job names, in its annotation or in its label."""
    meta = child(remote, "metadata")
    named = (string_map(meta.get(field)).get(PREBUILT) for field in ("annotations", "labels"))
    return next(filter(None, named), "")
