# SPDX-License-Identifier: Apache-2.0
"""The ownership of fields in a Workload's status, and its transfer from Kuota to Kueue.

Kueue removes a field by applying a status without it. This does not remove fields that others own,
and Kuota owns what it wrote by merge patch. So for Kueue to take over, ownership moves to Kueue's
field managers, each of which owns a part of the status.
"""

from __future__ import annotations

from collections.abc import Sequence

from kuota.api import fieldsets, managed_fields
from kuota.api.base import Json
from kuota.api.convert import SECONDS, SECONDS_MISSPELT
from kuota.api.edits import edited, renamed
from kuota.api.fieldsets import SELF, FieldSet
from kuota.api.managed_fields import APPLY, UPDATE, Entries, FieldOwner, ManagedFieldsEntry

KUOTA = "kuota"
"""The field manager of everything that Kuota writes."""
APPLIED = "kueue.x-k8s.io/v1beta2"
"""The API version that Kueue applies."""
_OURS = FieldOwner(KUOTA, UPDATE, "status", APPLIED)
_ADMISSION = "kueue-admission"
_V1BETA1 = "kueue.x-k8s.io/v1beta1"
_CORRECTED_SPELLING = renamed(fieldsets.field(SECONDS_MISSPELT), fieldsets.field(SECONDS))
_STATUS, _CONDITIONS = fieldsets.field("status"), fieldsets.field("conditions")
_CONTAINERS: FieldSet = {_STATUS: {SELF: {}, _CONDITIONS: {SELF: {}}}}
"""The fields that contain all parts. They move with the first part."""


def _area(fields: str = "", conditions: str = "") -> FieldSet:
    """Return the named status fields and conditions, with everything below them."""
    types: FieldSet = {fieldsets.keyed({"type": each}): {SELF: {}} for each in conditions.split()}
    area: FieldSet = {fieldsets.field(each): {SELF: {}} for each in fields.split()}
    return {_STATUS: area | ({_CONDITIONS: types} if types else {})}


_AREAS: dict[str, FieldSet] = {
    _ADMISSION: _area(
        "admission requeueState resourceRequests schedulingStats clusterName"
        " nominatedClusterNames unhealthyNodes preemptionGates admissionChecks"
        f" {SECONDS}",
        "QuotaReserved Admitted Evicted Preempted Requeued Finished DeactivationTarget"
        " BlockedOnPreemptionGates",
    ),
    "kueue-job-controller-PodsReady": _area(conditions="PodsReady"),
    "kueue-reclaimable-pods": _area("reclaimablePods"),
    "kueue-pod-controller": _area(conditions="WaitingForReplacementPods"),
}


def handed_over(managed: Sequence[Json]) -> list[Json]:
    """Return the managedFields of a Workload with Kuota's ownership moved to Kueue.

    Fields outside every part stay as they are. Returns the argument if there is nothing to move.
    Raises FieldSetError for entries that cannot be parsed.
    """
    entries = managed_fields.read(managed)
    ours = entries.get(_OURS)
    rest = _given(entries, ours) if ours is not None else {}
    if ours is None or rest == ours.fields:
        return list(managed)
    entries[_OURS] = ManagedFieldsEntry(APPLIED, rest, ours.time)
    return managed_fields.write(entries)


def has_stale_admission(workload: Json) -> bool:
    """Whether Kueue released the quota but could not remove the admission."""
    status = workload.get("status") or {}
    return "admission" in status and not _holds(status, "QuotaReserved")


def is_finished(workload: Json) -> bool:
    """Whether the status is final."""
    return _holds(workload.get("status") or {}, "Finished")


def _given(entries: Entries, entry: ManagedFieldsEntry) -> FieldSet:
    """Return what remains of the entry after each manager got its part, added to `entries`."""
    rest = entry.fields
    for manager, area in _AREAS.items():
        part = fieldsets.difference(rest, fieldsets.without(rest, area))
        if manager == _ADMISSION:
            part = fieldsets.union(part, fieldsets.intersection(rest, _CONTAINERS))
        if part:
            target = FieldOwner(manager, APPLY, "status")
            entries[target] = _joined(entries.get(target), part, entry.time)
            rest = fieldsets.difference(rest, part)
    return rest


def _joined(mine: ManagedFieldsEntry | None, part: FieldSet, time: str) -> ManagedFieldsEntry:
    """Return what a manager owns with the additional part."""
    if mine is None:
        return ManagedFieldsEntry(APPLIED, part, time)
    fields = mine.fields
    if mine.api_version == _V1BETA1:
        fields = edited(fields, _STATUS, _CORRECTED_SPELLING)
    return ManagedFieldsEntry(APPLIED, fieldsets.union(fields, part), max(mine.time, time))


def _holds(status: Json, type_: str) -> bool:
    conditions = status.get("conditions") or ()
    return any(each["type"] == type_ and each["status"] == "True" for each in conditions)
