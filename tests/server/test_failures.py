# SPDX-License-Identifier: Apache-2.0
"""Background tasks of the embedded server continue after a bug, which is counted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from control.virtual import played
from kuota.api.base import Json, Key
from kuota.failures import COUNTS
from kuota.kube.resources import CONFIG_MAPS, NAMESPACES
from kuota.server.api import ApiServer
from kuota.server.changes import Change
from kuota.server.collector import Collector, StoreWriter
from kuota.server.namespaces import Namespaces
from kuota.server.rest import Rest
from kuota.server.store import Store
from kuota.up.local import local_client

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
GARBAGE = "garbage collector"


def owned(name: str, owner: str = "") -> Json:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": f"<{owner}>"}
    owners = {"ownerReferences": [reference]} if owner else {}
    meta = {"name": name, "namespace": "default", "uid": f"<{name}>"} | owners
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


class FailingDeletes(StoreWriter):
    """A writer with a bug that shows at the first attempts to delete one object."""

    left = 2

    def delete(self, resource: str, obj: Json, policy: str) -> None:
        if obj["metadata"]["name"] == "bad" and self.left:
            self.left -= 1
            raise RuntimeError("a bug")
        super().delete(resource, obj, policy)


def test_an_object_that_cannot_be_collected_is_tried_again_and_holds_up_no_other() -> None:
    before = COUNTS[GARBAGE]

    async def story() -> None:
        store = Store.open(":memory:")
        api = ApiServer(store)
        writer = FailingDeletes(store, api.kinds, lambda: NOW)
        for each in (owned("owner"), owned("bad", "owner"), owned("good", "owner")):
            store.create("configmaps", each)
        loop = asyncio.create_task(Collector(store, api.kinds, writer).run())
        await asyncio.sleep(1)
        store.delete("configmaps", Key("default", "owner"))
        await asyncio.sleep(1)
        assert ["bad"] == [each["metadata"]["name"] for each in store.list("configmaps").items]
        await asyncio.sleep(30)
        assert [] == store.list("configmaps").items
        store.close()
        await loop

    played(story())
    assert COUNTS[GARBAGE] == before + 2


def test_a_garbage_collector_that_dies_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before, takes, bugs = COUNTS[GARBAGE], Collector._take, [RuntimeError("a bug")]

    def take(self: Collector, changes: Iterable[Change]) -> None:
        news = list(changes)
        if news and bugs:
            raise bugs.pop()
        takes(self, news)

    monkeypatch.setattr(Collector, "_take", take)

    async def story() -> None:
        store = Store.open(":memory:")
        api = ApiServer(store)
        await api.start()
        client = local_client(api)
        made = await client.create(CONFIG_MAPS, owned("owner"))
        child = owned("child", "owner")
        child["metadata"]["ownerReferences"][0]["uid"] = made["metadata"]["uid"]
        await client.create(CONFIG_MAPS, child)
        await asyncio.sleep(0)
        await client.delete(CONFIG_MAPS, Key("default", "owner"), propagation="Background")
        await asyncio.sleep(10)
        assert [] == (await client.list(CONFIG_MAPS)).items
        await api.close()
        store.close()

    played(story())
    assert COUNTS[GARBAGE] == before + 1


def test_a_namespace_whose_deletion_failed_goes_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    empties, bugs = Namespaces._empty, [RuntimeError("a bug")]

    async def empty(self: Namespaces, name: str, rest: Rest) -> None:
        if bugs:
            raise bugs.pop()
        await empties(self, name, rest)

    monkeypatch.setattr(Namespaces, "_empty", empty)

    async def story() -> None:
        store = Store.open(":memory:")
        api = ApiServer(store)
        await api.start()
        client = local_client(api)
        await client.create(NAMESPACES, {"metadata": {"name": "team"}})
        await client.delete(NAMESPACES, Key("", "team"))
        await asyncio.sleep(10)
        assert "team" not in {e["metadata"]["name"] for e in (await client.list(NAMESPACES)).items}
        await api.close()
        store.close()

    played(story())
