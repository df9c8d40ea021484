# SPDX-License-Identifier: Apache-2.0
"""Simulates a cluster: applies the decisions of the engine immediately, in virtual time.

An admitted workload holds its quota at the moment of the decision. A preempted workload stops and
is requeued immediately. Everything that can happen at one point in time therefore happens before
time advances.
"""

from __future__ import annotations

from collections import Counter
from typing import assert_never

import msgspec

from kuota.api.base import Key
from kuota.engine.decisions import Admit, CycleResult, Decision, Evict, Migrate, Preempt, Wait
from kuota.engine.domains import NodeKnowledge
from kuota.engine.engine import Engine
from kuota.engine.facts import EngineObject, ObjectDeleted, ObjectStored
from kuota.engine.model import Eviction, Instant, Struct, Workload
from kuota.engine.policy import Policy
from kuota.engine.quiescence import Quiescence
from kuota.engine.reasons import EvictionReason

MOST_PREEMPTIONS = 20
"""How often a workload may be preempted at one point in time before this counts as a cycle."""


class Settled(Struct):
    """What happened until no more decisions were made.

    `restless` contains workloads that preempt each other endlessly because their policies conflict.
    """

    decisions: tuple[Decision, ...] = ()
    cycles: int = 0
    restless: tuple[Key, ...] = ()


class Simulation:
    """An engine and its objects at one point in time, which only `advance` changes."""

    def __init__(
        self,
        policy: Policy | None = None,
        now: Instant = 0.0,
        nodes: NodeKnowledge = NodeKnowledge.LISTED,
    ) -> None:
        self.engine = Engine(policy, nodes=nodes)
        self.now = now
        self._evictions: Counter[Key] = Counter()

    def store(self, value: EngineObject) -> None:
        """Create or change an object."""
        self.engine.apply(ObjectStored(value=value), self.now)

    def finish(self, key: Key) -> None:
        """Remove a finished workload and release its quota."""
        self.engine.apply(ObjectDeleted(kind=Workload, key=key), self.now)

    def advance(self, to: Instant) -> None:
        self.now = to
        self._evictions.clear()

    def settle(self) -> Settled:
        """Run cycles until no more decisions are made at this point in time."""
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

    def cycle(self) -> CycleResult:
        """Run one cycle and apply its decisions."""
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
        """Stop the pods immediately: release the quota and requeue the workload."""
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
    """The workload after the admission is written. Admission checks may still be pending."""
    return msgspec.structs.replace(
        decision.workload,
        reservation=decision.reservation(now),
        admitted=decision.admitted,
        evicted=None,
        preempted=None,
    )
