# SPDX-License-Identifier: Apache-2.0
"""The complete runner: the agent of this machine and the Job controllers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from kuota.api.base import Json
from kuota.bridge.jobs.ancestor import Lookup
from kuota.kube.client import Client
from kuota.kube.clock import Clock, steady
from kuota.kube.events import Recorder
from kuota.kube.informer import Informer

from .agent import Agent
from .cgroups import Cgroups
from .cron_controller import CronController
from .devices import Device
from .group_controller import GroupController, group_controllers
from .job_controller import JobController
from .job_rules import ReplacementBackoff
from .nodes import NodePlan
from .pod_worker import PodWorker
from .replica_controller import ReplicaController, replica_controllers
from .settings import RunnerSettings


class Runner:
    """Runs Jobs and pods on this machine while `run` runs. Processes outlive it.

    The caller must run the informers `jobs` and `pods`, and the informers `others` of other job
    kinds by group and kind, which may be shared. `pods` is a `shared_informer`. A Job gets pods
    only while `may_create` allows it. `look_up` finds objects that jobs depend on, such as training
    runtimes.
    """

    def __init__(
        self,
        client: Client,
        jobs: Informer[Json],
        pods: Informer[Json],
        plans: Sequence[NodePlan],
        settings: RunnerSettings,
        *,
        clock: Clock | None = None,
        backoff: ReplacementBackoff | None = None,
        recorder: Recorder | None = None,
        cgroups: Cgroups | None = None,
        may_create: Callable[[Json], bool] = lambda job: True,
        others: Mapping[tuple[str, str], Informer[Json]] | None = None,
        look_up: Lookup = lambda kind, key: None,
    ) -> None:
        when = steady(clock)
        self._agent = Agent(
            client,
            jobs,
            pods,
            plans,
            settings,
            clock=when,
            cgroups=cgroups,
            recorder=recorder,
        )
        self._job_controller = JobController(
            client,
            jobs,
            pods,
            clock=when,
            backoff=backoff,
            recorder=recorder,
            may_create=may_create,
        )
        self._cron_controller = CronController(client, jobs, clock=when, recorder=recorder)
        groups = group_controllers(client, jobs, others or {}, when, recorder, look_up)
        replicas = replica_controllers(client, pods, others or {}, when, recorder)
        self._others: list[GroupController | ReplicaController] = [*groups, *replicas]

    def workers(self) -> list[PodWorker]:
        """The workers of all pods that run here."""
        return self._agent.workers()

    def devices(self) -> list[Device]:
        """The devices of this machine; empty before it runs."""
        return self._agent.devices()

    def worker(self, uid: str) -> PodWorker | None:
        """The worker of the pod with this uid; None if the pod does not run here."""
        return self._agent.worker(uid)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            for part in (self._job_controller, self._cron_controller, self._agent):
                group.create_task(part.run())
            for each in self._others:
                group.create_task(each.run())
