# SPDX-License-Identifier: Apache-2.0
"""Whatever server and network do, the informer ends up with the truth and told each step of it."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from kube.tiny_server import TinyServer
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


@given(st.lists(step, max_size=40))
@settings(max_examples=150, deadline=None)
def test_the_cache_and_the_tale_both_end_at_the_truth(steps: list[tuple[str, str | None]]) -> None:
    clock, server = VirtualClock(), TinyServer()
    client = Client(server, clock=clock)
    informer: Informer[Json] = Informer(client, PODS, "team", clock=clock)
    tale: dict[str, Json] = {}
    lies: list[str] = []

    def listen(old: Json | None, new: Json | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        same = old is None or new is None or old["metadata"]["uid"] == new["metadata"]["uid"]
        if tale.get(name) is not old or not same or old is new:
            lies.append(name)
        if new is None:
            tale.pop(name, None)
        else:
            tale[name] = new

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
    assert truth == {name: each["size"] for name, each in tale.items()}
    assert truth == {each["metadata"]["name"]: each["size"] for each in informer.values()}
    assert informer.synced.is_set()
    assert [] == lies
