# SPDX-License-Identifier: Apache-2.0
"""What a controller of this machine knows, its own writes among it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from kuota.api.base import Json, Key
from kuota.kube.resources import CONFIG_MAPS
from kuota.runner.mirror import Mirror
from runner.embedded import LIMIT_S, Cluster, cluster

KEY = Key("team", "a")


def config(data: str = "") -> Json:
    meta = {"name": KEY.name, "namespace": KEY.namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": data}}


def story(work: Callable[[Cluster, Mirror], Coroutine[Any, Any, None]]) -> None:
    async def played() -> None:
        async with cluster() as world:
            mirror = Mirror(world.client, CONFIG_MAPS, "team")
            following = asyncio.create_task(mirror.run())
            async with asyncio.timeout(LIMIT_S):
                await mirror.synced.wait()
                await work(world, mirror)
            following.cancel()

    asyncio.run(played())


def data(mirror: Mirror) -> str | None:
    found = mirror.get(KEY)
    return None if found is None else found["data"]["a"]


def test_an_answer_is_known_at_once_and_an_older_one_changes_nothing() -> None:
    async def work(world: Cluster, mirror: Mirror) -> None:
        first = await world.client.create(CONFIG_MAPS, config("first"))
        second = await world.client.patch(CONFIG_MAPS, KEY, {"data": {"a": "second"}})
        mirror.learn(second)
        mirror.learn(first)
        assert "second" == data(mirror)

    story(work)


def test_what_the_watch_knows_to_be_gone_is_not_brought_back_by_a_late_answer() -> None:
    async def work(world: Cluster, mirror: Mirror) -> None:
        made = await world.client.create(CONFIG_MAPS, config())
        gone = asyncio.Event()
        mirror.observe(lambda old, new: gone.set() if new is None else None)
        await world.client.delete(CONFIG_MAPS, KEY)
        await gone.wait()
        mirror.learn(made)
        assert KEY not in mirror

    story(work)


def test_a_list_from_before_a_write_does_not_undo_it() -> None:
    async def work(world: Cluster, mirror: Mirror) -> None:
        made = await world.client.create(CONFIG_MAPS, config("ours"))
        made["metadata"]["resourceVersion"] = str(int(made["metadata"]["resourceVersion"]) + 1000)
        made["metadata"]["name"] = "later"
        mirror.learn(made)
        await mirror.caught_up()
        assert Key("team", "later") in mirror
        assert KEY in mirror

    story(work)


def test_what_is_put_away_reads_as_before_until_it_changes() -> None:
    async def work(world: Cluster, mirror: Mirror) -> None:
        made = await world.client.create(CONFIG_MAPS, config("kept"))
        mirror.learn(made)
        mirror.put_away(made)
        assert "kept" == data(mirror)
        mirror.learn(await world.client.patch(CONFIG_MAPS, KEY, {"data": {"a": "changed"}}))
        assert "changed" == data(mirror)

    story(work)
