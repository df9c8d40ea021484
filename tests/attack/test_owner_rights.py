# SPDX-License-Identifier: Apache-2.0
"""Owner references give a member no power over objects of others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kuota.api.base import Json
from server.served import ADMIN, ANN, MAPS, MERGE, Local, config_map, namespace

MINE = MAPS.replace("default", "a-ns")
MERGE_OWNERS = {"media": MERGE, "user": ANN}


@pytest.fixture
def api() -> Iterator[Local]:
    local = Local()
    local.ask("POST", "/api/v1/namespaces", namespace("a-ns", "team-a"))
    yield local
    local.close()


def owned(name: str, owner: Json, **more: object) -> Json:
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    metadata = {"name": name, "ownerReferences": [reference | more]}
    return config_map(name) | {"metadata": metadata}


def test_a_member_cannot_block_the_deletion_of_a_shared_object(api: Local) -> None:
    flavor = {"metadata": {"name": "gpus"}}
    shared = api.ask("POST", "/apis/kueue.x-k8s.io/v1beta2/resourceflavors", flavor)
    blocking = owned("m", shared, blockOwnerDeletion=True)
    assert 403 == api.refusal("POST", MINE, blocking, user=ANN)["code"]
    api.ask("POST", MINE, owned("m", shared), user=ANN)
    change = {"metadata": {"ownerReferences": blocking["metadata"]["ownerReferences"]}}
    assert 403 == api.refusal("PATCH", f"{MINE}/m", change, **MERGE_OWNERS)["code"]
    api.ask("POST", MINE, blocking | {"metadata": blocking["metadata"] | {"name": "n"}}, user=ADMIN)
    api.ask("PATCH", f"{MINE}/n", {"data": {"a": "b"}}, **MERGE_OWNERS)


def test_a_member_may_block_the_deletion_of_own_objects(api: Local) -> None:
    mine = api.ask("POST", MINE, config_map("mine"), user=ANN)
    api.ask("POST", MINE, owned("m", mine, blockOwnerDeletion=True), user=ANN)
