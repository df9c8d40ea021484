# SPDX-License-Identifier: Apache-2.0
"""Logs, history, accounts and teams: with the permissions of the viewer, and nothing more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest

from dashboard.events import put_queues, put_workload
from dashboard.pods import log, put_pod
from dashboard.recorded import write_history
from dashboard.served import TOKENS, Served, bearer, serving
from kuota.api.base import Key
from kuota.history.address import SqliteFile
from kuota.history.database import HistoryWriter
from kuota.history.turns import ReportTurns
from kuota.kube.resources import NAMESPACES
from kuota.server.requests import User
from kuota.server.tokens import EVERYBODY, TokenFile, Tokens


def test_a_log_is_plain_text() -> None:
    async def work(served: Served) -> None:
        await put_pod(served, "vision", "train-0")
        async with served.browser("ann-token") as ann:
            url = served.url("api/logs?namespace=vision&pod=train-0&tail=7")
            async with ann.get(url) as response:
                assert 200 == response.status, await response.text()
                assert "text/plain" == response.content_type
                assert "nosniff" == response.headers["X-Content-Type-Options"]
                text = await response.text()
        assert "train-0 <script>alert(1)</script>\ntail=7\n" == text

    serving(work, logs=log)


REFUSED = (
    ("namespace=speech&pod=secret", 403),
    ("namespace=speech&pod=absent", 403),
    ("namespace=vision&pod=absent", 404),
    ("namespace=vision", 400),
    ("pod=a", 400),
    ("namespace=vision&pod=../../speech/pods/secret", 400),
    ("namespace=vision&pod=a%2f..%2fb", 400),
    ("namespace=vision&pod=a&tail=-1", 400),
    ("namespace=vision&pod=a&tail=99999999999", 400),
    ("namespace=vision&pod=a&tail=000000001999999999999", 400),
    (f"namespace=vision&pod=a&tail={'0' * 5000}", 400),
)


def test_a_log_is_refused_as_the_api_refuses_it() -> None:
    async def work(served: Served) -> None:
        await put_pod(served, "speech", "secret")
        async with served.browser("ann-token") as ann:
            for query, status in REFUSED:
                async with ann.get(served.url(f"api/logs?{query}")) as response:
                    assert status == response.status, query
                    assert "Status" == (await response.json())["kind"]

    serving(work, logs=log)


def test_a_followed_log_ends_when_the_namespace_changes_hands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kuota.dashboard.logs.CHECK_S", 0.05)

    async def work(served: Served) -> None:
        await put_pod(served, "vision", "train-0")
        async with served.browser("ann-token") as ann:
            url = served.url("api/logs?namespace=vision&pod=train-0&follow=true")
            async with ann.get(url) as response:
                assert b"train-0" in await response.content.readline()
                patch = {"metadata": {"labels": {"kuota.dev/team": "speech"}}}
                await served.client.patch(NAMESPACES, Key("", "vision"), patch)
                await response.content.read()
            assert 0 == len(served.dashboard.open_streams)

    serving(work, logs=log)


READABLE = (
    *("history", "usage", "usage?by=user", "waste", "teams"),
    *("history?namespace=vision", "waste?namespace=vision"),
    *("history?namespaces=speech", "teams?namespaces=vision,speech"),
)


def test_reports_contain_the_jobs_of_readable_namespaces(tmp_path: Path) -> None:
    file = str(tmp_path / "history.db")
    write_history(file)

    async def work(served: Served) -> None:
        await put_queues(served)
        async with served.browser("ann-token") as ann:
            for path in READABLE:
                text = str(await served.json(ann, f"api/{path}"))
                assert "vision" in text or "ann" in text, path
                assert "speech" not in text, path
                assert "bob" not in text, path
            for path in ("history", "usage", "waste", "teams"):
                async with ann.get(served.url(f"api/{path}?namespace=speech")) as response:
                    assert 403 == response.status
        async with served.browser("admin-token") as admin:
            jobs = await served.json(admin, "api/history")
            wasted = await served.json(admin, "api/waste")
            assert [("speech", 1.0), ("vision", 1.0)] == [
                (each["group"], each["resources"]["nvidia.com/gpu"]["preempted"])
                for each in wasted["items"]
            ]
            assert {"vision", "speech"} == {each["namespace"] for each in jobs["items"]}
            teams = await served.json(admin, "api/teams?since=1970-01-01T00:00:00Z&step=86400")
            assert ["speech", "vision"] == [each["team"] for each in teams["teams"]]

    serving(work, history=file)


@pytest.mark.parametrize(
    "path",
    [
        "history?since=yesterday",
        "waste?since=yesterday",
        "usage?by=colour",
        "teams?step=often",
        "teams?step=nan",
    ],
)
def test_a_wrong_parameter_is_a_bad_request(path: str, tmp_path: Path) -> None:
    file = str(tmp_path / "history.db")
    write_history(file)

    async def work(served: Served) -> None:
        async with (
            served.browser("ann-token") as ann,
            ann.get(served.url(f"api/{path}")) as response,
        ):
            assert 400 == response.status

    serving(work, history=file)


def test_a_period_with_too_many_changes_is_refused_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kuota.history.waste.MOST_MOMENTS", 1)
    file = str(tmp_path / "history.db")
    write_history(file)

    async def work(served: Served) -> None:
        async with (
            served.browser("ann-token") as ann,
            ann.get(served.url("api/waste")) as response,
        ):
            assert 413 == response.status
            assert "choose a shorter one" in await response.text()

    serving(work, history=file)


def test_no_report_is_readable_without_signing_in(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("admin-token,admin,,system:masters\n")
    assert "ann-token" in TOKENS

    async def work(served: Served) -> None:
        paths = [*served.dashboard.dashboard.readers, *served.dashboard.dashboard.streams]
        async with served.browser() as browser:
            for path in paths:
                for headers in (
                    {},
                    {"Authorization": "Bearer wrong"},
                    {"Cookie": "kuota-session=x"},
                ):
                    url = served.url(f"api/{path}?view=tree")
                    async with browser.get(url, headers=headers) as response:
                        assert 401 == response.status, path

    serving(work, TokenFile(tokens), history=str(tmp_path / "history.db"))


def test_service_accounts_and_their_user_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, users = str(tmp_path / "history.db"), set()
    HistoryWriter(SqliteFile(file)).close()

    async def run(_: ReportTurns, user: str, work: Callable[[], object]) -> object:
        users.add(user)
        return work()

    monkeypatch.setattr(ReportTurns, "run", run)
    robot = User("system:serviceaccount:vision:robot", ("vision", EVERYBODY), issuer="ann")

    async def work(served: Served) -> None:
        async with aiohttp.ClientSession(headers=bearer("robot-token")) as session:
            for path in ("history", "usage", "waste", "teams"):
                await served.json(session, f"api/{path}")

    serving(work, Tokens([("robot-token", robot)]), history=file)
    assert {"ann"} == users


def test_the_timeline_of_a_workload_contains_its_past(tmp_path: Path) -> None:
    file = str(tmp_path / "history.db")

    async def work(served: Served) -> None:
        await put_queues(served)
        workload = await put_workload(served, "vision", "train")
        write_history(file, vision=workload["metadata"]["uid"])
        async with served.browser("ann-token") as ann:
            url = served.url("api/stream?view=workload&namespace=vision&name=train")
            async with ann.get(url, headers={"Accept": "text/event-stream"}) as response:
                text = (await response.content.readuntil(b"\n\n")).decode()
        assert "1970-01-01T01:16:40Z" in text  # It was preempted then.

    serving(work, history=file)


def test_who_may_read_no_namespace_is_told_so(tmp_path: Path) -> None:
    file = str(tmp_path / "history.db")
    write_history(file)

    async def work(served: Served) -> None:
        async with aiohttp.ClientSession(headers=bearer("nobody")) as session:
            for path in ("history", "usage?namespaces=vision", "waste", "teams"):
                async with session.get(served.url(f"api/{path}")) as response:
                    assert (403, True) == (response.status, "may not" in await response.text())

    serving(work, Tokens([("nobody", User("carl", (EVERYBODY,)))]), history=file)


def test_without_a_history_the_reason_is_given() -> None:
    async def work(served: Served) -> None:
        async with served.browser("ann-token") as ann:
            for path in ("history", "usage", "waste", "teams"):
                async with ann.get(served.url(f"api/{path}")) as response:
                    assert (404, True) == (response.status, "no history" in await response.text())

    serving(work)
