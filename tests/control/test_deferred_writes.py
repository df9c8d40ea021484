# SPDX-License-Identifier: Apache-2.0
"""Deferred writes go out in order, one per name, and yield to other writes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from control.virtual import VirtualClock, played
from kuota import failures
from kuota.control.deferred_writes import BUSY_INTERVAL_S, MAX_ATTEMPTS, DeferredWrites, Write
from kuota.kube.errors import ServerError, Unreachable

Story = Callable[[DeferredWrites, list[str]], Awaitable[None]]


def _defer(writes: DeferredWrites, sent: list[str], *names: str) -> None:
    for name in names:
        writes.defer(name, _sending(sent, name))


def _sending(sent: list[str], name: str) -> Write:
    async def write() -> None:
        sent.append(name)

    return write


def _failing(sent: list[str], name: str, times: int) -> Write:
    left = times

    async def write() -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            raise ValueError(name)
        sent.append(name)

    return write


def _played(story: Story, *, busy: bool = False) -> list[str]:
    async def run() -> list[str]:
        writes, sent = DeferredWrites(VirtualClock()), list[str]()
        running = asyncio.create_task(writes.run(lambda: busy))
        await story(writes, sent)
        running.cancel()
        return sent

    return played(run())


def test_the_oldest_is_sent_first_and_each_name_once() -> None:
    async def story(writes: DeferredWrites, sent: list[str]) -> None:
        _defer(writes, sent, "a", "b", "a")
        await asyncio.sleep(1)

    assert ["a", "b"] == _played(story)


def test_a_cancelled_write_is_not_sent() -> None:
    async def story(writes: DeferredWrites, sent: list[str]) -> None:
        _defer(writes, sent, "a", "b")
        writes.cancel("a")
        await asyncio.sleep(1)

    assert ["b"] == _played(story)


def test_nothing_is_sent_after_close() -> None:
    async def story(writes: DeferredWrites, sent: list[str]) -> None:
        _defer(writes, sent, "a")
        writes.close()
        _defer(writes, sent, "b")
        await asyncio.sleep(1)

    assert [] == _played(story)


def test_only_a_few_are_sent_while_other_writes_are_in_flight() -> None:
    async def story(writes: DeferredWrites, sent: list[str]) -> None:
        _defer(writes, sent, *(str(n) for n in range(100)))
        await asyncio.sleep(3.5 * BUSY_INTERVAL_S)

    assert ["0", "1", "2"] == _played(story, busy=True)


def test_a_write_that_fails_is_retried_after_the_others() -> None:
    async def story(writes: DeferredWrites, sent: list[str]) -> None:
        writes.defer("fails once", _failing(sent, "fails once", 1))
        _defer(writes, sent, "a")
        await asyncio.sleep(1)

    assert ["a", "fails once"] == _played(story)


def test_a_write_that_keeps_failing_is_given_up_and_every_failure_counts(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "COUNTS", counted := Counter[str]())

    async def story(writes: DeferredWrites, sent: list[str]) -> None:
        writes.defer("broken", _failing(sent, "broken", 100))
        _defer(writes, sent, "a")
        await asyncio.sleep(100)
        assert 0 == len(writes)
        assert MAX_ATTEMPTS == counted["deferred write"]
        writes.defer("broken", _failing(sent, "broken", MAX_ATTEMPTS - 1))
        await asyncio.sleep(100)

    assert ["a", "broken"] == _played(story)
    given_up = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    expected = f"giving up deferred write broken after {MAX_ATTEMPTS} attempts: broken"
    assert [expected] == given_up


def test_a_write_is_not_given_up_in_an_outage() -> None:
    errors: list[Exception] = [
        *(Unreachable("refused") for _ in range(MAX_ATTEMPTS)),
        *(ServerError(503, "", "unavailable") for _ in range(MAX_ATTEMPTS)),
    ]

    async def story(writes: DeferredWrites, sent: list[str]) -> None:
        async def write() -> None:
            if errors:
                raise errors.pop()
            sent.append("a")

        writes.defer("a", write)
        await asyncio.sleep(600)

    assert ["a"] == _played(story)
