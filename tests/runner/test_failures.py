# SPDX-License-Identifier: Apache-2.0
"""After a bug in the runner, no capacity is lost or used twice, and no process is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from control.virtual import VirtualClock, played
from kuota.api.base import Json
from kuota.failures import COUNTS
from kuota.kube.client import Client
from kuota.kube.resources import PODS, Resource
from kuota.runner.binder import Binder
from kuota.runner.processes import Process
from runner.embedded import Cluster, RecordedEvents, cluster
from runner.machine import World, container, gpus, pod, story
from runner.test_binder import here


class FlakyBinding(Client):
    """A client that fails once when a pod is bound, before or after the server has done it."""

    def __init__(self, inner: Client, *, late: bool) -> None:
        vars(self).update(vars(inner))
        self._late = late
        self._bugs = [RuntimeError("a bug")]

    async def create(self, resource: Resource, obj: Json, **more: Any) -> Json:
        bound = more.get("subresource") == "binding"
        if bound and self._bugs and not self._late:
            raise self._bugs.pop()
        answer = await super().create(resource, obj, **more)
        if bound and self._bugs:
            raise self._bugs.pop()
        return answer


@asynccontextmanager
async def binding(world: Cluster, *, late: bool) -> AsyncIterator[Binder]:
    binder = Binder(FlakyBinding(world.client, late=late), VirtualClock(), RecordedEvents())
    running = asyncio.create_task(binder.run())
    binder.set_offers([here(1)])
    try:
        yield binder
    finally:
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("late", [False, True])
def test_a_bug_while_a_pod_is_bound_neither_loses_its_room_nor_gives_it_twice(late: bool) -> None:
    before = COUNTS["binding"]

    async def work() -> None:
        async with cluster() as world, binding(world, late=late) as binder:
            for name in ("first", "second"):
                made = pod(name, container("true", resources=gpus(1)))
                binder.pod_changed(None, await world.client.create(PODS, made))
            await asyncio.sleep(30)
            pods = (await world.client.list(PODS)).items
            nodes = [each["spec"].get("nodeName") for each in pods]
            assert ["here", None] == nodes

    played(work())
    assert COUNTS["binding"] == before + 1


def test_a_process_that_could_not_be_followed_is_taken_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A callback of the event loop fails: nobody would ever hear of the end of the process."""
    before, tells, bugs = COUNTS["pod"], Process._shim_told, [OSError("too many open files")]

    def reported_by_shim(self: Process) -> None:
        if bugs:
            raise bugs.pop()
        tells(self)

    monkeypatch.setattr(Process, "_shim_told", reported_by_shim)

    async def work(world: World) -> None:
        await world.submit(pod("hello", container("exit 0")))
        await world.phase("hello", "Succeeded")

    story(tmp_path, work)
    assert COUNTS["pod"] == before + 1
