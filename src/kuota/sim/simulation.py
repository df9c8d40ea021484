# SPDX-License-Identifier: Apache-2.0
"""A world without a cluster: makes the engine's decisions true at once, in virtual time.

Admitted workloads hold their quota the moment it is decided; preempted ones leave and queue again
at once. So everything that can happen at one instant happens at that instant, and then it rests.
"""

from __future__ import annotations

from collections import Counter
from typing import assert_never

import msgspec

from kuota.api.base import Key
from kuota.engine.decisions import Admit, Decision, Evict, Migrate, Outcome, Preempt, Wait
from kuota.engine.engine import Engine
from kuota.engine.facts import EngineObject, ObjectDeleted, ObjectStored
from kuota.engine.model import Eviction, Instant, Struct, Workload
from kuota.engine.policy import Policy
from kuota.engine.quiescence import Quiescence
from kuota.engine.reasons import EvictionReason

MOST_PREEMPTIONS = 20
"""How often one workload may be preempted at one instant before that is called going in circles."""


class Settled(Struct):
    """What happened until the world came to rest.

    `restless` are the workloads that keep displacing each other: the policies never agree.
    """

    decisions: tuple[Decision, ...] = ()
    cycles: int = 0
    restless: tuple[Key, ...] = ()


class Simulation:
    """An engine and the objects it knows, at one instant that only `advance` moves."""

    def __init__(self, policy: Policy | None = None, now: Instant = 0.0) -> None:
        self.engine = Engine(policy)
        self.now = now
        self._evictions: Counter[Key] = Counter()

    def store(self, value: EngineObject) -> None:
        """An object is created or changed."""
        self.engine.apply(ObjectStored(value=value), self.now)

    def finish(self, key: Key) -> None:
        """A workload is done and gone; its quota is free."""
        self.engine.apply(ObjectDeleted(kind=Workload, key=key), self.now)

    def advance(self, to: Instant) -> None:
        self.now = to
        self._evictions.clear()

    def settle(self) -> Settled:
        """Run cycles until nothing more happens at this instant."""
        decisions: list[Decision] = []
        quiescence = Quiescence()
        cycles = 0
        while True:
            outcome = self.cycle()
            cycles += bool(outcome.decisions)
            decisions += outcome.decisions
            restless = tuple(k for k, n in self._evictions.items() if n >= MOST_PREEMPTIONS)
            if restless or quiescence.after(outcome):
                return Settled(decisions=tuple(decisions), cycles=cycles, restless=restless)

    def cycle(self) -> Outcome:
        """One cycle, and its decisions made true."""
        outcome = self.engine.cycle(self.now)
        for decision in outcome.decisions:
            self._carry_out(decision)
        return outcome

    def _carry_out(self, decision: Decision) -> None:
        match decision:
            case Admit():
                self.store(admitted(decision, self.now))
                if decision.replaced is not None:
                    self.finish(decision.replaced.key)
            case Preempt():
                for victim in decision.victims:
                    self._evict(victim.workload, EvictionReason.PREEMPTED)
            case Migrate():
                self._evict(decision.sibling, EvictionReason.FLAVOR_MIGRATION)
            case Evict():
                self._evict(decision.workload, decision.reason)
            case Wait():
                pass
            case _:
                assert_never(decision)

    def _evict(self, workload: Workload, reason: EvictionReason) -> None:
        """The pods stop at once: the quota is free and the workload queues again."""
        self._evictions[workload.key] += 1
        newest = self.engine.state.workloads.get(workload.key, workload)
        gone = msgspec.structs.replace(
            newest,
            reservation=None,
            admitted=False,
            evicted=Eviction(reason=reason, at=self.now),
            requeued=True,
        )
        self.store(gone)


def admitted(decision: Admit, now: Instant) -> Workload:
    """The workload as it is once the admission is written; its checks may be still to pass."""
    return msgspec.structs.replace(
        decision.workload,
        reservation=decision.reservation(now),
        admitted=decision.whole,
        evicted=None,
        preempted=None,
    )
