# SPDX-License-Identifier: Apache-2.0
"""All pending workloads: the ClusterQueue in which each is queued, and the heads.

Workloads whose LocalQueue or ClusterQueue is missing or stopped are kept, and queued when that
changes. The engine decides when to flush which tree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Set
from functools import partial

from kuota.api.base import Key
from kuota.api.gates import Gate

from .amounts import FlavorResource
from .assignment import ScanProgress
from .buckets import Pending
from .entry import Head
from .model import ClusterQueue, Instant, LocalQueue, Workload
from .pending import LocalQueueUsage, PendingQueue
from .policy import Policy
from .reasons import RequeueReason, WaitReason
from .second_pass import SecondPass
from .unsatisfiable import Needs

NamespaceMatches = Callable[[str, str], bool]
"""Whether a ClusterQueue (first name) accepts workloads of a namespace (second name)."""


class Queues:
    """The pending workloads of every ClusterQueue.

    `local_queue_usage` returns the usage of a LocalQueue, for admission fair sharing. `dirty`
    collects the ClusterQueues whose pending workloads changed. `quiescent` maps each ClusterQueue
    that is skipped to the head it would return. A ClusterQueue stays quiescent until it is woken or
    its head changes.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        namespace_matches: NamespaceMatches = lambda queue, namespace: True,
        local_queue_usage: LocalQueueUsage | None = None,
    ) -> None:
        self._policy = policy or Policy()
        self._namespace_matches = namespace_matches
        self._local_queue_usage = local_queue_usage
        self._cluster_queues: dict[str, PendingQueue] = {}
        self._local_queues: dict[Key, LocalQueue] = {}
        self._local_queues_by_cluster_queue: dict[str, dict[Key, None]] = {}
        self._workloads: dict[Key, Workload] = {}
        self._members: dict[Key, dict[Key, None]] = {}
        self._queue_by_workload: dict[Key, PendingQueue] = {}
        self._ready: set[str] = set()
        self.quiescent: dict[str, Head] = {}
        self.dirty: set[str] = set()
        self._second_pass = SecondPass()

    def __getitem__(self, cluster_queue: str) -> PendingQueue:
        return self._cluster_queues[cluster_queue]

    def __contains__(self, cluster_queue: str) -> bool:
        return cluster_queue in self._cluster_queues

    def workload(self, key: Key) -> Workload | None:
        """Return the newest state of a pending workload, queued or not."""
        return self._workloads.get(key)

    def queue_of(self, key: Key) -> PendingQueue | None:
        """Return the queue that contains a workload; None if it is not queued."""
        return self._queue_by_workload.get(key)

    def members(self, local_queue: Key) -> list[Workload]:
        """Return the pending workloads of a LocalQueue, queued or not, in no particular order."""
        return [self._workloads[key] for key in self._members.get(local_queue, ())]

    def pending(self, cluster_queue: str) -> int:
        """Return the number of pending workloads of a ClusterQueue, in any state."""
        queue = self._cluster_queues.get(cluster_queue)
        return len(queue) if queue is not None else 0

    def pending_local(self, local_queue: Key) -> int | None:
        """Return the number of pending workloads of a LocalQueue; 0 if stopped, None if unknown."""
        if local_queue not in self._local_queues:
            return None
        return (
            len(self._members.get(local_queue, ())) if self._accepts_workloads(local_queue) else 0
        )

    def local_queues_of(self, cluster_queue: str) -> Collection[Key]:
        """Return the LocalQueues of a ClusterQueue. The result is read-only."""
        return self._local_queues_by_cluster_queue.get(cluster_queue, {}).keys()

    def put_cluster_queue(self, spec: ClusterQueue, now: Instant) -> None:
        """Add or update a ClusterQueue.

        Admission fair sharing and concurrent admission are fixed when the queue is added.
        """
        queue = self._cluster_queues.get(spec.name)
        if queue is not None:
            queue.strict = spec.strict
            return
        usage = self._local_queue_usage if spec.usage_based and self._orders_by_usage else None
        queue = PendingQueue(spec.name, self._policy, strict=spec.strict, local_queue_usage=usage)
        queue.variants_only = spec.concurrent_admission is not None
        self._cluster_queues[spec.name] = queue
        for local_queue in self._local_queues_by_cluster_queue.get(spec.name, ()):
            self._place_members(local_queue, now)

    def drop_cluster_queue(self, name: str) -> None:
        if self._cluster_queues.pop(name, None) is None:
            return
        self._ready.discard(name)
        self.quiescent.pop(name, None)
        for local_queue in self._local_queues_by_cluster_queue.get(name, ()):
            for key in self._members.get(local_queue, ()):
                self._queue_by_workload.pop(key, None)

    def put_local_queue(self, spec: LocalQueue, now: Instant) -> None:
        """Add or update a LocalQueue, and move its workloads to its ClusterQueue."""
        before = self._local_queues.get(spec.key)
        self._local_queues[spec.key] = spec
        if before is not None:
            if (before.cluster_queue, before.stop_policy) == (spec.cluster_queue, spec.stop_policy):
                return
            del self._local_queues_by_cluster_queue[before.cluster_queue][spec.key]
        self._local_queues_by_cluster_queue.setdefault(spec.cluster_queue, {})[spec.key] = None
        self._place_members(spec.key, now)

    def drop_local_queue(self, key: Key) -> None:
        spec = self._local_queues.pop(key, None)
        if spec is not None:
            del self._local_queues_by_cluster_queue[spec.cluster_queue][key]
            for member in self._members.get(key, ()):
                self._leave(member)

    def put_workload(self, workload: Workload, now: Instant) -> bool:
        """Store the newest state of a workload. Returns whether it is queued now.

        A workload that may not be queued is dropped, unless it still needs a second pass.
        """
        self._second_pass.update(workload)
        if not workload.queueable:
            self._forget(workload.key)
            return False
        before = self._workloads.get(workload.key)
        if before is not None and before.queue != workload.queue:
            self._forget(workload.key)
        self._workloads[workload.key] = workload
        self._members.setdefault(workload.local_queue, {})[workload.key] = None
        return self._place(workload, now)

    def drop_workload(self, key: Key) -> None:
        """Drop a workload that was admitted or deleted."""
        self._second_pass.drop(key)
        self._forget(key)

    def heads(self, now: Instant, active: Callable[[str], bool]) -> list[Pending]:
        """Return due second passes, then the first workload of every active ClusterQueue, by name.

        They are in flight until `requeue`, `requeue_second_pass` or `drop_workload`.
        """
        due = self._second_pass.due(now) if self._second_pass else ()
        found = [self._second_pass_head(workload) for workload in due]
        for name in sorted(self._ready):
            if active(name):
                queue = self._cluster_queues[name]
                pending = queue.pop()
                assert pending is not None
                found.append(pending)
                self._mark_changed(queue)
        return found

    def with_rejections(self) -> list[str]:
        """Return the ClusterQueues with a head for which `skip_rejected` may have an effect."""
        if not self._ready:
            return []
        queues = self._cluster_queues
        return sorted([name for name in self._ready if queues[name].remembers_rejections])

    def skip_rejected(
        self,
        cluster_queues: Iterable[str],
        attainable: Callable[[str, int, FlavorResource, int], bool],
        now: Instant,
    ) -> list[Key]:
        """Make heads inadmissible whose class would be rejected again, and return their keys."""
        found: list[Key] = []
        for name in cluster_queues:
            queue = self._cluster_queues[name]
            rejected = list(queue.skip_rejected(partial(attainable, name), now))
            if rejected:
                found += rejected
                self._mark_changed(queue)
        return found

    def take(self, key: Key, active: Callable[[str], bool]) -> Pending | None:
        """Pop this workload regardless of its position; None if it cannot be tried now."""
        queue = self._queue_by_workload.get(key)
        if queue is None or not active(queue.name):
            return None
        pending = queue.pop(key)
        self._mark_changed(queue)
        return pending

    def requeue(
        self,
        key: Key,
        reason: RequeueReason,
        now: Instant,
        progress: ScanProgress | None = None,
        wait_reason: WaitReason | None = None,
        needs: Needs | None = None,
    ) -> bool:
        """Requeue a head that was not admitted, in its newest state. Returns False if not needed.

        `progress` replaces the earlier scan progress. See `PendingQueue.requeue`.
        """
        workload, queue = self._workloads.get(key), self._queue_by_workload.get(key)
        if workload is None or queue is None:
            return False
        done = queue.requeue(workload, reason, now, progress, wait_reason, needs)
        self._mark_changed(queue)
        return done

    def flush(
        self,
        cluster_queues: Iterable[str],
        now: Instant,
        upper_bound: Callable[[str, int, FlavorResource], int] | None = None,
    ) -> int:
        """Flush the inadmissible workloads of these ClusterQueues and return how many became
        active.

        `upper_bound`, by ClusterQueue, is used when quota was released. See `PendingQueue.flush`.
        """
        moved = 0
        for name in cluster_queues:
            queue = self._cluster_queues.get(name)
            if queue is not None:
                bound = partial(upper_bound, name) if upper_bound is not None else None
                moved += queue.flush(now, partial(self._namespace_matches, name), bound)
                self._mark_changed(queue)
        return moved

    def queue_second_pass(self, workload: Workload, now: Instant) -> bool:
        """Schedule a second pass for a workload if it needs one. Returns whether it does."""
        return self._second_pass.queue(workload, now)

    def requeue_second_pass(self, key: Key, now: Instant) -> bool:
        """Schedule another second pass after a failed one.

        Returns False if it is no longer needed.
        """
        return self._second_pass.requeue(key, now)

    def next_wakeup(self) -> Instant | None:
        """Return when a second pass is due; None if there is none."""
        return self._second_pass.next_wakeup() if self._second_pass else None

    def mark_quiescent(self, heads: Iterable[Head]) -> None:
        """Skip the queues of these heads, which would return the same heads again."""
        for head in heads:
            self.quiescent[head.cluster_queue] = head
            self._ready.discard(head.cluster_queue)

    def wake(self, cluster_queues: Iterable[str]) -> None:
        """Stop skipping these ClusterQueues."""
        for name in list(cluster_queues):
            del self.quiescent[name]
            if self._cluster_queues[name].heap_size:
                self._ready.add(name)

    @property
    def ready(self) -> Set[str]:
        """The ClusterQueues with a head, without quiescent ones. Some may be inactive."""
        return self._ready

    @property
    def idle(self) -> bool:
        """Whether every heap is empty, including those of inactive queues."""
        return not self._ready and not self.quiescent

    @property
    def _orders_by_usage(self) -> bool:
        policy = self._policy
        return policy.admission_fair_sharing is not None and policy.on(Gate.AdmissionFairSharing)

    def _accepts_workloads(self, local_queue: Key) -> bool:
        """Whether the LocalQueue exists and is not stopped."""
        spec = self._local_queues.get(local_queue)
        return spec is not None and spec.stop_policy in ("", "None")

    def _target(self, local_queue: Key) -> PendingQueue | None:
        """Return the queue for workloads of a LocalQueue; None if they cannot be queued."""
        if not self._accepts_workloads(local_queue):
            return None
        return self._cluster_queues.get(self._local_queues[local_queue].cluster_queue)

    def _place_members(self, local_queue: Key, now: Instant) -> None:
        for key in self._members.get(local_queue, ()):
            self._place(self._workloads[key], now)

    def _place(self, workload: Workload, now: Instant) -> bool:
        """Queue a workload where it belongs now. Returns False if it cannot be queued."""
        target = self._target(workload.local_queue)
        if target is not None and target.variants_only and not workload.parent_uid:
            # Without a parent it is a parent itself, even if it is not labelled as one yet.
            target = None
        if self._queue_by_workload.get(workload.key) is not target:
            self._leave(workload.key)
        if target is None:
            return False
        self._queue_by_workload[workload.key] = target
        target.put(workload, now)
        self._mark_changed(target)
        return True

    def _leave(self, key: Key) -> None:
        queue = self._queue_by_workload.pop(key, None)
        if queue is not None:
            queue.drop(key)
            self._mark_changed(queue)

    def _forget(self, key: Key) -> None:
        self._leave(key)
        workload = self._workloads.pop(key, None)
        if workload is not None:
            members = self._members[workload.local_queue]
            del members[key]
            if not members:
                del self._members[workload.local_queue]

    def _mark_changed(self, queue: PendingQueue) -> None:
        """Record a change of a queue, unless it is quiescent and would still repeat its head."""
        head = self.quiescent.get(queue.name)
        if head is not None:
            if queue.would_repeat(head):
                return
            del self.quiescent[queue.name]
        self.dirty.add(queue.name)
        if queue.heap_size:
            self._ready.add(queue.name)
        else:
            self._ready.discard(queue.name)

    def _second_pass_head(self, workload: Workload) -> Pending:
        reservation = workload.reservation
        assert reservation is not None
        pending = Pending(workload, reservation.cluster_queue, (0, 0.0, workload.uid, workload.key))
        pending.second_pass = True
        return pending
