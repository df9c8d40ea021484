# SPDX-License-Identifier: Apache-2.0
"""A fleet in virtual time: a manager and several workers, each with its own API server and system.

Each worker has a fake Job controller. The manager has none: nothing runs there.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from control.fake_api import FakeApi
from control.kubelet import Kubelet
from control.objects import flavor, job, local_queue, namespace, queue
from control.stage import CONFIG, Stage
from control.test_multikueue_clusters import check, cluster, config, secret
from control.test_multikueue_kubeconfig import kubeconfig
from control.virtual import VirtualClock, played
from kuota.api.base import Json, Key
from kuota.api.config.load import load
from kuota.api.config.shapes import Configuration
from kuota.api.gates import Gates
from kuota.control.system import System
from kuota.kube.client import Client, Listing
from kuota.kube.config import Connection
from kuota.kube.decoding import WatchEvent
from kuota.kube.errors import Unreachable
from kuota.kube.requests import PatchBody, Selection
from kuota.kube.resources import JOBS, NAMESPACES, WORKLOADS, Resource

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
CHECK = "elsewhere"


def _config(multi: Json | None) -> Configuration:
    frameworks = {"integrations": {"frameworks": ["batch/job", "pod"]}}
    return load(json.dumps(CONFIG | frameworks | ({"multiKueue": multi} if multi else {})))


class Line(Client):
    """The manager's connection to the API server of a worker, which can be cut."""

    may_write = None

    def __init__(self, api: FakeApi, uid: str) -> None:
        self._api, self._uid = api, uid
        self._cut = False
        self._fall = asyncio.Event()
        self.latency_s = 0.0
        """How long each request takes, except watches."""
        self.breaks = False
        """Whether it is cut when a Job has been created, before the response."""
        self.jobs: Counter[str] = Counter()
        """How often the manager has created each Job."""

    def cut(self) -> None:
        self._cut = True
        self._fall.set()

    def mend(self) -> None:
        self._cut, self._fall = False, asyncio.Event()

    def _check(self) -> None:
        if self._cut:
            raise Unreachable("the line is cut", sent=False)

    async def _pass(self) -> None:
        """Take the time of a request, on a line that is not cut."""
        self._check()
        if self.latency_s:
            await asyncio.sleep(self.latency_s)

    async def fetch(self, path: str, query: dict[str, str] | None = None) -> Any:
        self._check()
        return {}

    async def get(self, resource: Resource, key: Key) -> Json:
        await self._pass()
        if resource == NAMESPACES:
            return {"metadata": {"name": key.name, "uid": self._uid}}
        return await self._api.get(resource, key)

    async def pages(
        self, resource: Resource, which: Selection, *, limit: int | None = None
    ) -> AsyncGenerator[Listing, None]:
        self._check()
        async for page in self._api.pages(resource, which, limit=limit):
            yield page

    async def watch(
        self, resource: Resource, namespace: str | None = None, **options: Any
    ) -> AsyncGenerator[WatchEvent, None]:
        self._check()
        fallen = asyncio.ensure_future(self._fall.wait())
        inner = self._api.watch(resource, namespace, **options)
        try:
            while True:
                following = asyncio.ensure_future(anext(inner))
                await asyncio.wait((following, fallen), return_when=asyncio.FIRST_COMPLETED)
                if fallen.done():
                    following.cancel()
                    raise Unreachable("the line is cut", sent=True)
                yield following.result()
        finally:
            fallen.cancel()

    async def create(self, resource: Resource, obj: Json, **options: Any) -> Json:
        await self._pass()
        created = await self._api.create(resource, obj, **options)
        if resource == JOBS:
            self.jobs[obj["metadata"]["name"]] += 1
            if self.breaks:
                self.cut()
                raise Unreachable("no response", sent=True)
        return created

    async def patch(self, resource: Resource, key: Key, body: PatchBody, **options: Any) -> Json:
        await self._pass()
        return await self._api.patch(resource, key, body, **options)

    async def delete(self, resource: Resource, key: Key, **options: Any) -> Json:
        await self._pass()
        return await self._api.delete(resource, key, **options)

    async def close(self) -> None:
        pass


class Member:
    """A worker cluster: an API server, its controllers, and its pods."""

    def __init__(self, name: str, gates: Gates) -> None:
        self.name, self._gates = name, gates
        self.clock = VirtualClock()
        self.api = FakeApi(self.clock)
        self.line = Line(self.api, name)
        self.kubelet = Kubelet(self.api)
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self, cpu: int) -> None:
        await self.api.apply(namespace("team"), flavor(), queue("cq", cpu), local_queue())
        self._run()

    def _run(self) -> None:
        config = _config(None)
        system = System(self.api, clock=self.clock, config=config, gates=self._gates)
        self.tasks = [asyncio.create_task(each) for each in (system.run(), self.kubelet.run())]

    async def restart(self) -> None:
        """Kill the controllers and the kubelet, and start them again."""
        await self.stop()
        self.kubelet = Kubelet(self.api)
        self._run()

    async def stop(self) -> None:
        for each in self.tasks:
            each.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def jobs(self) -> list[str]:
        return sorted(each["metadata"]["name"] for each in self.api.all(JOBS))

    def running(self) -> list[str]:
        """The names of Jobs with pods."""
        found = self.api.all(JOBS)
        return sorted(
            each["metadata"]["name"] for each in found if (each.get("status") or {}).get("active")
        )

    def copies(self) -> int:
        """How many objects of the manager are there."""
        return len(self.api.all(WORKLOADS)) + len(self.api.all(JOBS))


class Fleet(Stage):
    """The manager, with one queue whose jobs run in the members."""

    def __init__(self, cpus: dict[str, int], multi: Json | None = None, **gates: bool) -> None:
        super().__init__(config=None, gates=gates or None)
        self._config = _config(multi)
        self.members = {name: Member(name, self._gates) for name in cpus}
        self._cpus = cpus

    def start(self) -> None:
        self.system = System(
            self.api,
            config=self._config,
            gates=self._gates,
            clock=self.clock,
            worker_clients=self._client,
        )
        self.running = asyncio.create_task(self.system.run())

    def _client(self, name: str, connection: Connection) -> Client:
        return self.members[name].line

    async def play(self, scene: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        async def furnished(fleet: Any) -> None:
            await self._furnish()
            await scene(fleet)

        await self.api.apply(namespace("kube-system"), namespace("team"))
        for member in self.members.values():
            await member.start(self._cpus[member.name])
        self.start()
        try:
            await furnished(self)
        finally:
            for member in self.members.values():
                await member.stop()
            await self.stop()

    async def _furnish(self, cpu: int = 100) -> None:
        strategy = {"admissionChecks": [{"name": CHECK}]}
        for name in self.members:
            server = {"server": f"https://{name}.example.com:6443"}
            await self.api.apply(secret(f"{name}-secret", kubeconfig(None, server)), cluster(name))
        await self.api.apply(config(*self.members), check(CHECK))
        made = queue("cq", cpu, admissionChecksStrategy=strategy)
        await self.api.apply(flavor(), made, local_queue())
        await self.rest()

    async def submit(
        self, name: str, cpu: str = "1", *, manager: str = MULTIKUEUE, **spec: Any
    ) -> None:
        await self.api.create(JOBS, job(name, cpu, suspend=True, managedBy=manager, **spec))

    def cluster_of(self, name: str) -> str:
        return str((self.workload(name).get("status") or {}).get("clusterName") or "")

    def where(self, name: str) -> list[str]:
        """The members in which a Job has pods."""
        return [each.name for each in self.members.values() if name in each.running()]

    def state(self, name: str) -> str:
        """The state of the check of a Job's Workload."""
        listed = (self.workload(name).get("status") or {}).get("admissionChecks") or [{}]
        return str(listed[0].get("state"))


def told(
    scene: Callable[[Any], Coroutine[Any, Any, None]],
    cpus: dict[str, int] | None = None,
    multi: Json | None = None,
    **gates: bool,
) -> None:
    """Play a scene with these members, by default two."""

    async def story() -> None:
        await Fleet(cpus or {"near": 4, "far": 4}, multi, **gates).play(scene)

    played(story())
