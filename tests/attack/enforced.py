# SPDX-License-Identifier: Apache-2.0
"""A machine in this process, with real processes, quota enforcement, and members as clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from attack.members import TEAMS, job
from hang import HANG_S
from kuota.api.base import Json, Key
from kuota.api.manifest_yaml import load_all
from kuota.bridge.jobs.registry import JOB
from kuota.bridge.lifecycle_view import LifecycleConfig
from kuota.control.system import System
from kuota.kube.client import Client
from kuota.kube.errors import AlreadyExists, NotFound
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    PODS,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Resource,
)
from kuota.runner.cgroups import Cgroups
from kuota.runner.job_rules import ReplacementBackoff
from kuota.runner.pod_informer import shared_informer
from kuota.runner.run_as import RunAsPolicy
from kuota.runner.runner import Runner
from kuota.runner.settings import RunnerSettings
from kuota.server.api import ApiServer
from kuota.server.requests import User
from kuota.server.store import Store
from kuota.up.job_hook import job_hook
from kuota.up.local import LocalTransport, local_client
from kuota.up.quota_enforcement import QuotaEnforcement
from runner.machine import one_node

TEAM, OTHERS = "vision", "speech"
JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
PYTORCH_JOBS = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
TRAIN_JOBS = Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob")
TRAINING_RUNTIMES = Resource(
    "trainer.kubeflow.org", "v1alpha1", "trainingruntimes", "TrainingRuntime"
)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
PATIENT = "trap '' TERM; while ! test -e END; do sleep 0.05; done"
"""Ignores the request to end, and lives until the file END exists."""
_KINDS = {each.kind: each for each in (NAMESPACES, LOCAL_QUEUES, CLUSTER_QUEUES, RESOURCE_FLAVORS)}


class Enforced:
    """A control plane, its admin, and ann, a member of a team with a quota of one GPU."""

    def __init__(self, api: ApiServer, state_dir: Path) -> None:
        self.api = api
        self.quota = 1
        self.store = api.store
        self.admin = local_client(api)
        groups = ("system:authenticated",)
        self.root = Client(LocalTransport(api, User("root", ("system:masters", *groups))))
        self.ann = Client(LocalTransport(api, User("ann", (TEAM, *groups))))
        self._state_dir = state_dir

    def held(self) -> int:
        """The number of devices that processes hold, according to the runner."""
        grants = json.loads((self._state_dir / "devices.json").read_bytes())
        return sum(len(ids) for grant in grants.values() for ids in grant.values())

    async def until(self, claim: Callable[[], Any]) -> None:
        """Return once the claim holds. It is examined after every change."""
        watch = self.store.watch(None)
        async with asyncio.timeout(HANG_S):
            while not claim():
                assert self.held() <= self.quota, "the quota is exceeded"
                await watch.batch()

    async def started(self, name: str) -> None:
        await self.until(lambda: self.status(name).get("ready"))

    async def settle(self) -> None:
        """Return when everything that was requested before has been processed."""
        name = f"settle-{self.store.revision}"
        made = job(name, ["true"], gpus=0)
        made["metadata"]["namespace"] = OTHERS
        await self.admin.create(JOBS, made)
        await self.until(lambda: self.status(name, OTHERS).get("succeeded"))

    async def end(self, name: str = "holder") -> None:
        """Let the processes of a Job end."""
        for pod in self.pods(name):
            self.let_end(pod)

    def let_end(self, pod: Json) -> None:
        """Let the processes of a pod end."""
        folder = self._state_dir / "pods" / pod["metadata"]["uid"] / "root"
        (folder / "END").touch()

    def status(self, name: str, namespace: str = TEAM) -> Json:
        found = self.store.get(JOBS.name, Key(namespace, name)) or {}
        status: Json = found.get("status") or {}
        return status

    def pods(self, name: str = "holder") -> list[Json]:
        label = "batch.kubernetes.io/job-name"
        found = self.store.list(PODS.name, TEAM).items
        return [each for each in found if each["metadata"]["labels"].get(label) == name]

    def workloads(self) -> list[Json]:
        return self.store.list(WORKLOADS.name, TEAM).items


def holder(name: str = "holder", *, queue: str = "main", grace_s: int = 3600) -> Json:
    """A Job that holds a GPU until it is killed."""
    made = job(name, ["sh", "-c", PATIENT], queue=queue)
    made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = grace_s
    return _in_team(made)


def _in_team(made: Json) -> Json:
    made["metadata"]["namespace"] = TEAM
    return made


@asynccontextmanager
async def enforced(
    state_dir: Path, *, gpus: int = 4, max_grace_s: int = 3600, **options: Any
) -> AsyncIterator[Enforced]:
    """Start the machine with the team, and end all processes afterwards."""
    store = Store.open(":memory:")
    quota = QuotaEnforcement(store, LifecycleConfig(), max_grace_s=max_grace_s, **options)
    hooks = (quota.hook, job_hook(store, quota.lifecycle))
    api = ApiServer(store, hooks=hooks, validators=(quota.rules,), pods=quota.deletion)
    await api.start()
    found = Enforced(api, state_dir)
    for team in (TEAM, OTHERS):
        for each in load_all(TEAMS.replace("TEAM", team)):
            with suppress(AlreadyExists):
                await found.admin.create(_KINDS[each["kind"]], each)
    system = System(found.admin, lifecycle=quota.lifecycle, occupied=quota.occupied)
    quota.follow(system)
    runner = Runner(
        found.admin,
        system.cache.jobs[JOB.group_kind],
        shared_informer(system.cache.pods),
        one_node(gpus),
        RunnerSettings(
            state_dir=str(state_dir),
            run_as=RunAsPolicy(uid=1000),
            max_grace_s=max_grace_s,
        ),
        backoff=ReplacementBackoff(first_s=0.05),
        cgroups=Cgroups(refusal="there is no cgroup v2 in tests"),
        may_create=quota.may_create,
        others=system.cache.jobs,
        look_up=system.cache.find,
    )
    tasks = [asyncio.create_task(each.run()) for each in (runner, system, quota)]
    (state_dir / "devices.json").write_text("{}")
    try:
        yield found
    finally:
        # Owners first: their controllers would create the Jobs again.
        for kind in (TRAIN_JOBS, JOB_SETS, PYTORCH_JOBS, DEPLOYMENTS, STATEFUL_SETS, JOBS):
            for each in found.store.list(kind.name).items:
                key = Key(each["metadata"]["namespace"], each["metadata"]["name"])
                with suppress(NotFound):
                    await found.admin.delete(kind, key, propagation="Background")
        for each in found.store.list(PODS.name).items:
            key = Key(each["metadata"]["namespace"], each["metadata"]["name"])
            with suppress(NotFound):
                await found.admin.delete(PODS, key, grace_s=0)
        await found.until(lambda: not found.store.list(PODS.name).bodies)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await api.close()
        store.close()
