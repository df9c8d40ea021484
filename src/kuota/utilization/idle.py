# SPDX-License-Identifier: Apache-2.0
"""Decides which devices are idle, from readings at successive times. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kuota.view.idle import HeldDevice, IdlePeriod, IdlePolicy

MAX_GAP_S = 300.0
"""Readings that are further apart than this say nothing about the time between them."""

_Identity = tuple[str, str]
"""The uid of the pod, and the device. A device that another pod gets is not the same."""


class IdleReport(msgspec.Struct, frozen=True):
    """The result of one round of readings.

    `begun` are periods that reached the minimum time with this reading; `continuing` are all
    current periods, including those. `added_s` is the idle time of each since the last round.
    """

    begun: tuple[IdlePeriod, ...] = ()
    continuing: tuple[IdlePeriod, ...] = ()
    added_s: tuple[float, ...] = ()


class _Quiet(msgspec.Struct):
    """The readings below the threshold without interruption, and how much was reported as idle."""

    since: float
    until: float
    reported_until: float | None = None


class IdleTracker:
    """Follows the devices that pods hold. A reading at or above the threshold ends a period.

    An idle period begins with the first reading below the threshold, but is reported only once it
    has lasted for the minimum time. A device without a reading keeps its state for `MAX_GAP_S`.
    """

    def __init__(self, policy: IdlePolicy) -> None:
        self.policy = policy
        self._quiet: dict[_Identity, _Quiet] = {}

    def update(self, held: Iterable[HeldDevice], now: float) -> IdleReport:
        """Take a round of readings. `held` must contain all allocated devices."""
        begun: list[IdlePeriod] = []
        continuing: list[IdlePeriod] = []
        added: list[float] = []
        quiet: dict[_Identity, _Quiet] = {}
        for each in held:
            identity = each.holder.pod_uid, each.device
            state = self._next(self._quiet.get(identity), each, now)
            if state is None:
                continue
            quiet[identity] = state
            if state.until - state.since < self.policy.after_s:
                continue
            period = _period(each, state)
            if state.reported_until is None:
                begun.append(period)
            continuing.append(period)
            added.append(state.until - (state.reported_until or state.since))
            state.reported_until = state.until
        self._quiet = quiet
        return IdleReport(tuple(begun), tuple(continuing), tuple(added))

    def idle_since(self, pod_uid: str, device: str) -> float | None:
        """Return since when the device is idle; None if it is not."""
        found = self._quiet.get((pod_uid, device))
        return found.since if found is not None and found.reported_until is not None else None

    def _next(self, before: _Quiet | None, device: HeldDevice, now: float) -> _Quiet | None:
        """Return the state after a reading; None if the device is busy or its state is unknown."""
        percent = device.utilization_percent
        if before is not None and not 0 <= now - before.until <= MAX_GAP_S:
            before = None
        if percent is None:
            return before
        if percent >= self.policy.threshold_percent:
            return None
        if before is None:
            return _Quiet(now, now)
        before.until = now
        return before


def _period(device: HeldDevice, state: _Quiet) -> IdlePeriod:
    return IdlePeriod(device.holder, device.device, device.resource, state.since, state.until)
