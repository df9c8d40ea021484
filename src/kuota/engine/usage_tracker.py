# SPDX-License-Identifier: Apache-2.0
"""Updates the consumed usage of LocalQueues as workloads change, for admission fair sharing."""

from __future__ import annotations

from kuota.api.base import Key
from kuota.api.gates import Gate

from .amounts import Requests
from .consumed_usage import ConsumedUsage, requested
from .model import Instant, LocalQueue, Workload
from .policy import Policy
from .state import State


def penalty_lapses(old: Workload, new: Workload | None) -> bool:
    """Whether the change means that a pending penalty will never be applied."""
    if new is None or new.queue != old.queue or new.finished:
        return True
    return not new.active and new.reservation is None


def penalty_applies(old: Workload, new: Workload) -> bool:
    """Whether the change means that the workload was admitted."""
    return new.admitted and not old.admitted and new.active and not new.finished


class UsageTracker:
    """The usage of every LocalQueue whose ClusterQueue uses admission fair sharing."""

    def __init__(self, policy: Policy, state: State) -> None:
        self._state = state
        self._policy = policy
        settings = policy.admission_fair_sharing
        on = settings is not None and policy.on(Gate.AdmissionFairSharing)
        self.consumed_usage = ConsumedUsage(settings) if settings is not None and on else None

    def usage(self, local_queue: Key) -> float:
        """Return the consumed usage of a LocalQueue; 0 without admission fair sharing."""
        return self.consumed_usage.usage(local_queue) if self.consumed_usage is not None else 0.0

    def open(self, queue: LocalQueue, now: Instant) -> None:
        """Set the weight of a LocalQueue and, once, restore its stored usage."""
        if self.consumed_usage is not None:
            self.consumed_usage.set_weight(queue.key, queue.weight)
            self.consumed_usage.restore(queue.key, queue.consumed or {}, now)

    def forget(self, local_queue: Key) -> None:
        if self.consumed_usage is not None:
            self.consumed_usage.close(local_queue)

    def push(self, workload: Workload, cluster_queue: str) -> None:
        """Charge a workload that just got quota, so that other LocalQueues go first."""
        if self.consumed_usage is None or not self.adds_penalty(workload, cluster_queue):
            return
        declared = None
        if self._policy.ignore_undeclared and self._policy.on(Gate.QuotaCheckStrategy):
            groups = self._state.queues[cluster_queue].spec.groups
            declared = [name for group in groups for name in group.resources]
        self.consumed_usage.push(workload.local_queue, workload.key, requested(workload, declared))

    def adds_penalty(self, workload: Workload, cluster_queue: str) -> bool:
        """Whether a reservation adds a penalty. A second pass does not."""
        queue = self._state.queues.get(cluster_queue)
        usage_based = queue is not None and queue.spec.usage_based
        return self.consumed_usage is not None and usage_based and workload.reservation is None

    def follow(self, old: Workload | None, new: Workload, now: Instant) -> None:
        """Apply or drop the penalty of a workload, depending on the change."""
        if self.consumed_usage is None or old is None or new.is_parent:
            return
        if penalty_lapses(old, new):
            self.drop(old)
        elif penalty_applies(old, new):
            queue = new.local_queue
            self.consumed_usage.apply_penalty(queue, new.key, self._admitted(queue), now)

    def drop(self, workload: Workload) -> None:
        """Drop the penalty of a workload that will not be admitted."""
        if self.consumed_usage is not None:
            self.consumed_usage.drop(workload.local_queue, workload.key)

    def sample(self, now: Instant) -> float | None:
        """Sample the usage of every active LocalQueue that is due.

        Returns the seconds until the next sample.
        """
        if self.consumed_usage is None:
            return None
        next_s = self.consumed_usage.sampling_s
        for key in self._state.local_queues:
            if self.sample_one(key, now):
                next_s = min(next_s, self.consumed_usage.due_in_s(key, now))
        return next_s

    def sample_one(self, local_queue: Key, now: Instant) -> bool:
        """Sample the usage of a LocalQueue if it is due; False if the queue is not active."""
        known = self.consumed_usage is not None and local_queue in self._state.local_queues
        if self.consumed_usage is None or not known or self._state.local_obstacles(local_queue):
            return False
        if self.consumed_usage.due(local_queue, now):
            self.consumed_usage.sample(local_queue, self._admitted(local_queue), now)
        return True

    def _admitted(self, local_queue: Key) -> Requests:
        """Return the current usage of a LocalQueue's admitted workloads, summed over flavors.

        Resources that the queue offers but no workload uses are included as 0.
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
