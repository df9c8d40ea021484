# SPDX-License-Identifier: Apache-2.0
"""When LocalQueues pay for what they use: ties the ledger to the life of workloads.

Without a configuration for admission fair sharing nothing is kept and nobody has used anything.
"""

from __future__ import annotations

from kuota.api.base import Key
from kuota.api.gates import Gate

from .amounts import Requests
from .ledger import Ledger, penalty_lapses, penalty_settles, requested
from .model import Instant, LocalQueue, Workload
from .policy import Policy
from .state import State


class History:
    """The use of every LocalQueue whose ClusterQueue orders by it."""

    def __init__(self, policy: Policy, state: State) -> None:
        self._state = state
        self._policy = policy
        settings = policy.admission_fair_sharing
        on = settings is not None and policy.on(Gate.AdmissionFairSharing)
        self.ledger = Ledger(settings) if settings is not None and on else None

    def use(self, local_queue: Key) -> float:
        return self.ledger.usage(local_queue) if self.ledger is not None else 0.0

    def open(self, queue: LocalQueue, now: Instant) -> None:
        """Take note of a LocalQueue: its weight, and once what was written down of its use."""
        if self.ledger is not None:
            self.ledger.weigh(queue.key, queue.weight)
            self.ledger.restore(queue.key, queue.consumed or {}, now)

    def forget(self, local_queue: Key) -> None:
        if self.ledger is not None:
            self.ledger.close(local_queue)

    def push(self, workload: Workload, cluster_queue: str) -> None:
        """Charge a workload that was just given quota, so that its queue mates come first."""
        if self.ledger is None or not self.pays(workload, cluster_queue):
            return
        declared = None
        if self._policy.ignore_undeclared and self._policy.on(Gate.QuotaCheckStrategy):
            groups = self._state.queues[cluster_queue].spec.groups
            declared = [name for group in groups for name in group.resources]
        self.ledger.push(workload.local_queue, workload.key, requested(workload, declared))

    def pays(self, workload: Workload, cluster_queue: str) -> bool:
        """Whether getting quota now costs the LocalQueue something: not on a second pass."""
        queue = self._state.queues.get(cluster_queue)
        usage_based = queue is not None and queue.spec.usage_based
        return self.ledger is not None and usage_based and workload.reservation is None

    def follow(self, old: Workload | None, new: Workload, now: Instant) -> None:
        """Settle or drop what a workload owes, by how it changed."""
        if self.ledger is None or old is None or new.is_parent:
            return
        if penalty_lapses(old, new):
            self.drop(old)
        elif penalty_settles(old, new):
            queue = new.local_queue
            self.ledger.settle(queue, new.key, self._admitted(queue), now)

    def drop(self, workload: Workload) -> None:
        """Forget what a workload owes; it will not be admitted."""
        if self.ledger is not None:
            self.ledger.drop(workload.local_queue, workload.key)

    def sample(self, now: Instant) -> float | None:
        """Let every LocalQueue forget a little, where it is time to; when it is time again."""
        if self.ledger is None:
            return None
        next_s = self.ledger.sampling_s
        for key in self._state.local_queues:
            if self.ledger.due(key, now):
                self.ledger.decay(key, self._admitted(key), now)
            next_s = min(next_s, self.ledger.due_in_s(key, now))
        return next_s

    def _admitted(self, local_queue: Key) -> Requests:
        """What the admitted workloads of a LocalQueue use now, flavors merged."""
        total: Requests = {}
        spec = self._state.local_queues.get(local_queue)
        queue = self._state.queues.get(spec.cluster_queue) if spec is not None else None
        if queue is not None:
            tally = queue.running.tally(local_queue, admitted=True)
            for column, amount in tally.amounts.items():
                total[column.resource] = total.get(column.resource, 0) + amount
        return total
