# SPDX-License-Identifier: Apache-2.0
"""Writes states of admission checks to a Workload. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kuota.api.workload import AdmissionCheckState
from kuota.bridge.conditions import MAX_MESSAGE, shortened, stamp
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.effects import Effect, Event, StatusPatch
from kuota.bridge.lifecycle_checks import check_json

PENDING, READY, RETRY, REJECTED = "Pending", "Ready", "Retry", "Rejected"
"""The states of an admission check."""

UPDATED = "AdmissionCheckUpdated"
"""The reason of the event about a change of state."""


def state_effects(
    stored: StoredWorkload, states: Iterable[AdmissionCheckState], now: float
) -> tuple[Effect, ...]:
    """Return the effects that give checks of a Workload these states; none if nothing changes.

    The transition time moves with the state only. Checks that the Workload does not list are
    ignored, because the Workload does not need them any more.
    """
    wanted = {each.name: each for each in states}
    before = stored.obj.status.admission_checks or []
    after = [_transition(each, wanted.get(each.name, each), now) for each in before]
    if after == before:
        return ()
    meta = stored.obj.metadata
    status = {"admissionChecks": [check_json(each) for each in after]}
    patch = StatusPatch(key=stored.key, resource_version=meta.resource_version, status=status)
    pairs = zip(before, after, strict=True)
    return patch, *(_event(stored, *each) for each in pairs if each[0].state != each[1].state)


def _transition(
    before: AdmissionCheckState, after: AdmissionCheckState, now: float
) -> AdmissionCheckState:
    moved = before.state != after.state
    return replace(
        after,
        message=shortened(after.message, MAX_MESSAGE),
        last_transition_time=stamp(now) if moved else before.last_transition_time,
    )


def _event(
    stored: StoredWorkload, before: AdmissionCheckState, after: AdmissionCheckState
) -> Event:
    note = f"Admission check {after.name} updated state from {before.state} to {after.state}"
    if after.message:
        note += f" with message: {after.message}"
    return Event.about(stored.key, UPDATED, note)
