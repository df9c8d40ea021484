# SPDX-License-Identifier: Apache-2.0
"""Actions: read-only by default, with the permissions of the viewer, and an Event per action."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from dashboard.events import put_queues, put_workload
from dashboard.served import Served, serving
from kuota.api.base import Key
from kuota.kube.resources import CLUSTER_QUEUES, CORE_EVENTS, WORKLOADS

STOP = {"action": "stopQueue", "kind": "ClusterQueue", "name": "shared"}
HOLD = {"action": "hold", "kind": "Workload", "namespace": "vision", "name": "mine"}


async def act(served: Served, session: aiohttp.ClientSession, body: Any) -> tuple[int, Any]:
    csrf = (await served.json(session, "api/session"))["csrf"]
    headers = {"X-Kuota-CSRF": csrf}
    async with session.post(served.url("api/actions"), json=body, headers=headers) as response:
        return response.status, await response.json()


def test_a_dashboard_is_read_only_unless_actions_are_enabled() -> None:
    async def work(served: Served) -> None:
        await put_queues(served)
        async with served.browser("admin-token") as admin:
            assert not (await served.json(admin, "api/session"))["actions"]
            status, found = await act(served, admin, STOP)
            assert (403, True) == (status, "read-only" in found["message"])
        queue = await served.client.get(CLUSTER_QUEUES, Key("", "shared"))
        assert queue["spec"].get("stopPolicy") in (None, "None")

    serving(work)


def test_an_admin_stops_a_queue_and_an_event_names_the_user() -> None:
    async def work(served: Served) -> None:
        await put_queues(served)
        async with served.browser("admin-token") as admin:
            assert (await served.json(admin, "api/session"))["actions"]
            status, found = await act(served, admin, STOP)
            assert 200 == status, found
        queue = await served.client.get(CLUSTER_QUEUES, Key("", "shared"))
        assert "Hold" == queue["spec"]["stopPolicy"]
        events = (await served.client.list(CORE_EVENTS)).items
        assert any("by user admin" in each["message"] for each in events)

    serving(work, actions=True)


def test_a_session_says_what_the_viewer_may_change() -> None:
    async def work(served: Served) -> None:
        await put_queues(served)
        async with served.browser("admin-token") as admin:
            found = (await served.json(admin, "api/session"))["changes"]
            assert {"Workload": None, "LocalQueue": None, "ClusterQueue": None} == found
        async with served.browser("ann-token") as ann:
            found = (await served.json(ann, "api/session"))["changes"]
            assert {"Workload": [], "LocalQueue": [], "ClusterQueue": []} == found

    serving(work, actions=True)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (STOP, 403),
        (HOLD, 403),
        ({**HOLD, "namespace": "speech", "name": "secret"}, 403),
        ({**HOLD, "namespace": "speech", "name": "absent"}, 403),
        ({**HOLD, "action": "destroy"}, 400),
        ({**HOLD, "more": 1}, 400),
        ([], 400),
        ({**HOLD, "name": "../../x"}, 422),
    ],
)
def test_a_member_may_do_what_the_api_allows(body: Any, status: int) -> None:
    async def work(served: Served) -> None:
        await put_queues(served)
        await put_workload(served, "vision", "mine")
        await put_workload(served, "speech", "secret")
        async with served.browser("ann-token") as ann:
            found = await act(served, ann, body)
            assert status == found[0], found
        for key in (Key("vision", "mine"), Key("speech", "secret")):
            workload = await served.client.get(WORKLOADS, key)
            assert workload["spec"].get("active") is not False

    serving(work, actions=True)


def test_an_action_needs_the_value_of_the_session() -> None:
    async def work(served: Served) -> None:
        await put_queues(served)
        async with (
            served.browser("admin-token") as admin,
            admin.post(served.url("api/actions"), json=STOP) as response,
        ):
            assert 403 == response.status
        queue = await served.client.get(CLUSTER_QUEUES, Key("", "shared"))
        assert queue["spec"].get("stopPolicy") in (None, "None")

    serving(work, actions=True)
