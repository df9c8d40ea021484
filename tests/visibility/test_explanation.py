# SPDX-License-Identifier: Apache-2.0
"""Explanations of workloads on the embedded server, and their authorization."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from build import flavor, job, local_queue, namespace, queue
from kuota.api.base import Json, Key
from kuota.engine.engine import Engine
from kuota.engine.facts import ObjectStored
from kuota.engine.model import LocalQueue
from kuota.server.api import ApiServer
from kuota.server.requests import ADMINS, ANONYMOUS, Request, User
from kuota.server.store import Store
from kuota.up.extensions import ExplanationExtension
from kuota.visibility.explanation import HIDDEN, ExplanationApi, explanation_path, parse_path

ADMIN = User("root", (ADMINS,))
RED = User("ann", ("red", "system:authenticated"))
BLUE = User("eve", ("blue", "system:authenticated"))
WAITS = explanation_path(Key("default", "waits"))


class NoOwners:
    def metadata(self, kind: str, key: Key) -> Json:
        return {}


def _engine() -> Engine:
    """Job `runs` of team blue has all quota, and job `waits` of team red has to wait."""
    engine = Engine()
    facts = (
        *(namespace(), namespace("blue"), flavor(), local_queue("q")),
        queue("q", gpu=1, within="LowerPriority"),
        LocalQueue(key=Key("blue", "q"), cluster_queue="q"),
        replace(job("runs", queue="q", gpu=1), key=Key("blue", "runs")),
    )
    for each in facts:
        engine.apply(ObjectStored(value=each), 0.0)
    engine.cycle(1.0)
    engine.apply(ObjectStored(value=job("waits", queue="q", gpu=1)), 2.0)
    engine.cycle(3.0)
    return engine


def _answer(path: str, user: User) -> tuple[int, Json]:
    """What the user gets, where namespace `default` belongs to team red."""

    async def asked() -> tuple[int, Json]:
        api = ApiServer(Store.open(":memory:"))
        explanations = ExplanationApi(_engine(), NoOwners())
        api.extensions.append(ExplanationExtension(explanations, api.roles, lambda: 4.0))
        labels = {"metadata": {"labels": {"kuota.dev/team": "red"}}}
        await api.handle(
            Request(
                method="PATCH",
                path="/api/v1/namespaces/default",
                headers={"content-type": "application/merge-patch+json"},
                body=msgspec.json.encode(labels),
                user=ADMIN,
            )
        )
        answer = await api.handle(Request(method="GET", path=path, user=user))
        api.store.close()
        assert isinstance(answer.body, bytes)
        return answer.status, msgspec.json.decode(answer.body)

    return asyncio.run(asked())


@pytest.mark.parametrize(
    ("user", "status"), [(ADMIN, 200), (RED, 200), (BLUE, 403), (ANONYMOUS, 401)]
)
def test_only_those_who_may_read_the_workload_get_its_explanation(user: User, status: int) -> None:
    assert status == _answer(WAITS, user)[0]


def test_an_explanation_names_what_blocks_the_workload_and_what_would_help() -> None:
    why = _answer(WAITS, ADMIN)[1]["why"]
    assert "needs 1 gpu on default, none left in ClusterQueue q" == why["text"]
    assert (1, 1) == (why["position"], why["waiting"])
    assert ["blue/runs"] == [each["workload"] for each in why["protected"]]
    assert "wait for 1 gpu on default to be released in ClusterQueue q" in [
        each["text"] for each in why["help"]
    ]


def test_workloads_that_the_caller_may_not_read_are_not_named() -> None:
    body = _answer(WAITS, RED)[1]
    assert "runs" not in str(body)
    assert [] == body["why"]["protected"]
    assert HIDDEN in str(body)


def test_a_workload_or_path_that_does_not_exist_is_not_found() -> None:
    assert 404 == _answer(explanation_path(Key("default", "none")), ADMIN)[0]
    assert 404 == _answer("/apis/visibility.kuota.dev/v2/workloads", ADMIN)[0]
    assert parse_path("/apis/visibility.kuota.dev/v1alpha1/namespaces/a/pods/b/explanation") is None
