# SPDX-License-Identifier: Apache-2.0
"""Usage of LocalQueues over time, decayed by half-life, for admission fair sharing.

Amounts are exact nano-units, truncated after every multiplication, so that decayed usage reaches
zero. Workloads of the LocalQueue with the lowest usage go first. `kuota.engine.usage_tracker`
updates the usage as workloads change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf, pow
from typing import NamedTuple

from kuota.api.base import Key
from kuota.api.quantity import NANO, nano_of

from .amounts import Requests
from .model import Instant, Workload
from .policy import AdmissionFairSharing

Nanos = dict[str, int]
"""Amount per resource, in billionths of its unit: cores, bytes, pieces."""


def alpha(elapsed_s: float, half_life_s: float) -> float:
    """Return the fraction of past usage that decays in this time; 0 without a half-life."""
    if half_life_s <= 0:
        return 0.0
    return 1.0 - pow(0.5, max(0.0, elapsed_s) / half_life_s)


def weighted_usage(
    amounts: Iterable[Mapping[str, int]], resource_weights: Mapping[str, float], weight: float
) -> float:
    """Return the usage by which LocalQueues are ordered; infinite for weight 0."""
    if weight <= 0:
        return inf
    total = sum(
        resource_weights.get(resource, 1.0) * (nano / NANO)
        for part in amounts
        for resource, nano in sorted(part.items())
    )
    return total / weight


def in_nanos(requests: Requests) -> Nanos:
    return {resource: nano_of(amount, resource) for resource, amount in requests.items()}


def requested(workload: Workload, declared: Iterable[str] | None = None) -> Requests:
    """Return the total requests of a workload, restricted to `declared` resources if given."""
    total: Requests = {}
    for pod_set in workload.pod_sets:
        for resource, amount in pod_set.requests.items():
            total[resource] = total.get(resource, 0) + amount
    if declared is None:
        return total
    return {resource: total[resource] for resource in declared if resource in total}


def _scaled(amounts: Mapping[str, int], factor: float) -> Nanos:
    """Multiply each amount exactly and truncate toward zero."""
    numerator, denominator = factor.as_integer_ratio()
    return {name: nano * numerator // denominator for name, nano in amounts.items()}


def _sum(*parts: Mapping[str, int]) -> Nanos:
    total: Nanos = {}
    for part in parts:
        for name, nano in part.items():
            total[name] = total.get(name, 0) + nano
    return total


class ConsumedSample(NamedTuple):
    """The usage of a LocalQueue when it was last sampled."""

    consumed: Nanos
    at: Instant


class _Account:
    """The usage of one LocalQueue, and the penalties of admissions in progress.

    The status shows `sampled`. A `fresh` account is due for its first sample.
    """

    __slots__ = (
        "consumed",
        "fresh",
        "penalties",
        "restored",
        "sampled",
        "updated",
        "usage",
        "weight",
    )

    def __init__(self) -> None:
        self.consumed: Nanos = {}
        self.penalties: dict[Key, Nanos] = {}
        self.updated: Instant | None = None
        self.restored = False
        self.fresh = True
        self.sampled: ConsumedSample | None = None
        self.weight = 1.0
        self.usage: float | None = None


class ConsumedUsage:
    """The usage of all LocalQueues. An unknown LocalQueue has usage 0 and weight 1.

    `admitted` is the current usage of a LocalQueue's admitted workloads, summed over flavors.
    """

    def __init__(self, policy: AdmissionFairSharing) -> None:
        self._policy = policy
        self._accounts: dict[Key, _Account] = {}

    def usage(self, local_queue: Key) -> float:
        """Return the usage by which the LocalQueue is ordered; lower goes first."""
        account = self._accounts.get(local_queue)
        if account is None:
            return 0.0
        if account.usage is None:
            parts = (account.consumed, *account.penalties.values())
            weights = self._policy.resource_weights
            account.usage = weighted_usage((_sum(*parts),), weights, account.weight)
        return account.usage

    def consumed(self, local_queue: Key) -> Nanos:
        """Return the decayed usage as of `updated`, without penalties."""
        account = self._accounts.get(local_queue)
        return dict(account.consumed) if account is not None else {}

    def sampled(self, local_queue: Key) -> ConsumedSample | None:
        """Return the last sample; None before the first one."""
        account = self._accounts.get(local_queue)
        return account.sampled if account is not None else None

    def updated(self, local_queue: Key) -> Instant | None:
        """Return when the usage last decayed; None before the first time."""
        account = self._accounts.get(local_queue)
        return account.updated if account is not None else None

    def due(self, local_queue: Key, now: Instant) -> bool:
        """Whether a sample is due."""
        account = self._accounts.get(local_queue)
        if account is None or account.updated is None or account.fresh or account.penalties:
            return True
        return now >= account.updated + self._policy.sampling_s

    @property
    def sampling_s(self) -> float:
        """The interval between two decay steps."""
        return self._policy.sampling_s

    def due_in_s(self, local_queue: Key, now: Instant) -> float:
        """Return the seconds until the next decay step, ignoring penalties."""
        updated = self.updated(local_queue)
        since_s = max(0.0, now - updated) if updated is not None else self.sampling_s
        return max(0.0, self.sampling_s - since_s)

    def set_weight(self, local_queue: Key, weight: float) -> None:
        """Set the weight of a LocalQueue."""
        account = self._account(local_queue)
        account.weight = weight
        account.usage = None

    def restore(self, local_queue: Key, consumed: Mapping[str, int], now: Instant) -> None:
        """Add the usage that was stored before a restart. Only the first call has an effect."""
        account = self._account(local_queue)
        if account.restored:
            return
        account.restored = True
        self._set(account, _sum(account.consumed, consumed))
        if account.updated is None:
            account.updated = now

    def close(self, local_queue: Key) -> None:
        """Forget a deleted LocalQueue."""
        self._accounts.pop(local_queue, None)

    def sample(self, local_queue: Key, admitted: Requests, now: Instant) -> None:
        """Decay the usage and record the result, which the status shows."""
        self.decay(local_queue, admitted, now)
        account = self._account(local_queue)
        account.sampled = ConsumedSample(dict(account.consumed), now)

    def decay(self, local_queue: Key, admitted: Requests, now: Instant) -> None:
        """Decay past usage and blend in the current usage.

        Without a half-life, past usage does not count.
        """
        account = self._account(local_queue)
        before = account.updated if account.updated is not None else now
        half_life_s = self._policy.half_life_s
        part = alpha(now - before, half_life_s)
        kept, used = _scaled(account.consumed, 1.0 - part), _scaled(in_nanos(admitted), part)
        self._set(account, _sum(kept, used) if half_life_s > 0 else {})
        account.updated = max(before, now)
        account.fresh = False

    def push(self, local_queue: Key, workload: Key, requests: Requests) -> None:
        """Charge a workload that just got quota, as a penalty until it is admitted."""
        account = self._account(local_queue)
        part = alpha(self._policy.sampling_s, self._policy.half_life_s)
        account.penalties[workload] = _scaled(in_nanos(requests), part)
        account.usage = None

    def apply_penalty(
        self, local_queue: Key, workload: Key, admitted: Requests, now: Instant
    ) -> None:
        """Add the penalty of an admitted workload to the usage. Later calls have no effect."""
        account = self._accounts.get(local_queue)
        penalty = account.penalties.pop(workload, None) if account is not None else None
        if account is not None and penalty is not None:
            self.decay(local_queue, admitted, now)
            self._set(account, _sum(account.consumed, penalty))

    def drop(self, local_queue: Key, workload: Key) -> None:
        """Drop the penalty of a workload that will not be admitted."""
        account = self._accounts.get(local_queue)
        if account is not None and account.penalties.pop(workload, None) is not None:
            account.usage = None

    def _account(self, local_queue: Key) -> _Account:
        account = self._accounts.get(local_queue)
        if account is None:
            account = self._accounts[local_queue] = _Account()
        return account

    def _set(self, account: _Account, consumed: Nanos) -> None:
        account.consumed = consumed
        account.usage = None
