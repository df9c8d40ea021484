# SPDX-License-Identifier: Apache-2.0
"""An informer accepts responses of writes, regardless of its watch."""

from __future__ import annotations

import copy

import pytest

from kube.tiny_server import TinyServer
from kube.virtual_time import settled
from kube.watched import PATH, Watched
from kuota.api.base import Json, Key

KEY = Key("team", "a")
A = f"{PATH}/a"


@pytest.fixture
def server() -> TinyServer:
    return TinyServer()


def put(server: TinyServer, size: int) -> Json:
    """Write the pod, and return the answer."""
    return copy.deepcopy(server.put(A, size=size))


def test_an_answer_is_visible_at_once_and_observers_are_notified_once(server: TinyServer) -> None:
    watched = Watched(server)

    async def story() -> None:
        server.mute = True
        watched.informer.wrote(put(server, 1))
        assert [("a", None, 1)] == watched.observed
        assert KEY in watched.informer
        server.mute = False
        server.bookmark()
        await watched.moments_later()
        assert [("a", None, 1)] == watched.observed

    watched.during(story)


def test_the_event_of_a_known_write_is_not_decoded_again(server: TinyServer) -> None:
    decoded: list[str] = []

    def decode(obj: Json) -> Json:
        decoded.append(obj["metadata"]["resourceVersion"])
        return obj

    watched = Watched(server, decode=decode)

    async def story() -> None:
        answer = put(server, 1)
        watched.informer.wrote(answer)
        await watched.moments_later()
        assert [answer["metadata"]["resourceVersion"]] == decoded

    watched.during(story)


def test_neither_an_older_answer_nor_an_older_event_replaces_a_newer_answer(
    server: TinyServer,
) -> None:
    watched = Watched(server)

    async def story() -> None:
        first, second = put(server, 1), put(server, 2)
        watched.informer.wrote(second)
        watched.informer.wrote(first)
        await watched.moments_later()
        assert [("a", None, 2)] == watched.observed

    watched.during(story)


def test_a_late_answer_does_not_bring_back_a_deleted_object(server: TinyServer) -> None:
    watched = Watched(server)

    async def story() -> None:
        answer = put(server, 1)
        server.remove(A)
        await watched.moments_later()
        watched.informer.wrote(answer)
        assert KEY not in watched.informer

    watched.during(story)


def test_a_late_answer_does_not_bring_back_what_a_compacted_watch_saw_deleted(
    server: TinyServer,
) -> None:
    watched = Watched(server)

    async def story() -> None:
        answer = put(server, 1)
        server.remove(A)
        await settled()
        server.down = True
        server.cut()
        server.bookmark()
        server.compact()
        await settled()
        server.hang, server.down = True, False
        await watched.moments_later()
        assert watched.informer.error is not None
        watched.informer.wrote(answer)
        assert KEY not in watched.informer

    watched.during(story)


def test_the_late_deletion_of_a_predecessor_does_not_drop_its_successor(
    server: TinyServer,
) -> None:
    watched = Watched(server)

    async def story() -> None:
        put(server, 1)
        await watched.moments_later()
        server.remove(A)
        watched.informer.wrote(put(server, 2))
        await watched.moments_later()
        assert [("a", None, 1), ("a", 1, None), ("a", None, 2)] == watched.observed

    watched.during(story)


def test_a_list_from_before_a_write_does_not_undo_it(server: TinyServer) -> None:
    watched = Watched(server)

    async def story() -> None:
        later = put(server, 1)
        later["metadata"]["name"] = "later"
        later["metadata"]["resourceVersion"] = str(server.revision + 1000)
        watched.informer.wrote(later)
        await watched.informer.caught_up()
        assert {KEY, Key("team", "later")} == set(watched.informer.keys())

    watched.during(story)


def test_the_answer_to_a_deletion_leaves_the_object_to_the_watch(server: TinyServer) -> None:
    watched = Watched(server)

    async def story() -> None:
        put(server, 1)
        await watched.moments_later()
        watched.informer.wrote({"kind": "Status", "status": "Success", "metadata": {}})
        server.mute = True
        server.remove(A)
        _, _, _, dying = server.log[-1]
        watched.informer.wrote(dying | {"size": 2})
        assert KEY in watched.informer
        server.mute = False
        server.bookmark()
        await watched.moments_later()
        assert [("a", None, 1), ("a", 1, 2), ("a", 2, None)] == watched.observed

    watched.during(story)


def test_a_packed_object_reads_as_before_until_it_changes(server: TinyServer) -> None:
    watched = Watched(server)

    async def story() -> None:
        answer = put(server, 1)
        watched.informer.wrote(answer)
        watched.informer.pack(answer)
        assert watched.informer.get(KEY) == answer
        assert watched.informer.get(KEY) is not answer
        watched.informer.wrote(put(server, 2))
        assert [("a", None, 1), ("a", 1, 2)] == watched.observed

    watched.during(story)


def test_an_outdated_state_is_not_packed_in_place_of_the_newest(server: TinyServer) -> None:
    watched = Watched(server)

    async def story() -> None:
        first, second = put(server, 1), put(server, 2)
        watched.informer.wrote(second)
        watched.informer.pack(first)
        assert watched.informer.get(KEY) is second

    watched.during(story)


def test_an_index_added_later_covers_every_object(server: TinyServer) -> None:
    watched = Watched(server)

    async def story() -> None:
        watched.informer.wrote(put(server, 1))
        watched.informer.add_index("size", lambda obj: [str(obj["size"])])
        assert [watched.informer.get(KEY)] == watched.informer.indexed("size", "1")
        watched.informer.wrote(put(server, 2))
        assert [] == watched.informer.indexed("size", "1")
        assert [watched.informer.get(KEY)] == watched.informer.indexed("size", "2")

    watched.during(story)
