# SPDX-License-Identifier: Apache-2.0
"""Whether a Lease is held is determined by observation, without comparing clocks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kube.tiny_server import TinyServer
from kube.virtual_time import VirtualClock, run
from kuota.api.base import Json, Key
from kuota.kube.client import Client
from kuota.kube.lease import holder_named

KEY = Key("kueue-system", "lock")
PATH = "/apis/coordination.k8s.io/v1/namespaces/kueue-system/leases/lock"


def renew(server: TinyServer, manager: str, holder: str, renewed: str = "12:00:00") -> None:
    """As that manager would write the Lease, with the server's record of who wrote it."""
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}
    server.put(PATH, spec=spec)
    wrote: Json = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "coordination.k8s.io/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:holderIdentity": {}, "f:renewTime": {}}},
    }
    server.objects[PATH]["metadata"]["managedFields"] = [wrote]


def looked(server: TinyServer, later: Callable[[], None] | None = None) -> tuple[str, float]:
    """Which Kuota leads, and how long it took to know; `later` happens after two seconds."""
    clock = VirtualClock()

    async def meanwhile() -> None:
        await clock.sleep(2)
        if later is not None:
            later()

    async def story() -> tuple[str, float]:
        task = asyncio.create_task(meanwhile())
        found = await holder_named(Client(server, clock=clock), KEY, "kuota", clock)
        took = clock.monotonic()
        task.cancel()
        return found, took

    return run(clock, story())


def test_without_a_lease_there_is_no_leader() -> None:
    assert ("", 0) == looked(TinyServer())


@pytest.mark.parametrize(("manager", "holder"), [("kuota", ""), ("kueue", "pod-1")])
def test_one_that_was_given_back_or_that_another_holds_is_no_matter(
    manager: str, holder: str
) -> None:
    server = TinyServer()
    renew(server, manager, holder)
    assert ("", 0) == looked(server)


def test_one_that_is_renewed_is_held() -> None:
    server = TinyServer()
    renew(server, "kuota", "pod-1")
    found, took = looked(server, lambda: renew(server, "kuota", "pod-1", "12:00:02"))
    assert ("pod-1", True) == (found, took < 3)


def test_a_lease_that_is_never_renewed_has_no_holder() -> None:
    server = TinyServer()
    renew(server, "kuota", "pod-1")
    assert ("", 15) == looked(server)


@pytest.mark.parametrize(("manager", "holder"), [("kuota", ""), ("kueue", "pod-2")])
def test_one_that_changes_hands_meanwhile_is_held_no_more(manager: str, holder: str) -> None:
    server = TinyServer()
    renew(server, "kuota", "pod-1")
    found, took = looked(server, lambda: renew(server, manager, holder, "12:00:02"))
    assert ("", True) == (found, took < 3)
