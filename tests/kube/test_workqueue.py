# SPDX-License-Identifier: Apache-2.0
"""A key is processed by one worker at a time, is never lost, and is retried with backoff."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube.virtual_time import VirtualClock, run, settled
from kuota.api.backoff import Backoff
from kuota.failures import COUNTS
from kuota.kube.errors import Conflict, Unreachable
from kuota.kube.workqueue import Closed, RetryLater, WorkQueue, serve

Story = Callable[[WorkQueue[str], VirtualClock], Awaitable[None]]


def play(story: Story) -> None:
    clock = VirtualClock()

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue(clock)
        try:
            await story(queue, clock)
        finally:
            queue.close()

    run(clock, main())


def test_a_name_waits_once_however_often_it_is_added() -> None:
    async def story(queue: WorkQueue[str], clock: VirtualClock) -> None:
        for name in ("a", "b", "a", "a"):
            queue.add(name)
        assert 2 == len(queue)
        assert ["a", "b"] == [await queue.get(), await queue.get()]
        assert 0 == len(queue)

    play(story)


def test_a_name_added_while_worked_on_comes_back_when_that_is_done() -> None:
    async def story(queue: WorkQueue[str], clock: VirtualClock) -> None:
        queue.add("a")
        name = await queue.get()
        queue.add("a")
        queue.add("a")
        assert 0 == len(queue)
        queue.done(name)
        assert 1 == len(queue)
        assert "a" == await queue.get()
        queue.done("a")
        assert queue.idle

    play(story)


def test_a_delay_can_be_replaced_or_cancelled() -> None:
    async def story(queue: WorkQueue[str], clock: VirtualClock) -> None:
        for name in ("sooner", "later", "never"):
            queue.add_after(name, 10)
        queue.reschedule("sooner", 5)
        queue.reschedule("later", 20)
        queue.reschedule("never", None)
        found = [(await queue.get(), clock.monotonic()) for _ in range(2)]
        assert [("sooner", 5), ("later", 20)] == found
        assert not queue.scheduled("never")

    play(story)


def test_a_name_that_is_not_due_any_more_has_no_failures() -> None:
    """Nothing would ever forget them if the object is then deleted."""

    async def story(queue: WorkQueue[str], clock: VirtualClock) -> None:
        queue.retry("a")
        queue.reschedule("a", 5)
        assert 1 == queue.failures("a")
        queue.reschedule("a", None)
        assert 0 == queue.failures("a")

    play(story)


def test_rescheduling_keeps_a_name_that_is_ready() -> None:
    async def story(queue: WorkQueue[str], clock: VirtualClock) -> None:
        queue.add("a")
        queue.reschedule("a", None)
        assert queue.scheduled("a")
        assert "a" == await queue.get()

    play(story)


def test_a_delayed_name_comes_at_its_time_and_not_before() -> None:
    async def story(queue: WorkQueue[str], clock: VirtualClock) -> None:
        queue.add_after("late", 20)
        queue.add_after("soon", 10)
        queue.add_after("now", 0)
        found = [(await queue.get(), clock.monotonic()) for _ in range(3)]
        assert [("now", 0), ("soon", 10), ("late", 20)] == found

    play(story)


def test_the_earliest_time_asked_for_wins() -> None:
    async def story(queue: WorkQueue[str], clock: VirtualClock) -> None:
        for delay_s in (10, 5, 20):
            queue.add_after("a", delay_s)
        assert ("a", 5) == (await queue.get(), clock.monotonic())
        queue.done("a")
        await clock.sleep(60)
        assert queue.idle

    play(story)


def test_a_name_added_at_once_is_not_added_again_later() -> None:
    async def story(queue: WorkQueue[str], clock: VirtualClock) -> None:
        queue.add_after("a", 5)
        queue.add("a")
        queue.add_after("a", 7)
        queue.done(await queue.get())
        await clock.sleep(60)
        assert queue.idle

    play(story)


def test_a_delay_asked_for_while_worked_on_is_kept() -> None:
    async def story(queue: WorkQueue[str], clock: VirtualClock) -> None:
        queue.add("a")
        await queue.get()
        queue.add_after("a", 5)
        queue.done("a")
        assert ("a", 5) == (await queue.get(), clock.monotonic())

    play(story)


def test_failures_in_a_row_wait_longer_until_forgotten() -> None:
    async def story(queue: WorkQueue[str], clock: VirtualClock) -> None:
        waits = []
        for _ in range(4):
            before = clock.monotonic()
            queue.retry("a")
            queue.done(await queue.get())
            waits.append(round(clock.monotonic() - before, 6))
        assert [0.005, 0.01, 0.02, 0.04] == waits
        assert 4 == queue.failures("a")
        queue.forget("a")
        assert 0 == queue.failures("a")

    play(story)


def test_closing_wakes_whoever_waits_and_takes_no_more() -> None:
    async def story(queue: WorkQueue[str], clock: VirtualClock) -> None:
        waiting = [asyncio.create_task(queue.get()) for _ in range(3)]
        queue.add_after("later", 5)
        await settled()
        queue.close()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert [Closed] * 3 == [type(each) for each in found]
        queue.add("a")
        queue.add_after("b", 1)
        assert queue.idle
        with pytest.raises(Closed):
            await queue.get()

    play(story)


def test_a_name_promised_to_a_worker_that_leaves_goes_to_another() -> None:
    async def story(queue: WorkQueue[str], clock: VirtualClock) -> None:
        first = asyncio.create_task(queue.get())
        second = asyncio.create_task(queue.get())
        await settled()
        queue.add("a")
        first.cancel()
        assert "a" == await second

    play(story)


def test_a_worker_that_leaves_while_nothing_is_there_is_forgotten() -> None:
    async def story(queue: WorkQueue[str], clock: VirtualClock) -> None:
        first = asyncio.create_task(queue.get())
        await settled()
        first.cancel()
        await settled()
        queue.add("a")
        assert "a" == await queue.get()

    play(story)


def test_alarms_that_no_longer_matter_do_not_pile_up() -> None:
    async def story(queue: WorkQueue[str], clock: VirtualClock) -> None:
        for _ in range(10_000):
            queue.add_after("a", 600)
            queue.add("a")
            queue.done(await queue.get())
        assert len(queue._alarms) < 200

    play(story)


def test_workers_reconcile_look_again_and_retry(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    seen: list[tuple[str, float]] = []
    faults = {
        "stale": Conflict(409, "Conflict", "x"),
        "cut": Unreachable("x"),
        "lacking": RetryLater("x"),
        "bug": KeyError(),
    }

    async def reconcile(name: str) -> float | None:
        seen.append((name, clock.monotonic()))
        if fault := faults.pop(name, None):
            raise fault
        return 10 if name == "again" and clock.monotonic() < 10 else None

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue(clock, Backoff(base=1000, cap=8000))
        working = asyncio.create_task(serve(queue, reconcile, workers=2))
        for name in ("fine", "again", *faults):
            queue.add(name)
        await clock.sleep(30)
        assert queue.idle
        assert 0 == queue.failures("bug")
        queue.close()
        await working

    run(clock, main())
    assert {
        "fine": [0.0],
        "again": [0.0, 10.0],
        "stale": [0.0, 1.0],
        "cut": [0.0, 1.0],
        "lacking": [0.0, 1.0],
        "bug": [0.0, 1.0],
    } == {name: [at for each, at in seen if each == name] for name, _ in seen}
    assert ["WARNING", "WARNING", "ERROR"] == [each.levelname for each in caplog.records]


def test_a_name_that_keeps_failing_unexpectedly_is_reported_as_stuck() -> None:
    clock = VirtualClock()
    observed: list[str] = []
    before = COUNTS["reconcile"]

    async def reconcile(name: str) -> float | None:
        raise KeyError(name) if name == "bug" else Unreachable("x")

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue(clock, Backoff(base=1000, cap=1000))
        stuck = lambda name, error: observed.append(f"{name}: {error!r}")  # noqa: E731
        working = asyncio.create_task(serve(queue, reconcile, stuck=stuck))
        queue.add("bug")
        queue.add("cut")
        await clock.sleep(3.5)
        queue.close()
        await working

    run(clock, main())
    assert ["bug: KeyError('bug')"] * 2 == observed
    assert COUNTS["reconcile"] == before + 4


def test_a_timer_that_fails_ends_the_workers() -> None:
    class Broken(VirtualClock):
        async def sleep(self, seconds: float) -> None:
            raise OSError("no timers left")

    async def reconcile(name: str) -> float | None:
        return None

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue(Broken())
        queue.add_after("a", 5)
        await serve(queue, reconcile, workers=2)

    with pytest.raises(ExceptionGroup) as caught:
        run(VirtualClock(), main())
    assert "timer" in str(caught.value.exceptions[0])


ops = st.lists(
    st.tuples(
        st.sampled_from(["add", "later", "retry", "wait"]),
        st.sampled_from("abc"),
        st.integers(0, 5),
    ),
    max_size=40,
)


@given(ops, st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_no_two_workers_hold_a_name_and_each_addition_is_followed_by_work(
    steps: list[tuple[str, str, int]], workers: int
) -> None:
    clock = VirtualClock()
    holding: Counter[str] = Counter()
    most: list[int] = [0]
    begun: dict[str, float] = {}
    asked: dict[str, float] = {}

    async def reconcile(name: str) -> float | None:
        begun[name] = clock.monotonic()
        holding[name] += 1
        most.append(holding[name])
        await clock.sleep(2)
        holding[name] -= 1
        return None

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue(clock)
        working = asyncio.create_task(serve(queue, reconcile, workers))
        for verb, name, number in steps:
            if verb == "wait":
                await clock.sleep(number)
                continue
            asked[name] = clock.monotonic()
            if verb == "add":
                queue.add(name)
            elif verb == "later":
                queue.add_after(name, number)
            else:
                queue.retry(name)
        await clock.sleep(200)
        assert queue.idle
        queue.close()
        await working

    run(clock, main())
    assert max(most) <= 1
    assert all(begun[name] >= at for name, at in asked.items())
