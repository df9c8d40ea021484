# SPDX-License-Identifier: Apache-2.0
"""Only the leader writes, only while it holds the Lease, and never after a stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kube.tiny_server import TinyServer
from kube.virtual_time import VirtualClock, run
from kuota.api.config.defaults import default_configuration
from kuota.api.config.shapes import ClientConnection, LeaderElection
from kuota.controller.controller import allowed
from kuota.controller.leadership import Leadership, LeadershipLost, leadership
from kuota.kube.client import Client
from kuota.kube.errors import WritesSuspended
from kuota.kube.resources import PODS

Story = Callable[[], Awaitable[None]]
POD = {"metadata": {"namespace": "team", "name": "p"}}


class Process:
    """One candidate, and a client that writes in its name."""

    def __init__(self, server: TinyServer, clock: VirtualClock) -> None:
        self.lost_at: list[float] = []
        wanted = default_configuration().leader_election or LeaderElection()
        self.leadership = leadership(
            Client(server, clock=clock),
            wanted,
            "kueue-system",
            on_lost=lambda: self.lost_at.append(clock.monotonic()),
            clock=clock,
        )
        self.client = Client(server, clock=clock, may_write=self.leadership.may_write)


def play(clock: VirtualClock, story: Story) -> None:
    async def main() -> None:
        await story()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    run(clock, main())


def test_nothing_is_written_before_the_election_is_won() -> None:
    clock, server = VirtualClock(), TinyServer()
    one, two = Process(server, clock), Process(server, clock)

    async def story() -> None:
        tasks = [asyncio.ensure_future(each.leadership.run()) for each in (one, two)]
        await one.leadership.leading()
        await one.client.create(PODS, POD)
        with pytest.raises(WritesSuspended):
            await two.client.create(PODS, POD)
        for each in tasks:
            each.cancel()

    play(clock, story)


@pytest.mark.parametrize("fault", ["down", "hang"])
def test_a_leader_that_cannot_renew_writes_nothing_more_and_says_so(fault: str) -> None:
    clock, server = VirtualClock(), TinyServer()
    one = Process(server, clock)

    async def story() -> None:
        running = asyncio.ensure_future(one.leadership.run())
        await one.leadership.leading()
        setattr(server, fault, True)
        await asyncio.wait((running,))
        assert isinstance(running.exception(), LeadershipLost)
        assert 1 == len(one.lost_at)
        assert one.lost_at[0] <= 12.0
        setattr(server, fault, False)
        with pytest.raises(WritesSuspended):
            await one.client.create(PODS, POD)

    play(clock, story)


def test_after_a_release_another_leads_within_one_retry() -> None:
    clock, server = VirtualClock(), TinyServer()
    one, two = Process(server, clock), Process(server, clock)

    async def story() -> None:
        first = asyncio.ensure_future(one.leadership.run())
        await one.leadership.leading()
        second = asyncio.ensure_future(two.leadership.run())
        await clock.sleep(5)
        first.cancel()
        await one.leadership.release()
        assert not one.leadership.may_write()
        began = clock.monotonic()
        await two.leadership.leading()
        assert clock.monotonic() - began <= 2
        second.cancel()

    play(clock, story)


def test_a_release_does_not_wait_for_a_server_that_hangs() -> None:
    clock, server = VirtualClock(), TinyServer()
    one = Process(server, clock)

    async def story() -> None:
        running = asyncio.ensure_future(one.leadership.run())
        await one.leadership.leading()
        running.cancel()
        server.hang = True
        began = clock.monotonic()
        await one.leadership.release()
        assert clock.monotonic() - began < 0.5

    play(clock, story)


def test_who_stands_alone_leads_until_closed() -> None:
    async def story() -> None:
        alone = Leadership()
        await alone.run()
        await alone.leading()
        assert alone.may_write()
        alone.close()
        assert not alone.may_write()

    play(VirtualClock(), story)


def test_a_negative_rate_is_no_limit_and_none_is_that_of_client_go() -> None:
    clock = VirtualClock()
    assert allowed(ClientConnection(qps=-1, burst=1), clock) is None
    slow = allowed(ClientConnection(qps=0, burst=0), clock)
    assert slow is not None

    async def story() -> None:
        for _ in range(11):
            await slow.take("pods")
        assert 0.2 == pytest.approx(clock.monotonic())

    play(clock, story)
