# SPDX-License-Identifier: Apache-2.0
"""Publishes why Workloads are pending: what is written about them, when, and how often.

- The reason goes into the condition QuotaReserved=False, with an event unless many reports wait.
- A Workload whose scheduling class was rejected gets the reason of the workload that was tried.
- Reports yield to admissions and are computed from the newest state (`deferred_writes`).
- The same reason is published again with a newer message only after REFRESH_S.
- The first PodsReady=False of a Workload is such a report too, because no decision depends on it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from kuota.api.base import Key, condition, is_true
from kuota.api.workload import Workload
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.effects import Effect, StatusPatch
from kuota.bridge.job_pass.steps import awaits_start
from kuota.bridge.outbound import Outbound, pending_reason
from kuota.engine import model
from kuota.engine.decisions import Decision, Wait, WaitCause
from kuota.engine.engine import Engine
from kuota.kube.clock import Clock

from .cached_object import CachedObject
from .cluster_cache import ClusterCache
from .deferred_writes import DeferredWrites
from .effects import EffectSender

MAX_WITH_EVENTS = 50
"""If more reports than this are pending, they are written without events."""
REFRESH_S = 60.0
"""The age after which a published reason may be updated with a newer message."""
MAX_REMEMBERED = 16_384
MAX_CLASSES = 10_000

ClassKey = tuple[str, str]
"""A ClusterQueue and a scheduling class."""


class PendingReports:
    """Decides what to publish about pending Workloads. `run` publishes until cancelled.

    `decided` receives every decision; `observed` receives every change of a Workload after the
    engine. With `readiness`, Workloads of jobs also get their first PodsReady=False.
    """

    def __init__(
        self,
        engine: Engine,
        cache: ClusterCache,
        sender: EffectSender,
        clock: Clock,
        *,
        readiness: bool = False,
    ) -> None:
        self._engine = engine
        self._cache = cache
        self._sender = sender
        self._clock = clock
        self._readiness = readiness
        self._writes = DeferredWrites(clock)
        self._outbound = Outbound(engine.policy.gates, self._stored, engine.policy.sizes)
        self._rejected: dict[ClassKey, Wait] = {}
        self._published_at: OrderedDict[Key, float] = OrderedDict()
        self._unreported = _UnreportedByClass()

    def __len__(self) -> int:
        return len(self._writes)

    async def run(self, busy: Callable[[], bool]) -> None:
        await self._writes.run(busy)

    def close(self) -> None:
        """Publish nothing more, because the process ends."""
        self._writes.close()

    def decided(self, decision: Decision) -> None:
        """Schedule a report of a rejection, or drop a report that the decision made obsolete."""
        key = decision.workload.key
        if isinstance(decision, Wait) and decision.workload.reservation is None:
            self._defer_reason(key)
            self._class_decided(decision)
            return
        self._writes.cancel(key)

    def observed(
        self, old: CachedObject[StoredWorkload] | None, new: CachedObject[StoredWorkload] | None
    ) -> None:
        """Schedule reports that a Workload lacks, and drop obsolete ones."""
        cached = new or old
        if cached is None:
            return
        key, stored = cached.key, new.value if new is not None else None
        over = stored is None or stored.true("Finished")
        if over or (stored is not None and stored.reserved):
            self._writes.cancel(key)
        if stored is None or over:
            self._writes.cancel((key, "PodsReady"))
        elif self._readiness and _lacks_readiness(stored):
            self._writes.defer((key, "PodsReady"), lambda: self._publish_readiness(key))
        self._note_unreported(key, stored)

    def _note_unreported(self, key: Key, stored: StoredWorkload | None) -> None:
        """Track pending Workloads without a reason, and report the rejection of their class."""
        known = self._engine.state.workloads.get(key)
        reason = _reason(stored) if stored is not None else None
        if stored is None or known is None or stored.reserved or stored.true("Finished"):
            self._unreported.discard(key)
            return
        queue = self._engine.queues.queue_of(key)
        if reason is None and queue is not None and known.scheduling_hash:
            self._unreported.add(key, (queue.name, known.scheduling_hash))
        else:
            self._unreported.discard(key)
        wait = self._class_wait(key)
        if wait is not None and reason != self._reason_of(wait):
            self._defer_reason(key)

    def _class_decided(self, wait: Wait) -> None:
        """Report the rejection of a class to all its members.

        All members are visited only if the reason is new; otherwise only those without a reason. An
        admission does not reset the reason, because a busy queue keeps admitting members and
        rejects the next one for the same reason. The engine knows which members are rejected now.
        """
        queue, scheduling_hash = at = wait.cluster_queue, wait.workload.scheduling_hash
        if not wait.requeue.rejects_class or not scheduling_hash:
            return
        before = self._rejected.get(at)
        if before is None and len(self._rejected) >= MAX_CLASSES:
            self._rejected.clear()
        self._rejected[at] = wait
        if before is None or before.reason != wait.reason:
            members = self._engine.queues[queue].ordered(scheduling_hash)
            self._defer_reasons(each.key for each in members)
        else:
            self._defer_reasons(self._unreported.take(at))

    def _defer_reasons(self, keys: Iterable[Key]) -> None:
        for key in keys:
            obj = self._cache.workload(key)
            wait = self._class_wait(key)
            if obj is None or obj.value is None or wait is None:
                continue
            if _reason(obj.value) != self._reason_of(wait):
                self._defer_reason(key)

    def _defer_reason(self, key: Key) -> None:
        self._writes.defer(key, lambda: self._publish_reason(key))

    async def _publish_reason(self, key: Key) -> None:
        """Write why a Workload is pending, if it still is and this was not published recently."""
        async with self._sender.locks.hold(key):
            own = self._engine.last.get(key)
            wait = own if isinstance(own, Wait) else self._class_wait(key)
            stored = self._cache.stored_workload(key)
            if wait is None or stored is None or stored.reserved or self._is_current(stored, wait):
                return
            effects = self._outbound.effects(wait, self._clock.now().timestamp())
            announced = wait is own and len(self._writes) <= MAX_WITH_EVENTS
            await self._sender.send(_worth_writing(effects, announced=announced))
            self._remember(key)

    async def _publish_readiness(self, key: Key) -> None:
        async with self._sender.locks.hold(key):
            stored = self._cache.stored_workload(key)
            if stored is not None and not stored.true("Finished") and _lacks_readiness(stored):
                await self._sender.send(awaits_start(stored, self._clock.now().timestamp()).effects)

    def _class_wait(self, key: Key) -> Wait | None:
        """Return the rejection of its class for a Workload; None if it may be tried itself.

        A Workload that was tried has its own decision. For one that its queue or its own faults
        block, the lifecycle publishes the reason.
        """
        queue, known = self._engine.queues.queue_of(key), self._engine.state.workloads.get(key)
        if queue is None or known is None or key in self._engine.last:
            return None
        reason = queue.inadmissible_reason(key)
        if reason is None or self._kept_out(queue.name, known):
            return None
        rejected = self._rejected.get((queue.name, known.scheduling_hash))
        if rejected is not None and rejected.reason == reason:
            return replace(rejected, workload=known)
        return Wait(
            workload=known, cluster_queue=queue.name, reason=reason, why=WaitCause.CLASS_REJECTED
        )

    def _kept_out(self, queue: str, workload: model.Workload) -> bool:
        state = self._engine.state
        admits = state.is_schedulable(queue) and state.admits(queue, workload.key.namespace)
        return not admits or bool(workload.faults)

    def _is_current(self, stored: StoredWorkload, wait: Wait) -> bool:
        """Whether the Workload already shows the reason, with a recent message."""
        conditions = stored.obj.status.conditions
        # Controllers that open preemption gates look for their own condition.
        if wait.why is WaitCause.GATED and not is_true(conditions, "BlockedOnPreemptionGates"):
            return False
        if _reason(stored) != self._reason_of(wait):
            return False
        now_s = self._clock.monotonic()
        published_at = self._published_at.get(stored.key)
        if published_at is None:
            self._remember(stored.key)
        return published_at is None or now_s - published_at < REFRESH_S

    def _remember(self, key: Key) -> None:
        self._published_at[key] = self._clock.monotonic()
        if len(self._published_at) > MAX_REMEMBERED:
            self._published_at.popitem(last=False)

    def _reason_of(self, wait: Wait) -> str:
        return pending_reason(wait.reason, self._engine.policy.gates)

    def _stored(self, key: Key) -> Workload | None:
        stored = self._cache.stored_workload(key)
        return stored.obj if stored is not None else None


class _UnreportedByClass:
    """Workloads without a reason, by scheduling class. Each is returned once."""

    def __init__(self) -> None:
        self._class: dict[Key, ClassKey] = {}
        self._members: dict[ClassKey, set[Key]] = {}

    def add(self, key: Key, at: ClassKey) -> None:
        """Add a Workload, unless it was already added to this class."""
        if self._class.get(key) != at:
            self.discard(key)
            self._class[key] = at
            self._members.setdefault(at, set()).add(key)

    def discard(self, key: Key) -> None:
        """Remove a Workload that has a reason, has quota, or was deleted."""
        at = self._class.pop(key, None)
        members = self._members.get(at) if at is not None else None
        if at is not None and members is not None:
            members.discard(key)
            if not members:
                del self._members[at]

    def take(self, at: ClassKey) -> list[Key]:
        """Return the members of a class that were not returned before, by name."""
        return sorted(self._members.pop(at, ()))


def _reason(stored: StoredWorkload) -> str | None:
    """Return the reason in condition QuotaReserved; None without the condition."""
    found = condition(stored.obj.status.conditions, "QuotaReserved")
    return found.reason if found is not None else None


def _lacks_readiness(stored: StoredWorkload) -> bool:
    job = any(each.controller for each in stored.obj.metadata.owner_references or ())
    return job and condition(stored.obj.status.conditions, "PodsReady") is None


def _worth_writing(effects: list[Effect], *, announced: bool) -> list[Effect]:
    """Return nothing unless the status changes, and the event only if `announced`."""
    statuses: list[Effect] = [each for each in effects if isinstance(each, StatusPatch)]
    return effects if announced and statuses else statuses
