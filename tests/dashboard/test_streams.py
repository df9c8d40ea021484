# SPDX-License-Identifier: Apache-2.0
"""Streams: what each viewer gets, permissions that change, limits."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from dashboard.events import Events, put_queues, put_status, put_workload, stream
from dashboard.served import TOKENS, Served, bearer, serving
from kuota.api.base import Key
from kuota.api.status import StatusError
from kuota.dashboard import stream as streams
from kuota.kube.resources import NAMESPACES, WORKLOADS
from kuota.server.requests import User
from kuota.server.tokens import EVERYBODY, TokenFile, Tokens
from kuota.up.dashboard import user_info

VIEWS = (
    "view=workloads",
    "view=tree",
    "view=queue&name=shared",
    "view=topology",
    "view=nodes",
    "view=workload&namespace=vision&name=mine",
)


def test_a_viewer_gets_a_snapshot_and_then_changes() -> None:
    async def work(served: Served) -> None:
        await put_queues(served)
        await put_workload(served, "vision", "first")
        async with (
            served.browser("ann-token") as ann,
            stream(served, ann, "view=workloads") as events,
        ):
            name, data = await events.next()
            assert ("snapshot", "workloads") == (name, data["view"])
            assert ["vision/first"] == [each["key"] for each in data["model"]["rows"]]
            await put_workload(served, "vision", "second")
            name, data = await events.next()
            assert ("change", ["vision/second"], []) == (
                name,
                [each["key"] for each in data["upsert"]],
                data["remove"],
            )
            await served.client.delete(WORKLOADS, Key("vision", "first"))
            _, data = await events.next()
            assert ([], ["vision/first"]) == (data["upsert"], data["remove"])

    serving(work)


@pytest.mark.parametrize("view", VIEWS)
def test_a_member_sees_nothing_of_another_team(view: str) -> None:
    async def work(served: Served) -> None:
        await put_queues(served)
        await put_workload(served, "vision", "mine")
        await put_workload(served, "speech", "secret-1")
        async with served.browser("ann-token") as ann, stream(served, ann, view) as events:
            assert "snapshot" == (await events.next())[0]
            await put_workload(served, "speech", "secret-2")
            await put_status(served, "speech", "secret-1", {"conditions": [_pending("secret-3")]})
            await served.client.delete(WORKLOADS, Key("speech", "secret-2"))
            await put_status(served, "vision", "mine", {"conditions": [_pending("mark")]})
            await _change_seen(served, events, view)
            assert "secret" not in events.text

    serving(work)


async def _change_seen(served: Served, events: Events, view: str) -> None:
    """Wait for an event that follows the changes, where the view shows any of them."""
    if "workload" in view:
        await events.until("mark")
    elif "queue" in view:
        await events.next()


def _pending(message: str) -> dict[str, str]:
    return {
        "type": "QuotaReserved",
        "status": "False",
        "reason": "Pending",
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def test_the_workload_of_another_team_does_not_exist() -> None:
    async def work(served: Served) -> None:
        await put_queues(served)
        await put_workload(served, "speech", "secret")
        texts = []
        async with served.browser("ann-token") as ann:
            for name in ("secret", "absent"):
                query = f"view=workload&namespace=speech&name={name}"
                async with stream(served, ann, query) as events:
                    event, data = await events.next()
                    assert ("error", 404) == (event, data["code"])
                    texts.append(data["message"].replace(name, ""))
                    assert not (await events.rest()).strip()
        assert texts[0] == texts[1]

    serving(work)


def test_positions_in_a_queue_count_workloads_of_others_without_naming_them() -> None:
    async def work(served: Served) -> None:
        await put_queues(served)
        for team, name, priority in (("speech", "a", 9), ("vision", "b", 5), ("speech", "c", 1)):
            await put_workload(served, team, name, priority=priority)
        async with (
            served.browser("ann-token") as ann,
            stream(served, ann, "view=queue&name=shared") as events,
        ):
            _, data = await events.next()
            model = data["model"]
            assert ["vision/b"] == [each["key"] for each in model["rows"]]
            assert (2, [2]) == (model["meta"]["hidden"], model["meta"]["positions"])
        async with (
            served.browser("admin-token") as admin,
            stream(served, admin, "view=queue&name=shared") as events,
        ):
            _, data = await events.next()
            keys = [each["key"] for each in data["model"]["rows"]]
            assert ["speech/a", "vision/b", "speech/c"] == keys
            assert (0, None) == (
                data["model"]["meta"]["hidden"],
                data["model"]["meta"]["positions"],
            )

    serving(work)


def test_the_preemptor_of_another_team_is_not_named() -> None:
    async def work(served: Served) -> None:
        await put_queues(served)
        other = await put_workload(served, "speech", "secret")
        await put_workload(served, "vision", "mine")
        message = (
            f"Preempted to accommodate a workload (UID: {other['metadata']['uid']}, JobUID: x)"
        )
        evicted = _pending(message) | {"type": "Evicted", "status": "True", "reason": "Preempted"}
        preempted = evicted | {"type": "Preempted", "reason": "InClusterQueue"}
        await put_status(served, "vision", "mine", {"conditions": [evicted, preempted]})
        for view in ("view=workloads", VIEWS[-1]):
            async with served.browser("ann-token") as ann, stream(served, ann, view) as events:
                await events.next()
                assert "secret" not in events.text
        async with (
            served.browser("admin-token") as admin,
            stream(served, admin, "view=workloads") as events,
        ):
            await events.next()
            assert '"preemptedBy":{"kind":"Workload","name":"secret"' in events.text

    serving(work)


def test_a_revoked_token_ends_the_stream_and_the_session(tmp_path: Path) -> None:
    tokens = _token_file(tmp_path)

    async def work(served: Served) -> None:
        await put_queues(served)
        async with (
            served.browser("ann-token") as ann,
            stream(served, ann, "view=workloads") as events,
        ):
            assert "snapshot" == (await events.next())[0]
            tokens.revoke("ann")
            name, data = await events.until("signed out")
            assert ("error", 401) == (name, data["code"])
            assert not (await events.rest()).strip()
            async with ann.get(served.url("api/session")) as response:
                assert 401 == response.status

    serving(work, tokens)


def test_signing_out_ends_the_streams_of_the_session() -> None:
    async def work(served: Served) -> None:
        async with (
            served.browser("ann-token") as ann,
            stream(served, ann, "view=workloads") as events,
        ):
            await events.next()
            csrf = (await served.json(ann, "api/session"))["csrf"]
            headers = {"X-Kuota-CSRF": csrf}
            async with ann.post(served.url("api/sign-out"), json={}, headers=headers) as response:
                assert 204 == response.status
            assert "error" == (await events.until("signed out"))[0]

    serving(work)


def test_a_namespace_that_changes_hands_leaves_the_stream() -> None:
    async def work(served: Served) -> None:
        await put_queues(served)
        await put_workload(served, "vision", "mine")
        async with (
            served.browser("ann-token") as ann,
            stream(served, ann, "view=workloads") as events,
        ):
            await events.next()
            patch = {"metadata": {"labels": {"kuota.dev/team": "speech"}}}
            await served.client.patch(NAMESPACES, Key("", "vision"), patch)
            name, data = await events.next()
            assert ("snapshot", []) == (name, data["model"]["rows"])

    serving(work)


def test_changes_are_collected() -> None:
    async def work(served: Served) -> None:
        await put_queues(served)
        async with (
            served.browser("admin-token") as admin,
            stream(served, admin, "view=workloads") as events,
        ):
            await events.next()
            for at in range(40):
                await put_workload(served, "vision", f"w-{at:02d}")
            seen: set[str] = set()
            count = 0
            while len(seen) < 40:
                _, data = await events.next()
                seen |= {each["key"] for each in data["upsert"]}
                count += 1
            assert count < 20

    serving(work)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", 400),
        ("view=everything", 400),
        ("view=queue", 400),
        ("view=queue&name=absent", 404),
        ("view=workload&namespace=vision&name=../x", 400),
        ("view=workload&namespace=vision", 400),
    ],
)
def test_a_wrong_view_is_reported_as_an_event(query: str, code: int) -> None:
    async def work(served: Served) -> None:
        async with served.browser("ann-token") as ann, stream(served, ann, query) as events:
            name, data = await events.next()
            assert ("error", code) == (name, data["code"])
            assert not (await events.rest()).strip()

    serving(work)


def test_streams_of_one_user_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STREAMS_PER_USER", 2)

    async def work(served: Served) -> None:
        async with served.browser("ann-token") as ann:
            first = stream(served, ann, "view=tree")
            second = stream(served, ann, "view=tree")
            await (await first.__aenter__()).next()
            await (await second.__aenter__()).next()
            async with stream(served, ann, "view=tree") as events:
                name, data = await events.next()
                assert ("error", 429) == (name, data["code"])
            async with (
                served.browser("bob-token") as bob,
                stream(served, bob, "view=tree") as events,
            ):
                assert "snapshot" == (await events.next())[0]
            for each in (first, second):
                await each.__aexit__(None, None, None)

    serving(work)


def test_streams_of_service_accounts_count_as_those_of_their_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "STREAMS_PER_USER", 1)
    robot = user_info(User("system:serviceaccount:vision:robot", issuer="ann"))

    async def work() -> None:
        opened = streams.StreamLimits()
        async with opened.one_more(user_info(User("ann"))), opened.one_more(user_info(User("bob"))):
            with pytest.raises(StatusError, match="too many pages"):
                await opened.one_more(robot).__aenter__()

    asyncio.run(work())


def test_connections_of_service_accounts_count_as_those_of_their_user() -> None:
    robot = User("system:serviceaccount:vision:robot", ("vision", EVERYBODY), issuer="ann")

    async def work(served: Served) -> None:
        async with (
            aiohttp.ClientSession(headers=bearer("robot-token")) as session,
            stream(served, session, "view=tree") as events,
        ):
            await events.next()
            assert {"ann"} == {each.user for each in served.http.connections._known}

    serving(work, Tokens([("robot-token", robot)]))


def test_the_objects_are_followed_only_while_somebody_views_them() -> None:
    async def work(served: Served) -> None:
        feed = served.dashboard.feed
        await put_queues(served)
        assert not feed.state.objects["ClusterQueue"]
        async with served.browser("ann-token") as ann:
            async with stream(served, ann, "view=tree") as events:
                await events.next()
                assert (1, 1) == (feed.viewers, len(feed.state.objects["ClusterQueue"]))
            while feed.viewers:
                await asyncio.sleep(0)
        await feed.close()
        assert not feed.state.objects["ClusterQueue"]

    serving(work)


def _token_file(folder: Path) -> TokenFile:
    path = folder / "tokens.csv"
    path.write_text(
        "".join(
            f'{token},{user.name},,"{",".join(user.groups)}"\n' for token, user in TOKENS.items()
        )
    )
    return TokenFile(path)
