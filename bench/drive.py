# SPDX-License-Identifier: Apache-2.0
"""Drives an engine through a shape in virtual time, and measures what that costs."""

from __future__ import annotations

import heapq
import resource
from time import process_time

from kuota.api.base import Key
from kuota.engine.decisions import Admit, Preempt
from kuota.engine.model import Instant, Struct, Workload
from kuota.memory import calm_collector
from kuota.sim.simulation import Simulation

from .shapes import NAMESPACE, Kind, Shape, furnish, submissions, workload


class Cost(Struct):
    """What a run took. Times are CPU seconds, memory is the peak of the whole process."""

    workloads: int
    admissions: int
    preemptions: int
    cycles: int
    cpu_s: float
    memory_mib: float

    @property
    def rate(self) -> float:
        """Workloads admitted and finished per CPU second."""
        return self.workloads / self.cpu_s

    @property
    def per_thousand_s(self) -> float:
        return self.cpu_s / self.workloads * 1000


def drive(shape: Shape) -> Cost:
    """Submit every workload at its time, finish what was admitted after its run time."""
    world = Simulation()
    furnish(world, shape)
    events: list[tuple[Instant, int, Workload | Key, float]] = [
        (at, number, work, runs) for number, (at, work, runs) in enumerate(submissions(shape))
    ]
    total = len(events)
    calm_collector()
    begin = process_time()
    tally = _play(world, events)
    cpu_s = process_time() - begin
    if tally.finished != total:
        raise RuntimeError(f"{total - tally.finished} of {total} workloads never finished")
    return Cost(
        workloads=total,
        admissions=tally.admissions,
        preemptions=tally.preemptions,
        cycles=tally.cycles,
        cpu_s=cpu_s,
        memory_mib=_peak_mib(),
    )


class _Tally:
    def __init__(self) -> None:
        self.finished = self.admissions = self.preemptions = self.cycles = 0


def _play(world: Simulation, events: list[tuple[Instant, int, Workload | Key, float]]) -> _Tally:
    heapq.heapify(events)
    tally = _Tally()
    runs_s: dict[Key, float] = {}
    latest: dict[Key, float] = {}
    number = len(events)
    while events:
        now = events[0][0]
        world.advance(now)
        while events and events[0][0] == now:
            _, _, what, value = heapq.heappop(events)
            if isinstance(what, Workload):
                runs_s[what.key] = value
                world.store(what)
            elif latest.get(what) == value:  # not preempted since
                world.finish(what)
                tally.finished += 1
        story = world.settle()
        tally.cycles += story.cycles
        for decision in story.decisions:
            if isinstance(decision, Admit):
                number += 1
                tally.admissions += 1
                key = decision.workload.key
                latest[key] = float(number)
                heapq.heappush(events, (now + runs_s[key], number, key, float(number)))
            elif isinstance(decision, Preempt):
                tally.preemptions += len(decision.victims)
                for victim in decision.victims:
                    latest.pop(victim.workload.key, None)
    return tally


def behind_blocked(blocked: int, distinct: bool) -> float:
    """CPU milliseconds per admission of small workloads, each freeing its room, in one queue
    where `blocked` larger ones of higher priority wait that cannot be had."""
    world = Simulation()
    one = Shape(
        name="one",
        cohorts=1,
        queues=1,
        kinds=(Kind(name="x", count=0, every_ms=0, runs_ms=0, priority=0, cpu=0),),
    )
    furnish(world, one)
    queue = "queue-0-0"
    fixed = workload("fixed", queue, 10_000, 900, 0.0, "fixed", "fixed")
    world.store(fixed)
    world.settle()
    for i in range(blocked):
        cpu = 15_000 + (i if distinct else 0)
        kind = f"blocked-{cpu}"
        world.store(workload(f"blocked-{i}", queue, cpu, 500, 0.0, f"{i:09}", kind))
    world.settle()
    rounds = 50
    begin = process_time()
    for i in range(rounds):
        world.advance(float(i + 1))
        name = f"fits-{i}"
        world.store(workload(name, queue, 1000, 1, world.now, name, "fits"))
        story = world.settle()
        if not any(isinstance(each, Admit) for each in story.decisions):
            raise RuntimeError("a workload that fits was not admitted")
        world.finish(Key(NAMESPACE, name))
        world.settle()
    return (process_time() - begin) / rounds * 1000


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
