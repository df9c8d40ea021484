# SPDX-License-Identifier: Apache-2.0
"""The loop that joins facts, engine and effects. Only its task runs the engine's cycles.

Facts are applied by whoever learns of them (`apply`), between two cycles and never inside one: all
tasks share one event loop, and a cycle does not await.

Facts wake it. It lets the engine decide until more cycles lead nowhere new, then sleeps until the
next fact or until the engine wants to be asked again. Writes go out while it goes on: the engine
believes its decisions at once, and a write that fails comes back as a fact.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import assert_never

from msgspec.structs import replace

from kuota.api.backoff import Backoff
from kuota.api.base import Key
from kuota.api.workload import Workload
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.effects import Effect, Event, StatusPatch
from kuota.bridge.outbound import Outbound
from kuota.engine.affected import AffectedQueues, ChangeTracker
from kuota.engine.decisions import Admit, Decision, Evict, Migrate, Outcome, Preempt, Wait
from kuota.engine.engine import Engine
from kuota.engine.facts import AdmissionFailed, EvictionFailed, Fact, ObjectDeleted
from kuota.engine.quiescence import Quiescence
from kuota.failures import report, tolerated
from kuota.kube import resources as kinds
from kuota.kube.client import Client
from kuota.kube.clock import Clock, within
from kuota.kube.errors import ApiError, Conflict, KubeError, NotFound

from .effects import Sender
from .pending_reports import PendingReports
from .world import World

MAX_ATTEMPTS = 5
"""How often a write is made anew from the newest object before it is given up."""
MAX_IN_FLIGHT = 64
"""How many decisions may be on their way to the API server at once."""

RETRY_BACKOFF = Backoff(base=100, cap=30_000)
"""Waits after writes that failed, in milliseconds."""

_log = logging.getLogger(__name__)


class Driver:
    """Runs an engine. `told` is called after every fact with what it touched; each of
    `cycle_observers` after every cycle, with the seconds that it took. `reports` publishes why
    Workloads wait.
    """

    def __init__(
        self,
        engine: Engine,
        world: World,
        client: Client,
        sender: Sender,
        clock: Clock,
        reports: PendingReports,
    ) -> None:
        self.engine = engine
        self._tracker = ChangeTracker(engine)
        self.on_affected: Callable[[AffectedQueues], None] = lambda affected: None
        self.cycle_observers: list[Callable[[Outcome, float], None]] = []
        self._world = world
        self._client = client
        self._sender = sender
        self._clock = clock
        self._wake = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None
        self._writes: set[asyncio.Task[None]] = set()
        self._write_slots = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._failed: dict[Key, int] = {}
        self._finished = False
        self._outbound = Outbound(engine.policy.gates, self._stored)
        self._reports = reports
        self._report_decision = tolerated("pending reports", reports.decided)

    def now(self) -> float:
        return self._clock.now().timestamp()

    def busy(self) -> bool:
        """Whether decisions are being written."""
        return bool(self._writes)

    def apply(self, fact: Fact) -> None:
        """Take note of a fact, and decide again soon."""
        affected = self._tracker.apply(fact, self.now())
        if isinstance(fact, ObjectDeleted):
            self._failed.pop(fact.key, None)
        self.on_affected(affected)
        self._wake.set()

    def wake(self) -> None:
        """Decide again soon, although nothing happened but time."""
        self._wake.set()

    async def run(self) -> None:
        """Decide until finished, or cancelled, which lets go of writes that are on their way."""
        async with asyncio.TaskGroup() as self._tasks:
            reports = self._tasks.create_task(self._reports.run(self.busy))
            while not self._finished:
                await self._next_fact()
                await self.settle()
            reports.cancel()

    async def finish(self) -> None:
        """Decide no more, and return when all that was decided is written."""
        self._finished = True
        self._reports.close()
        self._wake.set()
        while self._writes:
            await asyncio.wait(self._writes)

    async def settle(self) -> None:
        """Decide until nothing more comes of it."""
        quiescence = Quiescence()
        while True:
            self._wake.clear()
            began, now = self._clock.monotonic(), self.now()
            outcome = self.engine.cycle(now)
            for failure in outcome.failures:
                report("cycle", failure.error, f"scheduling {failure.key} failed, so it waits")
            took_s = self._clock.monotonic() - began
            for observe in self.cycle_observers:
                observe(outcome, took_s)
            for decision in outcome.decisions:
                self._report_decision(decision)
                if not isinstance(decision, Wait) or decision.workload.reservation is not None:
                    await self._start(decision, now)
            if quiescence.after(outcome) or self._finished:
                return
            # Others get a turn between two cycles: answers and news come in.
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
        task.add_done_callback(self._written)

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writes.discard(task)
        self._write_slots.release()

    async def _carry_out(self, decision: Decision, decided_at: float) -> None:
        """Write what was decided; if that fails, the engine hears of it once that is certain."""
        key, unexpected = decision.workload.key, False
        try:
            if await self._write_locked(decision, decided_at):
                self._failed.pop(key, None)
            return
        except _Outdated as error:
            _log.info("%s of %s came to nothing: %s", type(decision).__name__, key, error)
        except KubeError as error:
            _log.warning("%s of %s failed: %s", type(decision).__name__, key, error)
            if isinstance(decision, Admit) and _refused(error) and not self._reserved(key):
                self._delay_admission(key, error)
                return
        except Exception as error:
            self._report(decision, error)
            unexpected = True
        await self._resync(decision)
        # What may fail again for the same reason is no head of a queue until some time has passed.
        retry_at = self.now() + self._backoff_s(key) if unexpected else None
        for fact in self._undone(decision, retry_at):
            self.apply(fact)

    def _delay_admission(self, key: Key, error: KubeError) -> None:
        """Let others have what a Workload cannot be given, until it is tried again."""
        retry_at = self.now() + self._backoff_s(key)
        self.apply(AdmissionFailed(key=key, retry_at=retry_at))
        note = f"The API server refuses to store the admission: {error}"
        self._sender.record(Event.about(key, "AdmissionRefused", note, warning=True))

    def _report(self, decision: Decision, error: Exception) -> None:
        """Make a bug visible: in the log, as a number, and on the Workload."""
        what, key = type(decision).__name__, decision.workload.key
        report("write", error, f"{what} of {key} failed")
        self._sender.record_internal_error(kinds.WORKLOADS.kind, key, f"Writing {what}", error)

    def _backoff_s(self, key: Key) -> float:
        """How long to wait after one more failure in a row."""
        self._failed[key] = self._failed.get(key, 0) + 1
        return RETRY_BACKOFF.wait(self._failed[key]) / 1000

    async def _resync(self, decision: Decision) -> None:
        """Read, after a pause, what a write that failed has left: maybe only its answer was lost.
        What may have been given away must not be given to another before that is known.
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
                _log.debug("what became of %s is not known yet: %s", key, error)
            except Exception as error:
                report("write", error, f"reading {key} after a failed write failed")

    def _undone(self, decision: Decision, retry_at: float | None) -> list[Fact]:
        """What did not come about, as far as is known now. Others go first before `retry_at`."""
        key = decision.workload.key
        if isinstance(decision, Admit) and not decision.second_pass and self._reserved(key):
            return []
        if isinstance(decision, Evict) and self._leaving(key):
            return []
        return _failures(self._as_of_now(decision), retry_at)

    def _reserved(self, key: Key) -> bool:
        cached = self._world.workload(key)
        return cached is not None and cached.value is not None and cached.value.reserved

    async def _write_locked(self, decision: Decision, decided_at: float) -> bool:
        """One write about a Workload at a time, each made from what the one before it left."""
        async with self._sender.locks.hold(*_touched(decision)):
            return await self._write(decision, decided_at)

    async def _write(self, decision: Decision, decided_at: float) -> bool:
        """Write the decision as it is now, with the time from which on the engine believes it.

        Returns whether there was anything to write.
        """
        for _ in range(MAX_ATTEMPTS):
            self._check(decision)
            decision = self._as_of_now(decision)
            effects = _worth_sending(decision, self._outbound.effects(decision, decided_at))
            try:
                await self._send(decision, effects)
                return bool(effects)
            except Conflict:
                for key in _touched(decision):
                    await self._reread(key)
        raise _Outdated("others keep writing")

    async def _send(self, decision: Decision, effects: list[Effect]) -> None:
        """Send effects in order. An eviction that fails does not prevent the other evictions of a
        preemption; the first failure is raised after all of them were tried.
        """
        failures: list[KubeError] = []
        for part in _by_victim(effects) if isinstance(decision, Preempt) else [effects]:
            try:
                await self._sender.send(part)
            except KubeError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _check(self, decision: Decision) -> None:
        """Whether the decision still speaks of what is there. Raises _Outdated."""
        if not isinstance(decision, Admit) or decision.second_pass:
            return
        cached = self._world.workload(decision.workload.key)
        stored = cached.value if cached is not None else None
        if stored is None or stored.obj.metadata.uid != decision.workload.uid:
            raise _Outdated("the workload is gone")
        waits = not stored.reserved and stored.obj.spec.active is not False
        if not waits or stored.obj.metadata.generation != decision.workload.generation:
            raise _Outdated("the workload has changed")

    def _as_of_now(self, decision: Decision) -> Decision:
        """The decision without evictions that are written already, or have nothing to take."""
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
        cached = self._world.workload(key)
        stored = cached.value if cached is not None else None
        return (
            stored is None
            or not stored.reserved
            or stored.true("Evicted")
            or stored.true("Finished")
        )

    async def _reread(self, key: Key) -> None:
        try:
            self._world.wrote(kinds.WORKLOADS, await self._client.get(kinds.WORKLOADS, key))
        except NotFound:
            raise _Outdated("the workload is gone") from None

    def _stored(self, key: Key) -> Workload | None:
        cached = self._world.workload(key)
        stored: StoredWorkload | None = cached.value if cached is not None else None
        return stored.obj if stored is not None else None


class _Outdated(Exception):
    """What was decided is about something that is no more so."""


def _refused(error: KubeError) -> bool:
    """Whether it is certain that nothing was written: the server looked at it and said no."""
    return isinstance(error, ApiError) and 400 <= error.status < 500


def _touched(decision: Decision) -> list[Key]:
    """The Workloads that a decision is written on."""
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
    """What did not come about."""
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


def _by_victim(effects: list[Effect]) -> list[list[Effect]]:
    """The effects of a preemption, split where the next Workload's status is written."""
    parts: list[list[Effect]] = [[]]
    for each in effects:
        if isinstance(each, StatusPatch) and parts[-1]:
            parts.append([])
        parts[-1].append(each)
    return parts


def _worth_sending(decision: Decision, effects: list[Effect]) -> list[Effect]:
    """Nothing when a preemptor merely goes on waiting: no status changes, so no event either."""
    waits = (isinstance(decision, Preempt) and all(each.leaving for each in decision.victims)) or (
        isinstance(decision, Migrate) and decision.leaving
    )
    changes = any(isinstance(each, StatusPatch) for each in effects)
    return [] if waits and not changes else effects
