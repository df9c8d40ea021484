# SPDX-License-Identifier: Apache-2.0
"""Runs a scenario in virtual time: workloads are submitted, admitted or wait, run, and end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import heappop, heappush

from kuota.api.base import Key
from kuota.engine.decisions import Admit, Decision, Evict, Migrate, Preempt
from kuota.engine.engine import Engine
from kuota.engine.model import Instant, Struct
from kuota.engine.policy import Policy
from kuota.view.loans import Loan, loans
from kuota.view.timeline import TimelineEvent, TimelineEventType

from .nodes import knowledge
from .scenario import Scenario, Submission
from .simulation import Settled, Simulation


class Played(Struct):
    """The final state and the events that led to it. Event times are relative to the start.

    `borrowed` contains the loans at each point in time, after all events of that time.
    """

    engine: Engine
    now: Instant
    events: tuple[TimelineEvent, ...] = ()
    borrowed: dict[Instant, list[Loan]] = {}
    restless: tuple[Key, ...] = ()


def played(scenario: Scenario, policy: Policy | None = None) -> Played:
    """Run until nothing more happens, or until workloads preempt each other endlessly."""
    return _Play(scenario, policy).run()


class _Play:
    def __init__(self, scenario: Scenario, policy: Policy | None) -> None:
        self.scenario = scenario
        self.simulation = Simulation(policy, scenario.start, knowledge(scenario.known))
        self.runs_for = {each.workload.key: each.runs_for for each in scenario.submissions}
        self.ends: dict[Key, Instant] = {}
        self.agenda: list[tuple[Instant, int, Key]] = []
        self.coming: dict[Instant, list[Submission]] = {}
        self.events: list[TimelineEvent] = []
        self.borrowed: dict[Instant, list[Loan]] = {}

    def run(self) -> Played:
        for value in self.scenario.known:
            self.simulation.store(value)
        for number, each in enumerate(self.scenario.submissions):
            self.coming.setdefault(each.at, []).append(each)
            heappush(self.agenda, (each.at, number, each.workload.key))
        restless: tuple[Key, ...] = ()
        while self.agenda and not restless:
            restless = self._instant(self.agenda[0][0])
        if not self.borrowed:
            self.simulation.settle()
        return Played(
            engine=self.simulation.engine,
            now=self.simulation.now,
            events=tuple(self.events),
            borrowed=self.borrowed,
            restless=restless,
        )

    def _instant(self, at: Instant) -> tuple[Key, ...]:
        """Process everything at one point in time.

        Returns workloads that preempt each other endlessly.
        """
        simulation = self.simulation
        simulation.advance(self.scenario.start + at)
        if simulation.engine.policy.admission_fair_sharing is not None:
            simulation.engine.sample(simulation.now)
        self._end(at)
        arrived = [each.workload for each in self.coming.pop(at, ())]
        for workload in arrived:
            simulation.store(workload)
            if workload.admitted:
                self._begin(workload.key, at)
        story = simulation.settle()
        for workload in arrived:
            if workload.reservation is None:
                self._arrived(at, workload.key)
        self._store(story, at)
        self.borrowed[at] = loans(simulation.engine.state)
        return self._circle(story, at)

    def _circle(self, story: Settled, at: Instant) -> tuple[Key, ...]:
        """The workloads that are preempted again and again, and their preemptors."""
        again = [
            event.by
            for event in self.events
            if event.at == at and event.workload in story.restless and event.by is not None
        ]
        often = [key for key, times in Counter(again).items() if times > 1]
        return tuple(dict.fromkeys([*story.restless, *often]))

    def _end(self, at: Instant) -> None:
        """Remove workloads that end now, and drop the entries for this point in time."""
        while self.agenda and self.agenda[0][0] == at:
            _, _, key = heappop(self.agenda)
            if self.ends.get(key) == at:
                del self.ends[key]
                self.events.append(
                    TimelineEvent(at=at, what=TimelineEventType.FINISHED, workload=key)
                )
                self.simulation.finish(key)

    def _store(self, story: Settled, at: Instant) -> None:
        for decision in story.decisions:
            for event in _events(decision, at):
                self.events.append(event)
                if event.what is TimelineEventType.ADMITTED:
                    self._begin(event.workload, at)
                elif event.what in (TimelineEventType.PREEMPTED, TimelineEventType.EVICTED):
                    self.ends.pop(event.workload, None)

    def _begin(self, key: Key, at: Instant) -> None:
        runs_for = self.runs_for.get(key)
        if runs_for is not None:
            self.ends[key] = at + runs_for
            heappush(self.agenda, (at + runs_for, len(self.events), key))

    def _arrived(self, at: Instant, key: Key) -> None:
        why = self.simulation.engine.explain(key, self.simulation.now)
        what = TimelineEventType.ARRIVED
        self.events.append(TimelineEvent(at=at, what=what, workload=key, why=why))


def _events(decision: Decision, at: Instant) -> Iterator[TimelineEvent]:
    """The events of a decision for each workload. Waiting is not an event."""
    match decision:
        case Admit(workload=workload, checks=checks):
            passed = all(workload.checks.get(name) == "Ready" for name in checks)
            what = TimelineEventType.ADMITTED if passed else TimelineEventType.RESERVED
            yield TimelineEvent(at=at, what=what, workload=workload.key)
        case Preempt(workload=workload, victims=victims):
            for victim in victims:
                yield TimelineEvent(
                    at=at,
                    what=TimelineEventType.PREEMPTED,
                    workload=victim.workload.key,
                    by=workload.key,
                    reason=victim.reason,
                )
        case Migrate(workload=workload, sibling=sibling):
            yield TimelineEvent(
                at=at, what=TimelineEventType.EVICTED, workload=sibling.key, by=workload.key
            )
        case Evict(workload=workload):
            yield TimelineEvent(at=at, what=TimelineEventType.EVICTED, workload=workload.key)
