# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from control.objects import job
from control.stage import Stage, told
from control.virtual import VirtualClock, played
from kuota.api.base import Key
from kuota.control.notices import CROWD, STALE_S, TRICKLE_S, Notices, Said
from kuota.kube.resources import WORKLOADS

Story = Callable[[Notices, list[str]], Awaitable[None]]


def _names(notices: Notices, said: list[str], *names: str) -> None:
    async def tell(key: Key) -> None:
        said.append(key.name)

    for name in names:
        notices.want(Key("ns", name), tell)


def _played(story: Story, *, busy: bool = False) -> list[str]:
    async def run() -> list[str]:
        notices, said = Notices(VirtualClock(), lambda: busy), list[str]()
        running = asyncio.create_task(notices.run())
        await story(notices, said)
        running.cancel()
        return said

    return played(run())


def test_who_asked_first_is_told_first_and_once() -> None:
    async def story(notices: Notices, said: list[str]) -> None:
        _names(notices, said, "a", "b", "a")
        await asyncio.sleep(1)

    assert ["a", "b"] == _played(story)


def test_who_waits_no_more_is_not_told() -> None:
    async def story(notices: Notices, said: list[str]) -> None:
        _names(notices, said, "a", "b")
        notices.drop(Key("ns", "a"))
        await asyncio.sleep(1)

    assert ["b"] == _played(story)


def test_nobody_is_told_at_the_end() -> None:
    async def story(notices: Notices, said: list[str]) -> None:
        _names(notices, said, "a")
        notices.close()
        _names(notices, said, "b")
        await asyncio.sleep(1)

    assert [] == _played(story)


def test_while_others_write_only_a_few_are_told() -> None:
    async def story(notices: Notices, said: list[str]) -> None:
        _names(notices, said, *(str(n) for n in range(100)))
        await asyncio.sleep(3.5 * TRICKLE_S)

    assert ["0", "1", "2"] == _played(story, busy=True)


def test_one_who_cannot_be_told_does_not_keep_the_others_from_it() -> None:
    async def story(notices: Notices, said: list[str]) -> None:
        async def fail(key: Key) -> None:
            raise ValueError(key)

        notices.want(Key("ns", "broken"), fail)
        _names(notices, said, "a")
        await asyncio.sleep(1)

    assert ["a"] == _played(story)


def test_a_crowd_is_told_in_few_words() -> None:
    notices = Notices(VirtualClock(), lambda: False)
    _names(notices, [], *(str(n) for n in range(CROWD)))
    assert not notices.crowded
    _names(notices, [], "one more")
    assert notices.crowded


def test_words_get_old() -> None:
    async def run() -> list[bool]:
        said, key = Said(VirtualClock()), Key("ns", "a")
        found = [said.stale(key)]
        await asyncio.sleep(STALE_S)
        found.append(said.stale(key))
        said.note(key)
        return [*found, said.stale(key)]

    assert [False, True, False] == played(run())


def test_the_same_reason_is_not_told_again_and_again() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("runs", "1", parallelism=3, completions=3))
        await stage.rest()
        await stage.api.apply(job("waits", "4"))
        await stage.rest()
        name = stage.workload("waits")["metadata"]["name"]
        before = stage.api.versions(WORKLOADS, name)
        # Each pod that ends leaves less to wait for, and so calls for other words.
        for _ in range(2):
            await stage.kubelet.succeed("runs")
            await stage.rest()
        assert before == stage.api.versions(WORKLOADS, name)
        await stage.kubelet.succeed("runs")
        await stage.rest()
        assert not stage.suspended("waits")

    told(scene)


def test_all_of_a_kind_give_the_reason_of_the_one_that_was_tried() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(*(job(f"j{n}", "6") for n in range(5)))
        await stage.rest()
        words = {stage.condition(f"j{n}", "QuotaReserved")["message"] for n in range(5)}
        assert 1 == len(words)
        # One that is tried later has nothing to add.
        versions = [stage.api.versions(WORKLOADS, e["metadata"]["name"]) for e in _all(stage)]
        await stage.rest(30)
        after = [stage.api.versions(WORKLOADS, e["metadata"]["name"]) for e in _all(stage)]
        assert versions == after

    told(scene)


def _all(stage: Stage) -> list[dict[str, dict[str, str]]]:
    return stage.api.all(WORKLOADS)
