# SPDX-License-Identifier: Apache-2.0
"""Usage of LocalQueues over time, decayed by half-life, for admission fair sharing.

Amounts are exact nano-units, truncated after every multiplication, so that decayed usage reaches
zero. Workloads of the LocalQueue with the lowest usage go first. `Ledger` stores the usage;
`History` updates it as workloads change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf, pow
from typing import NamedTuple

from kuota.api.base import Key
from kuota.api.gates import Gate
from kuota.api.quantity import NANO, nano_of

from .amounts import Requests
from .model import Instant, LocalQueue, Workload
from .policy import AdmissionFairSharing, Policy
from .state import State

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


class Sample(NamedTuple):
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
        self.sampled: Sample | None = None
        self.weight = 1.0
        self.usage: float | None = None


class Ledger:
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

    def sampled(self, local_queue: Key) -> Sample | None:
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

    def weigh(self, local_queue: Key, weight: float) -> None:
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
        account.sampled = Sample(dict(account.consumed), now)

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
        """Charge a workload that just got quota, as a penalty until the admission is settled."""
        account = self._account(local_queue)
        part = alpha(self._policy.sampling_s, self._policy.half_life_s)
        account.penalties[workload] = _scaled(in_nanos(requests), part)
        account.usage = None

    def settle(self, local_queue: Key, workload: Key, admitted: Requests, now: Instant) -> None:
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


def penalty_lapses(old: Workload, new: Workload | None) -> bool:
    """Whether the change means that a pending penalty will never be settled."""
    if new is None or new.queue != old.queue or new.finished:
        return True
    return not new.active and new.reservation is None


def penalty_settles(old: Workload, new: Workload) -> bool:
    """Whether the change means that the workload was admitted."""
    return new.admitted and not old.admitted and new.active and not new.finished


class History:
    """The usage of every LocalQueue whose ClusterQueue uses admission fair sharing."""

    def __init__(self, policy: Policy, state: State) -> None:
        self._state = state
        self._policy = policy
        settings = policy.admission_fair_sharing
        on = settings is not None and policy.on(Gate.AdmissionFairSharing)
        self.ledger = Ledger(settings) if settings is not None and on else None

    def use(self, local_queue: Key) -> float:
        return self.ledger.usage(local_queue) if self.ledger is not None else 0.0

    def open(self, queue: LocalQueue, now: Instant) -> None:
        """Set the weight of a LocalQueue and, once, restore its stored usage."""
        if self.ledger is not None:
            self.ledger.weigh(queue.key, queue.weight)
            self.ledger.restore(queue.key, queue.consumed or {}, now)

    def forget(self, local_queue: Key) -> None:
        if self.ledger is not None:
            self.ledger.close(local_queue)

    def push(self, workload: Workload, cluster_queue: str) -> None:
        """Charge a workload that just got quota, so that other LocalQueues go first."""
        if self.ledger is None or not self.pays(workload, cluster_queue):
            return
        declared = None
        if self._policy.ignore_undeclared and self._policy.on(Gate.QuotaCheckStrategy):
            groups = self._state.queues[cluster_queue].spec.groups
            declared = [name for group in groups for name in group.resources]
        self.ledger.push(workload.local_queue, workload.key, requested(workload, declared))

    def pays(self, workload: Workload, cluster_queue: str) -> bool:
        """Whether a reservation adds a penalty. A second pass does not."""
        queue = self._state.queues.get(cluster_queue)
        usage_based = queue is not None and queue.spec.usage_based
        return self.ledger is not None and usage_based and workload.reservation is None

    def follow(self, old: Workload | None, new: Workload, now: Instant) -> None:
        """Settle or drop the penalty of a workload, depending on the change."""
        if self.ledger is None or old is None or new.is_parent:
            return
        if penalty_lapses(old, new):
            self.drop(old)
        elif penalty_settles(old, new):
            queue = new.local_queue
            self.ledger.settle(queue, new.key, self._admitted(queue), now)

    def drop(self, workload: Workload) -> None:
        """Drop the penalty of a workload that will not be admitted."""
        if self.ledger is not None:
            self.ledger.drop(workload.local_queue, workload.key)

    def sample(self, now: Instant) -> float | None:
        """Sample the usage of every active LocalQueue that is due.

        Returns the seconds until the next sample.
        """
        if self.ledger is None:
            return None
        next_s = self.ledger.sampling_s
        for key in self._state.local_queues:
            if self.sample_one(key, now):
                next_s = min(next_s, self.ledger.due_in_s(key, now))
        return next_s

    def sample_one(self, local_queue: Key, now: Instant) -> bool:
        """Sample the usage of a LocalQueue if it is due; False if the queue is not active."""
        known = self.ledger is not None and local_queue in self._state.local_queues
        if self.ledger is None or not known or self._state.local_obstacles(local_queue):
            return False
        if self.ledger.due(local_queue, now):
            self.ledger.sample(local_queue, self._admitted(local_queue), now)
        return True

    def _admitted(self, local_queue: Key) -> Requests:
        """Return the current usage of a LocalQueue's admitted workloads, summed over flavors.

        Resources that the queue offers but nobody uses are included as 0.
        """
        total: Requests = {}
        spec = self._state.local_queues.get(local_queue)
        queue = self._state.queues.get(spec.cluster_queue) if spec is not None else None
        if queue is not None:
            total = {name: 0 for group in queue.spec.groups for name in group.resources}
            tally = queue.running.total(local_queue, admitted=True)
            for column, amount in tally.amounts.items():
                total[column.resource] = total.get(column.resource, 0) + amount
        return total
