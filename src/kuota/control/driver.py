# SPDX-License-Identifier: Apache-2.0
"""The loop that connects facts, engine and effects. Only this task runs the engine's cycles.

Any task may apply a fact (`apply`) between two cycles, but never during one: all tasks share one
event loop, and a cycle does not await.

Facts wake the loop. It runs cycles until they bring nothing new, then sleeps until the next fact or
until the engine is due. Writes are sent concurrently: the engine assumes its decisions at once, and
a failed write is reported to it as a fact.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import assert_never

from msgspec.structs import replace

from kuota.api.backoff import Backoff
from kuota.api.base import Key
from kuota.api.workload import Workload
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.effects import Effect, Event, StatusPatch
from kuota.bridge.outbound import Outbound
from kuota.engine.affected import AffectedQueues, ChangeTracker
from kuota.engine.decisions import Admit, CycleResult, Decision, Evict, Migrate, Preempt, Wait
from kuota.engine.engine import Engine
from kuota.engine.facts import AdmissionFailed, EvictionFailed, Fact, ObjectDeleted
from kuota.engine.quiescence import Quiescence
from kuota.failures import report, tolerated
from kuota.kube import resources as kinds
from kuota.kube.client import Client
from kuota.kube.clock import Clock, within
from kuota.kube.errors import ApiError, Conflict, KubeError, NotFound

from .cluster_cache import ClusterCache
from .effects import EffectSender
from .pending_reports import PendingReports

MAX_ATTEMPTS = 5
"""The number of attempts to write a decision after conflicts."""
MAX_IN_FLIGHT = 32
"""The maximum number of decisions being written concurrently.

Enough to keep a slow API server busy. Deciding further ahead of the writes charges quota for longer
than necessary, and a workload of higher priority that arrives meanwhile has to preempt.
"""

RETRY_BACKOFF = Backoff(base=100, cap=30_000)
"""Delays after failed writes, in milliseconds."""

_log = logging.getLogger(__name__)


class Driver:
    """Runs an engine.

    `on_affected` is called after every fact with the queues that it affected. Each of
    `cycle_observers` is called after every cycle with its duration in seconds. `reports` publishes
    why Workloads wait.
    """

    def __init__(
        self,
        engine: Engine,
        cache: ClusterCache,
        client: Client,
        sender: EffectSender,
        clock: Clock,
        reports: PendingReports,
    ) -> None:
        self.engine = engine
        self._tracker = ChangeTracker(engine)
        self.on_affected: Callable[[AffectedQueues], None] = lambda affected: None
        self.cycle_observers: list[Callable[[CycleResult, float], None]] = []
        self._cache = cache
        self._client = client
        self._sender = sender
        self._clock = clock
        self._wake = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None
        self._writes: set[asyncio.Task[None]] = set()
        self._write_slots = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._failed: dict[Key, int] = {}
        self._finished = False
        self._outbound = Outbound(engine.policy.gates, self._stored, engine.policy.sizes)
        self._reports = reports
        self._report_decision = tolerated("pending reports", reports.decided)

    def now(self) -> float:
        return self._clock.now().timestamp()

    def busy(self) -> bool:
        """Whether decisions are being written."""
        return bool(self._writes)

    def apply(self, fact: Fact) -> None:
        """Apply a fact and schedule a cycle."""
        affected = self._tracker.apply(fact, self.now())
        if isinstance(fact, ObjectDeleted):
            self._failed.pop(fact.key, None)
        self.on_affected(affected)
        self._wake.set()

    def wake(self) -> None:
        """Schedule a cycle without a fact."""
        self._wake.set()

    async def run(self) -> None:
        """Run cycles until finished or cancelled. Cancelling abandons writes in flight."""
        async with asyncio.TaskGroup() as self._tasks:
            reports = self._tasks.create_task(self._reports.run(self.busy))
            while not self._finished:
                await self._next_fact()
                await self.run_cycles()
            reports.cancel()

    async def finish(self) -> None:
        """Stop deciding, and return when all decisions are written."""
        self._finished = True
        self._reports.close()
        self._wake.set()
        while self._writes:
            await asyncio.wait(self._writes)

    async def run_cycles(self) -> None:
        """Run cycles until they bring nothing new."""
        quiescence = Quiescence()
        while True:
            self._wake.clear()
            began, now = self._clock.monotonic(), self.now()
            outcome = self.engine.cycle(now)
            for failure in outcome.failures:
                report(
                    "cycle", failure.error, f"scheduling {failure.key} failed; the workload waits"
                )
            took_s = self._clock.monotonic() - began
            for observe in self.cycle_observers:
                observe(outcome, took_s)
            for decision in outcome.decisions:
                self._report_decision(decision)
                if not isinstance(decision, Wait) or decision.workload.reservation is not None:
                    await self._start(decision, now)
            if quiescence.after(outcome) or self._finished:
                return
            # Let other tasks run between two cycles, so that responses and events are processed.
            await asyncio.sleep(0)

    async def _next_fact(self) -> None:
        due = self.engine.next_wakeup()
        if due is None:
            await self._wake.wait()
            return
        with suppress(TimeoutError):
            await within(self._clock, max(0.0, due - self.now()), self._wake.wait())

    async def _start(self, decision: Decision, now: float) -> None:
        await self._write_slots.acquire()
        assert self._tasks is not None, "decisions are written only while the driver runs"
        task = self._tasks.create_task(self._carry_out(decision, now))
        self._writes.add(task)
        task.add_done_callback(partial(self._written, decision.workload.key))

    def _written(self, key: Key, task: asyncio.Task[None]) -> None:
        self._writes.discard(task)
        self._write_slots.release()
        if self._cache.workload(key) is None:
            # Its deletion was reported before the write failed, and is not reported again.
            self._failed.pop(key, None)

    async def _carry_out(self, decision: Decision, decided_at: float) -> None:
        """Write a decision. If that fails, tell the engine once the result is known."""
        key, unexpected = decision.workload.key, False
        try:
            if await self._write_locked(decision, decided_at):
                self._failed.pop(key, None)
            return
        except _Outdated as error:
            _log.info("%s of %s was not carried out: %s", type(decision).__name__, key, error)
        except KubeError as error:
            _log.warning("%s of %s failed: %s", type(decision).__name__, key, error)
            if isinstance(decision, Admit) and _rejected(error) and not self._reserved(key):
                self._delay_admission(key, error)
                return
        except Exception as error:
            self._report(decision, error)
            unexpected = True
        await self._resync(decision)
        # A failure that may repeat must not make the workload a head again at once.
        retry_at = self.now() + self._backoff_s(key) if unexpected else None
        for fact in self._undone(decision, retry_at):
            self.apply(fact)

    def _delay_admission(self, key: Key, error: KubeError) -> None:
        """Back off, so that other workloads can use the quota that this one cannot be given."""
        retry_at = self.now() + self._backoff_s(key)
        self.apply(AdmissionFailed(key=key, retry_at=retry_at))
        note = f"The API server rejected the admission: {error}"
        self._sender.record(Event.about(key, "AdmissionRefused", note, warning=True))

    def _report(self, decision: Decision, error: Exception) -> None:
        """Report an unexpected error: in the log, in a metric, and on the Workload."""
        what, key = type(decision).__name__, decision.workload.key
        report("write", error, f"{what} of {key} failed")
        self._sender.record_internal_error(kinds.WORKLOADS.kind, key, f"Writing {what}", error)

    def _backoff_s(self, key: Key) -> float:
        """Return the backoff after one more consecutive failure."""
        self._failed[key] = self._failed.get(key, 0) + 1
        return RETRY_BACKOFF.wait(self._failed[key]) / 1000

    async def _resync(self, decision: Decision) -> None:
        """Read the Workload again after a failed write, because only the response may be lost.

        Quota that may have been given away must not be given to another workload before that is
        known.
        """
        key = decision.workload.key
        while not self._finished:
            await self._clock.sleep(self._backoff_s(key))
            try:
                for each in _touched(decision):
                    await self._reread(each)
                return
            except _Outdated:
                self._failed.pop(key, None)
                return
            except KubeError as error:
                _log.debug("the state of %s is still unknown: %s", key, error)
            except Exception as error:
                report("write", error, f"reading {key} after a failed write failed")

    def _undone(self, decision: Decision, retry_at: float | None) -> list[Fact]:
        """Return what was not carried out, as far as is known, with a backoff until `retry_at`."""
        key = decision.workload.key
        if isinstance(decision, Admit) and not decision.second_pass and self._reserved(key):
            return []
        if isinstance(decision, Evict) and self._leaving(key):
            return []
        return _failures(self._as_of_now(decision), retry_at)

    def _reserved(self, key: Key) -> bool:
        cached = self._cache.workload(key)
        return cached is not None and cached.value is not None and cached.value.reserved

    async def _write_locked(self, decision: Decision, decided_at: float) -> bool:
        """Write under the Workload's lock, based on the result of the previous write."""
        async with self._sender.locks.hold(*_touched(decision)):
            return await self._write(decision, decided_at)

    async def _write(self, decision: Decision, decided_at: float) -> bool:
        """Write what is left of the decision, with the time at which the engine made it.

        Returns whether there was anything to write.
        """
        for _ in range(MAX_ATTEMPTS):
            self._check(decision)
            decision = self._as_of_now(decision)
            batches = _worth_sending(decision, self._outbound.batches(decision, decided_at))
            try:
                await self._send(batches)
                return any(batches)
            except Conflict:
                for key in _touched(decision):
                    await self._reread(key)
        raise _Outdated("too many conflicting writes")

    async def _send(self, batches: list[list[Effect]]) -> None:
        """Send batches in order. The first failure is raised after all of them were tried."""
        failures: list[KubeError] = []
        for batch in batches:
            try:
                await self._sender.send(batch)
            except KubeError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _check(self, decision: Decision) -> None:
        """Raise _Outdated if the Workload has changed since the decision."""
        if not isinstance(decision, Admit):
            return
        stored = self._cache.stored_workload(decision.workload.key)
        if stored is None or stored.obj.metadata.uid != decision.workload.uid:
            raise _Outdated("the workload was deleted")
        if decision.second_pass:
            if not _keeps_quota(stored, decision):
                raise _Outdated("the workload lost its quota or another node")
            return
        waits = not stored.reserved and stored.obj.spec.active is not False
        if not waits or stored.obj.metadata.generation != decision.workload.generation:
            raise _Outdated("the workload has changed")

    def _as_of_now(self, decision: Decision) -> Decision:
        """Return the decision without evictions that are already written or no longer needed."""
        if isinstance(decision, Migrate) and self._leaving(decision.sibling.key):
            return replace(decision, leaving=True)
        if not isinstance(decision, Preempt):
            return decision
        victims = tuple(
            replace(each, leaving=True) if self._leaving(each.workload.key) else each
            for each in decision.victims
        )
        return replace(decision, victims=victims)

    def _leaving(self, key: Key) -> bool:
        stored = self._cache.stored_workload(key)
        return (
            stored is None
            or not stored.reserved
            or stored.true("Evicted")
            or stored.true("Finished")
        )

    async def _reread(self, key: Key) -> None:
        try:
            self._cache.wrote(kinds.WORKLOADS, await self._client.get(kinds.WORKLOADS, key))
        except NotFound:
            raise _Outdated("the workload was deleted") from None

    def _stored(self, key: Key) -> Workload | None:
        stored = self._cache.stored_workload(key)
        return stored.obj if stored is not None else None


class _Outdated(Exception):
    """The decision is outdated: the object has changed or no longer exists."""


def _keeps_quota(stored: StoredWorkload, decision: Admit) -> bool:
    """Whether a workload has the same quota and lost the same nodes as when it was placed."""
    failed = tuple(each.name for each in stored.obj.status.unhealthy_nodes or ())
    leaving = stored.true("Evicted") or stored.true("Finished")
    return stored.reserved and not leaving and failed == decision.workload.unhealthy_nodes


def _rejected(error: KubeError) -> bool:
    """Whether the API server rejected the write, so that nothing was stored."""
    return isinstance(error, ApiError) and 400 <= error.status < 500


def _touched(decision: Decision) -> list[Key]:
    """Return the Workloads that a decision writes."""
    found = [decision.workload.key]
    match decision:
        case Admit(replaced=old):
            found += [old.key] if old is not None else []
        case Preempt(victims=victims):
            found += [each.workload.key for each in victims if not each.leaving]
        case Migrate(sibling=sibling, leaving=leaving):
            found += [] if leaving else [sibling.key]
        case Evict() | Wait():
            pass
        case _:
            assert_never(decision)
    return found


def _failures(decision: Decision, retry_at: float | None) -> list[Fact]:
    """Return the facts that report a decision as not carried out."""
    match decision:
        case Admit():
            return [AdmissionFailed(key=decision.workload.key, retry_at=retry_at)]
        case Preempt(victims=victims):
            return [EvictionFailed(key=each.workload.key) for each in victims if not each.leaving]
        case Migrate(sibling=sibling, leaving=leaving):
            return [] if leaving else [EvictionFailed(key=sibling.key)]
        case Evict():
            return [EvictionFailed(key=decision.workload.key)]
        case Wait():
            return []
        case _:
            assert_never(decision)


def _worth_sending(decision: Decision, batches: list[list[Effect]]) -> list[list[Effect]]:
    """Return nothing if a preemptor only keeps waiting: no new status, no event."""
    waits = (isinstance(decision, Preempt) and all(each.leaving for each in decision.victims)) or (
        isinstance(decision, Migrate) and decision.leaving
    )
    changes = any(isinstance(each, StatusPatch) for batch in batches for each in batch)
    return [] if waits and not changes else batches
