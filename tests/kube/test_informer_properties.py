# SPDX-License-Identifier: Apache-2.0
"""An informer converges to the server's state and reports consistent changes."""

from __future__ import annotations

import asyncio
import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from kube.tiny_server import SlowServer, TinyServer
from kube.virtual_time import VirtualClock, run, settled
from kuota.api.base import Json
from kuota.kube.client import Client
from kuota.kube.informer import Informer
from kuota.kube.resources import PODS

PATH = "/api/v1/namespaces/team/pods"

step = st.one_of(
    st.tuples(st.just("put"), st.sampled_from("abcde")),
    st.tuples(st.just("remove"), st.sampled_from("abcde")),
    st.tuples(
        st.sampled_from(["bookmark", "compact", "cut", "down", "up", "turn", "wait"]), st.none()
    ),
)


def _act(server: TinyServer, verb: str, name: str | None, number: int) -> None:
    path = f"{PATH}/{name}"
    if verb == "put":
        server.put(path, size=number)
    elif verb == "remove" and path in server.objects:
        server.remove(path)
    elif verb in ("bookmark", "compact", "cut"):
        getattr(server, verb)()
    elif verb in ("down", "up"):
        server.down = verb == "down"


@given(st.lists(step, max_size=40), st.booleans())
@settings(max_examples=150, deadline=None)
def test_the_cache_and_the_tale_both_end_at_the_truth(
    steps: list[tuple[str, str | None]], initial_events: bool
) -> None:
    clock, server = VirtualClock(), TinyServer()
    server.initial_events = initial_events
    client = Client(server, clock=clock)
    informer: Informer[Json] = Informer(client, PODS, "team", clock=clock)
    changes: dict[str, Json] = {}
    lies: list[str] = []

    def listen(old: Json | None, new: Json | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        same = old is None or new is None or old["metadata"]["uid"] == new["metadata"]["uid"]
        if changes.get(name) is not old or not same or old is new:
            lies.append(name)
        if new is None:
            changes.pop(name, None)
        else:
            changes[name] = new

    async def main() -> None:
        informer.observe(listen)
        task = asyncio.create_task(informer.run())
        for number, (verb, name) in enumerate(steps):
            _act(server, verb, name, number)
            if verb == "turn":
                await settled()
            elif verb == "wait":
                await clock.sleep(1)
        server.down = False
        await clock.sleep(120)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(clock, main())
    truth = {each["metadata"]["name"]: each["size"] for each in server.objects.values()}
    assert truth == {name: each["size"] for name, each in changes.items()}
    assert truth == {each["metadata"]["name"]: each["size"] for each in informer.values()}
    assert informer.synced.is_set()
    assert [] == lies


class ObservedChanges:
    """What observers were told: every object appears once, changes forwards, and goes once."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.lies: list[str] = []
        self._ended: set[str] = set()

    def __call__(self, old: Json | None, new: Json | None) -> None:
        either = new or old or {}
        name, uid = either["metadata"]["name"], either["metadata"]["uid"]
        if self.objects.get(name) is not old:
            self.lies.append(f"{name} was not so before")
        if uid in self._ended:
            self.lies.append(f"{name} is back")
        if old is not None and new is not None and not _follows(old, new):
            self.lies.append(f"{name} went backwards")
        if new is None:
            self._ended.add(uid)
            self.objects.pop(name, None)
        else:
            self.objects[name] = new


def _follows(old: Json, new: Json) -> bool:
    same = old["metadata"]["uid"] == new["metadata"]["uid"]
    return same and _revision(old) < _revision(new)


def _revision(obj: Json) -> int:
    return int(obj["metadata"]["resourceVersion"])


write = st.one_of(
    st.tuples(st.sampled_from(["write", "put", "remove"]), st.sampled_from("abc")),
    st.tuples(
        st.sampled_from(["answer", "newest answer", "tick", "turn", "compact", "cut", "list"]),
        st.none(),
    ),
)


@given(st.lists(write, max_size=40), st.booleans())
@settings(max_examples=300, deadline=None)
def test_answers_to_writes_join_lists_and_watch_in_any_order(
    steps: list[tuple[str, str | None]], initial_events: bool
) -> None:
    clock, server, observed = VirtualClock(), SlowServer(), ObservedChanges()
    server.initial_events = initial_events
    informer: Informer[Json] = Informer(Client(server, clock=clock), PODS, "team", clock=clock)
    answers: list[Json] = []
    lists: list[asyncio.Task[None]] = []

    def take(answer: Json) -> None:
        """An answer that is news is known from then on."""
        informer.wrote(answer)
        known = observed.objects.get(answer["metadata"]["name"])
        gone = answer["metadata"]["uid"] not in {e["metadata"]["uid"] for e in _live(server)}
        assert gone or (known is not None and _revision(known) >= _revision(answer))

    def act(verb: str, name: str | None, number: int) -> None:
        if verb == "write":
            answers.append(copy.deepcopy(server.put(f"{PATH}/{name}", size=number)))
        elif verb == "answer" and answers:
            take(answers.pop(0))
        elif verb == "newest answer" and answers:
            take(answers.pop())
        elif verb == "list":
            lists.append(asyncio.create_task(informer.caught_up()))
        else:
            _act(server, verb, name, number)

    async def main() -> None:
        informer.observe(observed)
        task = asyncio.create_task(informer.run())
        for number, (verb, name) in enumerate(steps):
            act(verb, name, number)
            if verb == "turn":
                await settled()
            elif verb == "tick":
                await asyncio.sleep(0)
        await clock.sleep(120)
        for answer in answers:
            take(answer)
        await asyncio.gather(*lists)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(clock, main())
    truth = {each["metadata"]["name"]: each["size"] for each in _live(server)}
    assert [] == observed.lies
    assert truth == {name: each["size"] for name, each in observed.objects.items()}
    assert truth == {each["metadata"]["name"]: each["size"] for each in informer.values()}


def _live(server: TinyServer) -> list[Json]:
    return list(server.objects.values())
