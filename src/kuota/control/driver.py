# SPDX-License-Identifier: Apache-2.0
"""The loop that joins facts, engine and effects. One task owns the engine.

Facts wake it. It lets the engine decide until more cycles lead nowhere new, then sleeps until the
next fact or until the engine wants to be asked again. Writes go out while it goes on: the engine
believes its decisions at once, and a write that fails comes back as a fact.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import assert_never

from msgspec.structs import replace

from kuota.api.backoff import Backoff
from kuota.api.base import Key
from kuota.api.workload import Workload
from kuota.bridge.draft import Seen
from kuota.bridge.effects import Effect, StatusPatch
from kuota.bridge.outbound import Outbound
from kuota.engine.decisions import Admit, Decision, Evict, Migrate, Preempt, Wait
from kuota.engine.engine import Engine
from kuota.engine.facts import AdmissionFailed, EvictionFailed, Fact
from kuota.engine.reasons import Requeue, WaitReason
from kuota.engine.rest import Rest
from kuota.kube import resources as kinds
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import Conflict, KubeError, NotFound

from .effects import Sender
from .world import World

MOST_TRIES = 5
"""How often a write is made anew from the newest object before it is given up."""
MOST_WRITES = 64
"""How many decisions may be on their way to the API server at once."""

PAUSE = Backoff(base=100, cap=30_000)
"""Waits after writes that failed, in milliseconds."""

MOST_CLASSES = 10_000
"""How many classes are remembered not to fit; saying so twice does no harm."""

_CLASS_FAILED = (Requeue.NO_FIT, Requeue.NO_CANDIDATES)

_log = logging.getLogger(__name__)


class Driver:
    """Owns an engine. `told` is called after every fact, for whoever watches along; `parked` when
    all of a class are found to wait in vain because one of them did not fit.
    """

    def __init__(
        self, engine: Engine, world: World, client: Client, sender: Sender, clock: Clock
    ) -> None:
        self.engine = engine
        self.told: Callable[[Fact], None] = lambda fact: None
        self.parked: Callable[[str, str], None] = lambda cluster_queue, class_id: None
        self._world = world
        self._client = client
        self._sender = sender
        self._clock = clock
        self._wake = asyncio.Event()
        self._writes: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(MOST_WRITES)
        self._locks: dict[Key, asyncio.Lock] = {}
        self._users: Counter[Key] = Counter()
        self._failed: dict[Key, int] = {}
        self._unfit: dict[tuple[str, str], WaitReason] = {}
        self._outbound = Outbound(engine.policy.gates, self._stored)

    def now(self) -> float:
        return self._clock.now().timestamp()

    def tell(self, fact: Fact) -> None:
        """Take note of a fact, and decide again soon."""
        self.engine.apply(fact, self.now())
        self.told(fact)
        self._wake.set()

    def nudge(self) -> None:
        """Decide again soon, although nothing happened but time."""
        self._wake.set()

    async def run(self) -> None:
        """Decide for ever. Only cancelling ends it; writes that are on their way are let go."""
        try:
            while True:
                await self._next_fact()
                await self.settle()
        finally:
            for task in self._writes:
                task.cancel()

    async def settle(self) -> None:
        """Decide until nothing more comes of it."""
        rest = Rest()
        while True:
            self._wake.clear()
            outcome = self.engine.cycle(self.now())
            for decision in outcome.decisions:
                self._note_class(decision)
                await self._start(decision)
            if rest.after(outcome):
                return
            # Others get a turn between two cycles: answers and news come in.
            await asyncio.sleep(0)

    def _note_class(self, decision: Decision) -> None:
        """Say once that a class does not fit, and for which reason, so that all of it can tell."""
        at = decision.cluster_queue, decision.workload.class_id
        if isinstance(decision, Admit):
            self._unfit.pop(at, None)
            return
        if not isinstance(decision, Wait) or decision.requeue not in _CLASS_FAILED or not at[1]:
            return
        if self._unfit.get(at) != decision.reason:
            if len(self._unfit) >= MOST_CLASSES:
                self._unfit.clear()
            self._unfit[at] = decision.reason
            self.parked(*at)

    async def _next_fact(self) -> None:
        due = self.engine.queues.next_wakeup()
        if due is None:
            await self._wake.wait()
            return
        alarm = asyncio.ensure_future(self._clock.sleep(max(0.0, due - self.now())))
        fact = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait((alarm, fact), return_when=asyncio.FIRST_COMPLETED)
        finally:
            alarm.cancel()
            fact.cancel()

    async def _start(self, decision: Decision) -> None:
        await self._room.acquire()
        task = asyncio.get_running_loop().create_task(self._make_true(decision))
        self._writes.add(task)
        task.add_done_callback(self._written)

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writes.discard(task)
        self._room.release()

    async def _make_true(self, decision: Decision) -> None:
        """Write what was decided; if that fails, the engine hears of it after a while."""
        key = decision.workload.key
        try:
            await self._in_turn(key, decision)
            self._failed.pop(key, None)
            return
        except _Overtaken as error:
            _log.info("%s of %s came to nothing: %s", type(decision).__name__, key, error)
            self._failed.pop(key, None)
        except KubeError as error:
            _log.warning("%s of %s failed: %s", type(decision).__name__, key, error)
            self._failed[key] = self._failed.get(key, 0) + 1
            await self._clock.sleep(PAUSE.wait(self._failed[key]) / 1000)
        for fact in _failures(decision):
            self.tell(fact)

    async def _in_turn(self, key: Key, decision: Decision) -> None:
        """One write about a Workload at a time, each made from what the one before it left."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._users[key] += 1
        try:
            async with lock:
                await self._write(decision)
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key], self._locks[key]

    async def _write(self, decision: Decision) -> None:
        for _ in range(MOST_TRIES):
            self._check(decision)
            decision = self._as_of_now(decision)
            effects = _worth_sending(decision, self._outbound.effects(decision, self.now()))
            try:
                await self._sender.send(effects)
                return
            except Conflict:
                for key in _touched(decision):
                    await self._reread(key)
        raise _Overtaken("others keep writing")

    def _check(self, decision: Decision) -> None:
        """Whether the decision still speaks of what is there. Raises _Overtaken."""
        if not isinstance(decision, Admit) or decision.second_pass:
            return
        held = self._world.workload(decision.workload.key)
        seen = held.value if held is not None else None
        if seen is None or seen.obj.metadata.uid != decision.workload.uid:
            raise _Overtaken("the workload is gone")
        waits = not seen.reserved and seen.obj.spec.active is not False
        if not waits or seen.obj.metadata.generation != decision.workload.generation:
            raise _Overtaken("the workload has changed")

    def _as_of_now(self, decision: Decision) -> Decision:
        """The decision without evictions that are written already, or have nothing to take."""
        if not isinstance(decision, Preempt):
            return decision
        victims = tuple(
            replace(each, leaving=True) if self._leaving(each.workload.key) else each
            for each in decision.victims
        )
        return replace(decision, victims=victims)

    def _leaving(self, key: Key) -> bool:
        held = self._world.workload(key)
        seen = held.value if held is not None else None
        return seen is None or not seen.reserved or seen.true("Evicted") or seen.true("Finished")

    async def _reread(self, key: Key) -> None:
        try:
            self._world.wrote(kinds.WORKLOADS, await self._client.get(kinds.WORKLOADS, key))
        except NotFound:
            self._world.removed(kinds.WORKLOADS, key)
            raise _Overtaken("the workload is gone") from None

    def _stored(self, key: Key) -> Workload | None:
        held = self._world.workload(key)
        seen: Seen | None = held.value if held is not None else None
        return seen.obj if seen is not None else None


class _Overtaken(Exception):
    """What was decided is about something that is no more so."""


def _touched(decision: Decision) -> list[Key]:
    """The Workloads that a decision is written on."""
    found = [decision.workload.key]
    match decision:
        case Admit(replaced=old):
            found += [old.key] if old is not None else []
        case Preempt(victims=victims):
            found += [each.workload.key for each in victims if not each.leaving]
        case Migrate(sibling=sibling):
            found.append(sibling.key)
        case Evict() | Wait():
            pass
        case _:
            assert_never(decision)
    return found


def _failures(decision: Decision) -> list[Fact]:
    """What did not come about."""
    match decision:
        case Admit():
            return [AdmissionFailed(key=decision.workload.key)]
        case Preempt(victims=victims):
            return [EvictionFailed(key=each.workload.key) for each in victims if not each.leaving]
        case Migrate(sibling=sibling):
            return [EvictionFailed(key=sibling.key)]
        case Evict():
            return [EvictionFailed(key=decision.workload.key)]
        case Wait():
            return []
        case _:
            assert_never(decision)


def _worth_sending(decision: Decision, effects: list[Effect]) -> list[Effect]:
    """Nothing when a Workload merely goes on waiting: no status changes, so no event either."""
    waits = isinstance(decision, Wait) or (
        isinstance(decision, Preempt) and all(each.leaving for each in decision.victims)
    )
    if waits and not any(isinstance(each, StatusPatch) for each in effects):
        return []
    return effects
