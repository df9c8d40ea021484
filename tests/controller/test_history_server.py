# SPDX-License-Identifier: Apache-2.0
"""The history on a cluster is read with the permissions on Workloads."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme

from kuota.api.base import Json, Key
from kuota.controller.history_server import HistoryServer
from kuota.history import api
from kuota.history.address import SqliteFile
from kuota.history.database import HistoryWriter, RecordingProgress
from kuota.history.records import JobRecord, Run
from kuota.history.turns import ReportTurns
from kuota.kube.clock import SystemClock
from kuota.kube.errors import NotFound
from kuota.kube.resources import Resource
from kuota.listening import bound

JOBS = f"{api.PREFIX}/{api.VERSION}/jobs"
OWN = f"{api.PREFIX}/{api.VERSION}/namespaces/vision/usage"


class Reviewer:
    """An API server that knows ann, who may list the Workloads of namespace vision."""

    async def get(self, resource: Resource, key: Key, **_: Any) -> Json:
        raise NotFound(404, "NotFound", "no aggregation proxy")

    async def create(self, resource: Resource, obj: Json, **_: Any) -> Json:
        spec = obj["spec"]
        if resource.kind == "TokenReview":
            known = spec["token"] == "anns"
            return obj | {"status": {"authenticated": known, "user": {"username": "ann"}}}
        wanted = spec.get("resourceAttributes")
        listing = {"verb": "list", "group": "kueue.x-k8s.io", "version": "v1beta2"}
        own = listing | {"resource": "workloads", "namespace": "vision"}
        allowed = spec["user"] == "ann" and (wanted is None or wanted == own)
        return obj | {"status": {"allowed": allowed}}


async def asked(file: SqliteFile, *paths: str, method: str = "GET", token: str = "anns") -> Any:
    """Return status and body of each request."""
    authority = trustme.CA()
    tls, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.configure_trust(trusting)
    reviewer: Any = Reviewer()
    server = HistoryServer(file, reviewer, SystemClock())
    port = await server.serve(bound("127.0.0.1", 0), tls)
    found = []
    try:
        connector = aiohttp.TCPConnector(ssl=trusting)
        async with aiohttp.ClientSession(connector=connector) as session:
            for path in paths:
                headers = {"Authorization": f"Bearer {token}"}
                url = f"https://127.0.0.1:{port}{path}"
                async with session.request(method, url, headers=headers) as answer:
                    found.append((answer.status, await answer.json()))
    finally:
        await server.close()
    return found


@pytest.fixture
def file(tmp_path: Path) -> SqliteFile:
    found = SqliteFile(str(tmp_path / "history"))
    run = Run(1000.0, 1000.0, "cq", {"a100": {"nvidia.com/gpu": 2}}, 4600.0, "Finished")
    with HistoryWriter(found) as writer:
        for team in ("vision", "speech"):
            record = JobRecord(team, team, "w", "Job", "j", "q", "", 900.0, (run,), 4600.0)
            writer.write(record, progress=RecordingProgress("1", 0.0))
    return found


def test_reading_requires_permission_to_list_workloads(file: SqliteFile) -> None:
    elsewhere = OWN.replace("vision", "speech")
    own, other, all_ = asyncio.run(asked(file, OWN, elsewhere, JOBS))
    assert 200 == own[0]
    (account,) = own[1]["items"]
    assert ("vision", 2.0) == (account["group"], account["resources"]["nvidia.com/gpu"]["hours"])
    assert [403, 403] == [other[0], all_[0]]
    ((status, _),) = asyncio.run(asked(file, OWN, token="unknown"))
    assert 401 == status


def test_every_namespace_of_a_report_is_reviewed(file: SqliteFile) -> None:
    series = f"{api.PREFIX}/{api.VERSION}/series"
    own, both, everything = asyncio.run(
        asked(
            file,
            f"{series}?namespaces=vision&step=3600&until=1970-01-01T02:00:00Z",
            f"{series}?namespaces=vision,speech",
            f"{series}?namespaces=",
        )
    )
    ((team,), (gpu,)) = own[1]["items"], own[1]["items"][0]["resources"]
    assert "vision" == team["team"]
    assert 2.0 == pytest.approx(sum(gpu["hours"]))
    assert [200, 403, 403] == [own[0], both[0], everything[0]]
    path = f"{api.PREFIX}/{api.VERSION}/namespaces/vision/jobs"
    mine, hidden = asyncio.run(asked(file, f"{path}?uid=vision", f"{path}?uid=speech"))
    assert (1, []) == (len(mine[1]["items"][0]["runs"]), hidden[1]["items"])


def test_the_reports_of_one_user_take_turns(
    file: SqliteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    users: list[str] = []

    async def run(_: ReportTurns, user: str, work: Callable[[], object]) -> object:
        users.append(user)
        return work()

    monkeypatch.setattr(ReportTurns, "run", run)
    asyncio.run(asked(file, OWN, OWN))
    assert ["ann", "ann"] == users


def test_errors_are_status_objects(file: SqliteFile, tmp_path: Path) -> None:
    wrong, missing = asyncio.run(asked(file, f"{OWN}?by=moon", f"{api.PREFIX}/x"))
    assert (400, "Status") == (wrong[0], wrong[1]["kind"])
    assert 404 == missing[0]
    ((status, body),) = asyncio.run(asked(file, OWN, method="DELETE"))
    assert (405, "Status") == (status, body["kind"])
    ((status, body),) = asyncio.run(asked(SqliteFile(str(tmp_path / "none")), OWN))
    assert (503, "ServiceUnavailable") == (status, body["reason"])


def test_the_api_server_can_discover_the_group(file: SqliteFile) -> None:
    group = f"{api.PREFIX}/{api.VERSION}"
    legacy, openapi = asyncio.run(asked(file, group, f"/openapi/v3{group}"))
    named = {each["name"]: each["verbs"] for each in legacy[1]["resources"]}
    assert {str(each): ["get"] for each in api.Report} == named
    assert f"{api.PREFIX}/{api.VERSION}/namespaces/{{namespace}}/usage" in openapi[1]["paths"]
