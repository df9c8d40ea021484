# SPDX-License-Identifier: Apache-2.0
"""All controllers together: starts informers, driver and reconcilers, and stops them cleanly."""

from __future__ import annotations

import asyncio

from kuota.api.base import Key
from kuota.api.config.shapes import Configuration
from kuota.api.gates import Gates
from kuota.bridge.lifecycle_view import rules
from kuota.bridge.settings import policy
from kuota.engine.engine import Engine
from kuota.kube.client import Client
from kuota.kube.clock import Clock, SystemClock
from kuota.kube.events import EventRecorder
from kuota.kube.workqueue import WorkQueue, serve

from .driver import Driver
from .effects import Recorder, Sender
from .facts import Facts
from .reconcile_class import ClassReconciler
from .reconcile_job import JobReconciler
from .reconcile_queue import Name, QueueReconciler
from .reconcile_workload import WorkloadReconciler
from .triggers import Triggers
from .world import World, followed

CONTROLLER = "kueue.x-k8s.io/kuota"
"""The name under which events are recorded."""

JOB_WORKERS = 8
WORKLOAD_WORKERS = 8
QUEUE_WORKERS = 2


class System:
    """Kueue's controllers over one client. `run` ends only by being cancelled."""

    def __init__(
        self,
        client: Client,
        *,
        recorder: Recorder | None = None,
        config: Configuration | None = None,
        gates: Gates | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.clock = clock or SystemClock()
        gates = gates or Gates()
        self._events: EventRecorder | None = None
        if recorder is None:
            recorder = self._events = EventRecorder(client, CONTROLLER, clock=self.clock)
        self.engine = Engine(policy(config, gates))
        self.world = World(client, self.clock)
        self.sender = Sender(client, self.world, recorder)
        self.driver = Driver(self.engine, self.world, client, self.sender, self.clock)
        self.rules = rules(config, gates)
        self._workloads: WorkQueue[Key] = WorkQueue(self.clock)
        self._jobs: WorkQueue[Key] = WorkQueue(self.clock)
        self._classes: WorkQueue[Key] = WorkQueue(self.clock)
        self._queues: WorkQueue[Name] = WorkQueue(self.clock)
        self._queue_reconciler = QueueReconciler(self.world, self.engine, self.sender, self.clock)
        self._facts = Facts(self.world, self.driver.tell, recorder, config, gates)
        self._triggers = Triggers(
            self.world, self.engine, self._workloads, self._jobs, self._classes, self._mark
        )

    @property
    def synced(self) -> bool:
        """Whether everything there is was seen at least once."""
        return self.world.synced

    async def run(self) -> None:
        """Watch, decide and write until cancelled."""
        self.driver.told = self._triggers.told
        self.driver.parked = self._triggers.parked
        self._facts.follow()
        self._triggers.follow()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(followed(self.world))
                if self._events is not None:
                    group.create_task(self._events.run())
                await self.world.ready()
                group.create_task(self.driver.run())
                group.create_task(self._sample())
                self._serve(group)
        finally:
            for queue in (self._workloads, self._jobs, self._classes):
                queue.close()
            self._queues.close()

    def _serve(self, group: asyncio.TaskGroup) -> None:
        world, sender, clock = self.world, self.sender, self.clock
        jobs = JobReconciler(world, sender, clock, self.rules)
        workloads = WorkloadReconciler(world, self.engine, sender, clock, self.rules)
        classes = ClassReconciler(world, sender)
        group.create_task(serve(self._jobs, jobs.reconcile, JOB_WORKERS))
        group.create_task(serve(self._workloads, workloads.reconcile, WORKLOAD_WORKERS))
        group.create_task(serve(self._classes, classes.reconcile))
        group.create_task(serve(self._queues, self._queue_reconciler.reconcile, QUEUE_WORKERS))

    async def _sample(self) -> None:
        """Let LocalQueues forget what they used, where that decides who comes first."""
        settings = self.engine.policy.admission_fair_sharing
        if settings is None:
            return
        while True:
            await self.clock.sleep(settings.sampling_s)
            self.engine.sample(self.driver.now())
            self.driver.nudge()

    def _mark(self, name: Name) -> None:
        self._queues.add_after(name, self._queue_reconciler.due_in_s(name))
