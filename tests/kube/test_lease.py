# SPDX-License-Identifier: Apache-2.0
"""At most one leader; a leader that cannot renew stops before another can take over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import timedelta

import pytest

from kube.tiny_server import TinyServer
from kube.virtual_time import VirtualClock, run
from kuota.api.base import Json, Key
from kuota.kube.client import Client
from kuota.kube.lease import Election, Timing, unique_identity
from kuota.kube.requests import HttpRequest, HttpResponse

KEY = Key("kueue-system", "lock")
PATH = "/apis/coordination.k8s.io/v1/namespaces/kueue-system/leases/lock"


class Candidate:
    """One process that leads when it can and gives up when it must."""

    def __init__(self, server: TinyServer, clock: VirtualClock, name: str) -> None:
        self.clock = clock
        self.lost_at: list[float] = []
        self.led_at: list[float] = []
        client = Client(server, clock=clock)
        self.election = Election(client, KEY, name, clock=clock, on_lost=self._lose)

    def _lose(self) -> None:
        self.lost_at.append(self.clock.monotonic())

    async def stand(self) -> None:
        await self.election.acquire()
        self.led_at.append(self.clock.monotonic())
        await self.election.hold()


def play(clock: VirtualClock, story: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await story()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    run(clock, main())


def _spec(server: TinyServer) -> Json:
    spec: Json = server.objects[PATH]["spec"]
    return spec


def test_the_first_candidate_makes_the_lease_and_leads() -> None:
    clock, server = VirtualClock(), TinyServer()
    one = Candidate(server, clock, "one")

    async def story() -> None:
        standing = asyncio.create_task(one.stand())
        await clock.sleep(21)
        assert one.election.held()
        assert "one" == one.election.holder
        standing.cancel()

    play(clock, story)
    assert {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T12:00:00.000000Z",
        "renewTime": "2026-01-01T12:00:20.000000Z",
        "leaseTransitions": 0,
    } == _spec(server)
    assert 1 + 1 + 10 == len(server.requests)


def test_a_second_candidate_waits_until_the_first_releases() -> None:
    clock, server = VirtualClock(), TinyServer()
    one, two = Candidate(server, clock, "one"), Candidate(server, clock, "two")

    async def story() -> None:
        first = asyncio.create_task(one.stand())
        await clock.sleep(1)
        second = asyncio.create_task(two.stand())
        await clock.sleep(60)
        assert (True, False) == (one.election.held(), two.election.held())
        first.cancel()
        await one.election.release()
        assert not one.election.held()
        await clock.sleep(2)
        assert two.election.held()
        second.cancel()

    play(clock, story)
    assert ("two", 1) == (_spec(server)["holderIdentity"], _spec(server)["leaseTransitions"])


def test_a_dead_holder_is_replaced_one_lease_after_its_last_sign_of_life() -> None:
    clock, server = VirtualClock(), TinyServer()
    one, two = Candidate(server, clock, "one"), Candidate(server, clock, "two")

    async def story() -> None:
        first = asyncio.create_task(one.stand())
        second = asyncio.create_task(two.stand())
        await clock.sleep(30.5)
        first.cancel()
        await clock.sleep(30)
        second.cancel()

    play(clock, story)
    assert 45 <= two.led_at[0] <= 48


@pytest.mark.parametrize("skew_s", [-3600, 3600])
def test_wall_clocks_that_differ_do_not_matter(skew_s: int) -> None:
    clock, server = VirtualClock(), TinyServer()
    one, two = Candidate(server, clock, "one"), Candidate(server, clock, "two")

    async def story() -> None:
        first = asyncio.create_task(one.stand())
        await clock.sleep(5)
        clock.skew = timedelta(seconds=skew_s)
        second = asyncio.create_task(two.stand())
        await clock.sleep(60)
        assert (True, False) == (one.election.held(), two.election.held())
        first.cancel()
        second.cancel()

    play(clock, story)


@pytest.mark.parametrize("fault", ["down", "hang"])
def test_a_leader_that_cannot_renew_stops_before_the_lease_is_free(fault: str) -> None:
    clock, server = VirtualClock(), TinyServer()
    one = Candidate(server, clock, "one")

    async def story() -> None:
        standing = asyncio.create_task(one.stand())
        await clock.sleep(5)
        setattr(server, fault, True)
        await clock.sleep(8.9)
        assert one.election.held()
        await clock.sleep(0.2)
        assert not one.election.held()
        assert standing.done()

    play(clock, story)
    assert [14] == one.lost_at


def test_a_stuck_process_does_not_lead_even_before_it_notices() -> None:
    clock, server = VirtualClock(), TinyServer()
    one = Candidate(server, clock, "one")

    async def story() -> None:
        standing = asyncio.create_task(one.stand())
        await clock.sleep(1)
        clock.pass_by(30)
        assert not one.election.held()
        standing.cancel()

    play(clock, story)


def test_a_leader_that_sees_another_holder_stops_at_once() -> None:
    clock, server = VirtualClock(), TinyServer()
    one = Candidate(server, clock, "one")

    async def story() -> None:
        standing = asyncio.create_task(one.stand())
        await clock.sleep(5)
        server.put(PATH, spec={**_spec(server), "holderIdentity": "two"})
        await clock.sleep(1.1)
        assert standing.done()

    play(clock, story)
    assert [6] == one.lost_at
    assert "two" == _spec(server)["holderIdentity"]


def test_a_lease_that_somebody_removed_is_made_again() -> None:
    clock, server = VirtualClock(), TinyServer()
    one = Candidate(server, clock, "one")

    async def story() -> None:
        standing = asyncio.create_task(one.stand())
        await clock.sleep(5)
        server.remove(PATH)
        await clock.sleep(20)
        assert one.election.held()
        standing.cancel()

    play(clock, story)
    assert "one" == _spec(server)["holderIdentity"]


class Slow:
    """A way to the server on which every answer takes its time."""

    def __init__(self, server: TinyServer, clock: VirtualClock, wait_s: float) -> None:
        self._server, self._clock, self._wait_s = server, clock, wait_s

    async def send(self, request: HttpRequest) -> HttpResponse:
        answer = await self._server.send(request)
        await self._clock.sleep(self._wait_s)
        return answer

    def stream(self, request: HttpRequest) -> AsyncGenerator[bytes, None]:
        return self._server.stream(request)

    async def close(self) -> None:
        return None


def test_a_slow_answer_does_not_make_the_lease_last_longer() -> None:
    clock, server = VirtualClock(), TinyServer()
    client = Client(Slow(server, clock, 3), clock=clock)
    election = Election(client, KEY, "one", clock=clock)

    async def story() -> None:
        await election.acquire()
        assert 6 == clock.monotonic()
        clock.pass_by(3.9)
        assert election.held()
        clock.pass_by(0.2)
        assert not election.held()

    play(clock, story)


def test_a_short_outage_does_not_cost_the_lease() -> None:
    clock, server = VirtualClock(), TinyServer()
    one = Candidate(server, clock, "one")

    async def story() -> None:
        standing = asyncio.create_task(one.stand())
        for _ in range(5):
            await clock.sleep(10)
            server.down = True
            await clock.sleep(5)
            server.down = False
        assert one.election.held()
        standing.cancel()

    play(clock, story)
    assert [] == one.lost_at


def test_a_candidate_that_could_not_look_does_not_take() -> None:
    clock, server = VirtualClock(), TinyServer()
    one, two = Candidate(server, clock, "one"), Candidate(server, clock, "two")

    async def story() -> None:
        first = asyncio.create_task(one.stand())
        await clock.sleep(1)
        server.down = True
        second = asyncio.create_task(two.stand())
        await clock.sleep(1)
        server.down = False
        await clock.sleep(30)
        assert (True, False) == (one.election.held(), two.election.held())
        first.cancel()
        second.cancel()

    play(clock, story)


def test_a_released_lease_is_not_released_twice() -> None:
    clock, server = VirtualClock(), TinyServer()
    one = Candidate(server, clock, "one")

    async def story() -> None:
        await one.election.release()
        assert [] == server.requests
        await one.election.acquire()
        server.down = True
        await one.election.release()
        assert not one.election.held()

    play(clock, story)


def test_timing_that_could_lead_to_two_leaders_is_refused() -> None:
    with pytest.raises(ValueError, match="renew deadline"):
        Timing(lease_s=10, renew_deadline_s=10)


def test_identities_are_unique() -> None:
    assert unique_identity() != unique_identity()
