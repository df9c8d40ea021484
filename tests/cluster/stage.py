# SPDX-License-Identifier: Apache-2.0
"""Kuota's controllers on either API server, a fake kubelet, and functions for tests.

Time is real, but tests do not sleep: a test states what it waits for, and continues when the watch
reports it. Tests rely only on behavior that both servers have.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from cluster.ground import Ground, Grounds, Wrap
from cluster.kubelet import Kubelet
from cluster.names import Names
from control.objects import condition, flavor, local_queue, namespace, queue
from hang import HANG_S
from kuota.api.base import Json, Key
from kuota.api.config.load import load
from kuota.api.gates import Gates
from kuota.control.system import System
from kuota.kube import resources as kinds
from kuota.kube.errors import AlreadyExists, NotFound
from kuota.kube.informer import Informer
from kuota.kube.resources import ALL, CORE_EVENTS, JOBS, NAMESPACES, WORKLOADS, Resource, key_of

"""How long a story waits for what must happen."""

CONFIG = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
WATCHED = (
    JOBS,
    WORKLOADS,
    CORE_EVENTS,
    kinds.CLUSTER_QUEUES,
    kinds.LOCAL_QUEUES,
    kinds.COHORTS,
    kinds.RESOURCE_FLAVORS,
    kinds.ADMISSION_CHECKS,
    kinds.LEASES,
)
Scene = Callable[["Stage"], Coroutine[Any, Any, None]]
_BY_KIND = {each.kind: each for each in ALL}
_TAGS = (f"{os.getpid():x}-{number}" for number in itertools.count())


class Stage:
    """What a story is told on. Objects are looked up by the names that the story gave them."""

    def __init__(self, ground: Ground, config: Json | None, gates: dict[str, bool] | None) -> None:
        self.ground = ground
        self.names = Names(next(_TAGS))
        self.client = ground.client()
        self.kubelet = Kubelet(ground.client(), self._stir)
        self._config = load(json.dumps(CONFIG | config)) if config is not None else None
        self._gates = Gates.of(gates or {}, check=False)
        self._seen = {each: Informer[Json](self.client, each) for each in WATCHED}
        self._by_kind = dict(_BY_KIND)
        self._news = asyncio.Event()
        self._applied: list[tuple[Resource, Key]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.systems: list[System] = []

    async def play(self, scene: Scene) -> None:
        await self.apply(namespace("team"))
        await self.kubelet.node()
        self._begin(self.kubelet.run())
        for each in self._seen.values():
            self._begin_informer(each)
        self.start_system()
        try:
            await scene(self)
        finally:
            await self._clear()
            for task in list(self._tasks):
                await self._end(task)

    def start_system(self, wrap: Wrap | None = None) -> asyncio.Task[None]:
        """Start Kueue's controllers, maybe over a worse line. `stop_system` ends the latest."""
        system = System(self.ground.client(wrap), config=self._config, gates=self._gates)
        self.systems.append(system)
        self._running = self._begin(system.run())
        return self._running

    def follow(self, resource: Resource) -> None:
        """Let the story look up and apply objects of another kind."""
        self._by_kind[resource.kind] = resource
        self._seen[resource] = Informer[Json](self.client, resource)
        self._begin_informer(self._seen[resource])

    def require(self, task: asyncio.Task[None]) -> None:
        """Fail the story as soon as a task ends that is to last until its end."""
        self._tasks.append(task)
        task.add_done_callback(lambda _: self._stir())

    async def stop_system(self) -> None:
        await self._end(self._running)

    async def shows(self, expected: Any, ask: Callable[..., Any], *args: Any) -> None:
        """Wait until asking gives what is expected. What cannot be answered yet is not there."""
        found: Any = None
        with suppress(TimeoutError):
            async with asyncio.timeout(HANG_S):
                while True:
                    self._news.clear()
                    try:
                        found = ask(*args)
                    except (AssertionError, LookupError, ValueError, TypeError) as error:
                        found = error
                    if expected == found:
                        return
                    self._check_alive()
                    await self._news.wait()
        assert expected == found, f"{expected!r} never came, but {found!r}\n{self.picture()}"

    async def holds(self, claim: Callable[[], object]) -> None:
        """Wait until a claim is true."""
        await self.shows(True, lambda: bool(claim()))

    def observe(
        self, resource: Resource, observer: Callable[[Json | None, Json | None], None]
    ) -> None:
        """Tell of every change of any object of a kind, the story's or not."""
        self._seen[resource].observe(observer)

    # Looking

    def find(self, resource: Resource, name: str) -> Json | None:
        return self._seen[resource].get(self._key(resource, name))

    def get(self, resource: Resource, name: str) -> Json:
        found = self.find(resource, name)
        assert found is not None, f"no {resource} {name}"
        return found

    def all(self, resource: Resource) -> list[Json]:
        """All objects of a kind, the story's or not."""
        return list(self._seen[resource].values())

    def job(self, name: str) -> Json:
        return self.get(JOBS, name)

    def suspended(self, name: str) -> bool:
        return bool(self.job(name)["spec"].get("suspend"))

    def active(self, name: str) -> int:
        return int((self.job(name).get("status") or {}).get("active", 0))

    def workloads(self, job: str = "") -> list[Json]:
        """The story's Workloads, or those of one of its Jobs."""
        return [
            each
            for each in self._seen[WORKLOADS].values()
            if key_of(each).namespace == self.names.namespace
            if not job
            or any(o["name"] == job for o in each["metadata"].get("ownerReferences") or ())
        ]

    def workload(self, job: str) -> Json:
        (found,) = self.workloads(job)
        return found

    def pods(self, job: str, *phases: str) -> list[Json]:
        """The pods of a Job that are not on their way out."""
        return self.kubelet.of(self._key(JOBS, job), *phases)

    def says(self, job: str, type_: str) -> str:
        """Status and reason of a condition of the job's Workload, "" without it."""
        found = condition(self.workload(job), type_)
        return f"{found['status']}/{found['reason']}" if found else ""

    def active_says(self, resource: Resource, name: str) -> str:
        """Status and reason of a queue's condition Active."""
        found = condition(self.get(resource, name), "Active")
        return f"{found['status']}/{found['reason']}" if found else ""

    def events(self, kind: str, name: str = "", *, namespaced: bool = True) -> list[str]:
        """The reasons of all events about the story's objects of a kind, as they were sent."""
        namespace = self.names.namespace if namespaced else ""
        return [
            each["reason"]
            for each in self._seen[CORE_EVENTS].values()
            if each["involvedObject"].get("kind") == kind
            if each["involvedObject"].get("namespace", "") == namespace
            and (not name or each["involvedObject"]["name"] == name)
        ]

    # Acting

    async def apply(self, *objects: Json) -> None:
        """Create each object, or change it to be so."""
        for plain in objects:
            obj = self.names.placed(plain)
            resource = self._by_kind[obj["kind"]]
            try:
                await self.client.create(resource, obj)
                self._applied.append((resource, key_of(obj)))
            except AlreadyExists:
                await self.client.patch(resource, key_of(obj), obj)

    async def furnish(self, cpu: int = 4) -> None:
        """The plain setting: one queue with so many CPUs."""
        await self.apply(flavor(), queue("cq", cpu), local_queue())

    async def edit(self, resource: Resource, name: str, body: Json) -> None:
        await self.client.patch(resource, self._key(resource, name), self.names.referring(body))

    async def edit_workload(self, job: str, body: Json) -> None:
        await self.edit(WORKLOADS, self.workload(job)["metadata"]["name"], body)

    async def status(self, resource: Resource, name: str, body: Json) -> None:
        made = {"status": self.names.referring(body)}
        await self.client.patch(resource, self._key(resource, name), made, subresource="status")

    async def delete(self, resource: Resource, name: str) -> None:
        background = "Background" if resource == JOBS else ""
        await self.client.delete(resource, self._key(resource, name), propagation=background)

    async def succeed(self, job: str, pods: int = 1) -> None:
        """Let some pods of a Job do their work, once they run."""
        await self.end(job, pods, "Succeeded")

    async def end(self, job: str, pods: int, phase: str) -> None:
        await self.holds(lambda: len(self.pods(job, "Running")) >= pods)
        await self.kubelet.end(self.pods(job, "Running")[:pods], phase)

    async def set_ready(self, job: str, pods: int, ready: bool) -> None:
        await self.holds(lambda: len(self.pods(job, "Running")) >= pods)
        await self.kubelet.set_ready(self.pods(job, "Running")[:pods], ready)

    # Inside

    def picture(self) -> str:
        """What the story's Jobs and Workloads look like, for who has to find out why not."""
        jobs = [e for e in self._seen[JOBS].values() if key_of(e).namespace == self.names.namespace]
        shown = [
            {"kind": each["kind"], "name": key_of(each).name, "status": each.get("status")}
            | {name: each["spec"].get(name) for name in ("suspend", "active", "queueName")}
            for each in [*jobs, *self.workloads()]
        ]
        return json.dumps(shown, indent=1)

    def _key(self, resource: Resource, name: str) -> Key:
        if resource.namespaced:
            return Key(self.names.namespace, name)
        return Key("", self.names.namespace if resource == NAMESPACES else self.names.own(name))

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._stir())
        self._tasks.append(task)
        return task

    def _begin_informer(self, informer: Informer[Json]) -> None:
        informer.observe(lambda old, new: self._stir())
        self._begin(informer.run())

    async def _end(self, task: asyncio.Task[None]) -> None:
        """Cancel a task; one that died before is a fault."""
        self._tasks.remove(task)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if not task.cancelled() and task.exception() is not None:
            raise AssertionError("a part of the system died") from task.exception()

    def _stir(self) -> None:
        self._news.set()

    def _check_alive(self) -> None:
        for task in self._tasks:
            if task.done():
                raise AssertionError("a part of the system died") from task.exception()

    async def _clear(self) -> None:
        """Take away what the story made, so that the next one's controllers do not see it."""
        named = [(WORKLOADS, key_of(each)) for each in self.workloads()]
        for resource, key in [*reversed(self._applied), *named]:
            with suppress(NotFound):
                if resource not in (JOBS, NAMESPACES):
                    nothing = {"metadata": {"finalizers": None}}
                    await self.client.patch(resource, key, nothing)
                background = "Background" if resource == JOBS else ""
                await self.client.delete(resource, key, propagation=background)


class StageRunner:
    """Tells stories on one kind of ground, each on a stage of its own."""

    def __init__(self, grounds: Grounds) -> None:
        self._grounds = grounds

    def __call__(
        self, scene: Scene, config: Json | None = None, gates: dict[str, bool] | None = None
    ) -> None:
        async def run() -> None:
            async with self._grounds() as ground:
                await Stage(ground, config, gates).play(scene)

        asyncio.run(run())
