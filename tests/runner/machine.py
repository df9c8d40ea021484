# SPDX-License-Identifier: Apache-2.0
"""One machine: embedded server, Job controller and runner, with real processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hang import HANG_S
from kuota.api.base import Json, Key
from kuota.kube.clock import SystemClock
from kuota.kube.errors import NotFound
from kuota.kube.informer import Informer
from kuota.kube.resources import JOBS, PODS, key_of
from kuota.runner.cgroups import Cgroups
from kuota.runner.inventory import Machine, pretended
from kuota.runner.job_rules import ReplacementBackoff
from kuota.runner.logs import LogQuery, container_log
from kuota.runner.nodes import NodePlan, this_machine
from kuota.runner.pod_home import PodHome
from kuota.runner.pod_steps import CrashBackoff
from kuota.runner.run_as import RunAsPolicy
from kuota.runner.runner import Runner
from kuota.runner.settings import RunnerSettings
from runner.embedded import Cluster, cluster
from runner.pods import runner_pods

GI = 1 << 30


def one_node(gpus: int = 0) -> list[NodePlan]:
    machine = Machine(cpu_milli=64_000, memory_bytes=64 * GI, disk_bytes=GI, gpus=pretended(gpus))
    return [this_machine("here", machine)]


class JumpingClock(SystemClock):
    """The system clock. Set `skew_s` to let its wall time jump."""

    skew_s = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.skew_s)


class World(Cluster):
    """What a story works with. `runner` is the one that runs now."""

    def __init__(
        self, inner: Cluster, state_dir: Path, plans: list[NodePlan], run_as: RunAsPolicy
    ) -> None:
        super().__init__(inner.client)
        self.state_dir = state_dir
        self.plans = plans
        self.run_as = run_as
        self.clock = JumpingClock()
        self.start()

    def start(self) -> None:
        """Start a runner, after an earlier one or not."""
        settings = RunnerSettings(
            state_dir=str(self.state_dir),
            run_as=self.run_as,
            crash_backoff=CrashBackoff(first_s=0.05),
        )
        jobs, pods = Informer[Json](self.client, JOBS), runner_pods(self.client, self.clock)
        self.runner = Runner(
            self.client,
            jobs,
            pods,
            self.plans,
            settings,
            clock=self.clock,
            backoff=ReplacementBackoff(first_s=0.05),
            cgroups=Cgroups(refusal="there is no cgroup v2 in tests"),
        )
        self._tasks = [asyncio.create_task(each.run()) for each in (self.runner, jobs, pods)]

    async def stop(self) -> None:
        """Stop it; processes go on."""
        for each in self._tasks:
            each.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if not isinstance(result, asyncio.CancelledError):
                raise AssertionError("the runner ended by itself") from result

    def server_of_shims(self) -> int:
        """The process that forks shims, 0 when there is none."""
        shared = getattr(self.runner._agent, "_shared", None)
        return shared.shims._server if shared else 0

    async def end_all(self) -> None:
        """Delete everything, so that no process outlives its test."""
        for obj in (await self.client.list(JOBS)).items:
            await self.client.delete(JOBS, key_of(obj), propagation="Background")
        for obj in (await self.client.list(PODS)).items:
            with suppress(NotFound):
                await self.client.delete(PODS, key_of(obj), grace_s=1)
        async with asyncio.timeout(HANG_S):
            while any(self.state_dir.glob("pods/*")):
                await asyncio.sleep(0.01)

    async def log(self, pod: str, container: str = "main", **query: Any) -> str:
        previous = query.pop("previous", False)
        wanted = LogQuery(**query)
        text = b""
        home = await self.home(pod)
        async with aclosing(container_log(home, container, wanted, previous=previous)) as pieces:
            async for piece in pieces:
                text += piece
        return text.decode()

    async def home(self, pod: str) -> PodHome:
        uid = (await self.client.get(PODS, Key("team", pod)))["metadata"]["uid"]
        return PodHome(str(self.state_dir / "pods"), uid)

    async def line(self, pod: str, text: str) -> None:
        """Return once the pod has written the text."""
        pieces = container_log(await self.home(pod), "main", LogQuery(follow=True))
        seen = b""
        async with asyncio.timeout(HANG_S), aclosing(pieces) as some:
            async for piece in some:
                seen += piece
                if text.encode() in seen:
                    return
        raise AssertionError(f"{pod} ended without {text!r}: {seen!r}")

    async def phase(self, name: str, phase: str) -> Json:
        return await self.until(PODS, name, lambda obj: obj["status"].get("phase") == phase)

    async def submit(self, obj: Json) -> Json:
        return await self.client.create(PODS if obj["kind"] == "Pod" else JOBS, obj)


UNPRIVILEGED = RunAsPolicy(uid=1000)
"""The runner behaves as if it were not root: no process changes its user."""


@asynccontextmanager
async def world(
    state_dir: Path, plans: list[NodePlan] | None = None, run_as: RunAsPolicy = UNPRIVILEGED
) -> AsyncIterator[World]:
    async with cluster() as inner:
        found = World(inner, state_dir, plans or one_node(), run_as)
        try:
            yield found
        finally:
            try:
                await found.end_all()
            finally:
                await found.stop()


def story(
    state_dir: Path,
    work: Callable[[World], Coroutine[Any, Any, None]],
    plans: list[NodePlan] | None = None,
    run_as: RunAsPolicy = UNPRIVILEGED,
) -> None:
    async def played() -> None:
        async with world(state_dir, plans, run_as) as found:
            await work(found)

    asyncio.run(played())


def container(script: str, name: str = "main", **more: Any) -> Json:
    return {"name": name, "image": "busybox", "command": ["sh", "-c", script], **more}


def pod(name: str, *containers: Json, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"containers": list(containers), "restartPolicy": "Never", **spec},
    }


def job(name: str, script: str, *, resources: Json | None = None, **spec: Any) -> Json:
    only = container(script, resources=resources or {})
    template = {"spec": {"restartPolicy": "Never", "containers": [only]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"template": template, **spec},
    }


def gpus(count: int) -> Json:
    return {"limits": {"nvidia.com/gpu": str(count)}}
