# SPDX-License-Identifier: Apache-2.0
"""Positions of pending workloads, which members may read by LocalQueue only."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from kuota.api.base import Json, Key
from kuota.cli.workload_list import positions
from kuota.kube.errors import ApiError, Forbidden, NotFound

_API = "/apis/visibility.kueue.x-k8s.io/v1beta2"
QUEUES = {Key("vision", "gpus"): "lab"}


def position_with(responses: dict[str, Json | ApiError]) -> dict[tuple[str, str], str]:
    async def fetch(path: str) -> Json:
        found = responses.get(path.removeprefix(f"{_API}/").removesuffix("/pendingworkloads"))
        if isinstance(found, dict):
            return found
        raise found or NotFound(404, "NotFound", "no such path")

    session = cast(Any, SimpleNamespace(client=SimpleNamespace(fetch=fetch)))
    return asyncio.run(positions(session, QUEUES))


def pending(name: str, place: int) -> Json:
    metadata = {"name": name, "namespace": "vision"}
    return {"metadata": metadata, "positionInClusterQueue": place, "positionInLocalQueue": 0}


def test_admins_read_the_cluster_queue() -> None:
    assert {("vision", "train"): "3"} == position_with(
        {"clusterqueues/lab": {"items": [pending("train", 2)]}}
    )


def test_members_read_their_local_queues() -> None:
    assert {("vision", "train"): "3"} == position_with(
        {
            "clusterqueues/lab": Forbidden(403, "Forbidden", "no"),
            "namespaces/vision/localqueues/gpus": {"items": [pending("train", 2)]},
        }
    )


def test_a_server_without_positions_is_no_error() -> None:
    assert {} == position_with({})
    assert {} == position_with({"clusterqueues/lab": Forbidden(403, "Forbidden", "no")})
