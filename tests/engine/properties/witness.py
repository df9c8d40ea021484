# SPDX-License-Identifier: Apache-2.0
"""A simulation, and a plain list of its inputs to check it against."""

from __future__ import annotations

from collections.abc import Iterable

from engine.properties.definition import Definition, kept
from engine.properties.lives import Do, Step
from kuota.api.base import Key
from kuota.engine.engine import Engine
from kuota.engine.facts import EngineObject, Fact, ObjectDeleted, ObjectStored
from kuota.engine.model import ClusterQueue, Cohort, LocalQueue, Workload
from kuota.engine.pending import PendingState
from kuota.engine.policy import Policy
from kuota.sim.simulation import Simulation


class CheckedSimulation:
    def __init__(self, policy: Policy, applied: Iterable[EngineObject] = ()) -> None:
        self.world = Simulation(policy)
        self.restless = False
        self.queues: dict[str, ClusterQueue] = {}
        self.cohorts: dict[str, Cohort] = {}
        self.local_queues: dict[Key, LocalQueue] = {}
        for value in applied:
            self.apply(ObjectStored(value=value))

    @property
    def engine(self) -> Engine:
        return self.world.engine

    def apply(self, fact: Fact) -> None:
        match fact:
            case ObjectStored(value=ClusterQueue() as queue):
                self.queues[queue.name] = queue
            case ObjectStored(value=Cohort() as cohort):
                self.cohorts[cohort.name] = cohort
            case ObjectStored(value=LocalQueue() as local):
                self.local_queues[local.key] = local
            case ObjectDeleted(kind=kind, key=key):
                if kind is ClusterQueue:
                    self.queues.pop(key.name, None)
                elif kind is Cohort:
                    self.cohorts.pop(key.name, None)
                elif kind is LocalQueue:
                    self.local_queues.pop(key, None)
        self.engine.apply(fact, self.world.now)

    def do(self, step: Step) -> None:
        if step is Do.CYCLE:
            self.world.cycle()
        elif step is Do.SETTLE:
            self.restless = bool(self.world.settle().restless)
        elif step is Do.WAIT:
            self.world.advance(self.world.now + 10.0)
        elif not isinstance(step, Do):
            self.apply(step)

    def definition(self) -> Definition:
        """Quota and usage as they ought to be, by what the workloads say they hold."""
        charged = [
            (each.reservation.cluster_queue, each.reservation.usage)
            for each in self.engine.state.workloads.values()
            if each.reservation is not None and each.charged
        ]
        return Definition(self.queues, self.cohorts, charged)

    def check_numbers(self) -> None:
        expected = self.definition()
        assert expected.numbers() == kept(self.engine.state.tree, expected.columns)

    def check_nobody_is_lost(self) -> None:
        """Everyone is charged, or pending in the one right queue, or held out for a reason."""
        for workload in self.engine.state.workloads.values():
            holder, queue = self._holder(workload), self._queue(workload)
            running = self.engine.state.running(workload.key)
            assert (holder or None) == (running.queue if running else None)
            assert ([queue] if queue else []) == self._pending_in(workload.key)

    def check_who_waits_knows_why(self) -> None:
        """To be asked when the world is at rest, not when it only goes in circles."""
        for workload in self.engine.state.workloads.values():
            if self._queue(workload):
                assert self.why(workload), workload

    def why(self, workload: Workload) -> str:
        """Why it waits: it was told, its class was, its queue is shut, or it is not its turn."""
        queue = self.engine.queues[self._queue(workload)]
        if workload.key in self.engine.last:
            return "decided"
        if queue.state(workload.key) is PendingState.INADMISSIBLE:
            if workload.requeued is False or workload.requeue_at is not None:
                return "back-off"
            if not self.engine.state.admits(queue.name, workload.key.namespace):
                return "namespace"
            return "class" if queue.inadmissible_reason(workload.key) else ""
        if not self.engine.state.is_schedulable(queue.name):
            return "queue"
        ahead = next(each for each in queue.ordered() if queue.state(each.key) is PendingState.HEAP)
        return "turn" if ahead.key in self.engine.last else ""

    def _holder(self, workload: Workload) -> str:
        """The queue that has to be charged, if any."""
        if not workload.charged or workload.reservation is None:
            return ""
        name = workload.reservation.cluster_queue
        return name if name in self.queues else ""

    def _queue(self, workload: Workload) -> str:
        """The queue that the workload has to wait in, if any."""
        local = self.local_queues.get(workload.local_queue)
        if not workload.queueable or local is None or local.stop_policy != "None":
            return ""
        return local.cluster_queue if local.cluster_queue in self.queues else ""

    def _pending_in(self, key: Key) -> list[str]:
        return [name for name in self.queues if key in self.engine.queues[name]]
