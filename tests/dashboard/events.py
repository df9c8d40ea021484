# SPDX-License-Identifier: Apache-2.0
"""Reads server-sent events as a browser does, and objects for streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from dashboard.served import Served
from kuota.api.base import Json, Key
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOADS,
)

HEADERS = {"Accept": "text/event-stream"}


class Events:
    """The events of one stream. `text` is everything that was received."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.text = ""

    async def next(self) -> tuple[str, Any]:
        """Return the next event and its data; comments are skipped. Fails at the end."""
        name = ""
        while True:
            line = await asyncio.wait_for(self._line(), 10)
            if line.startswith("event: "):
                name = line.removeprefix("event: ").strip()
            elif line.startswith("data: "):
                return name, json.loads(line.removeprefix("data: "))

    async def until(self, fragment: str) -> tuple[str, Any]:
        """Return the first event whose data contains the text."""
        while True:
            name, data = await self.next()
            if fragment in json.dumps(data):
                return name, data

    async def rest(self) -> str:
        """Return what remains until the stream ends."""
        found = (await asyncio.wait_for(self.response.content.read(), 10)).decode()
        self.text += found
        return found

    async def _line(self) -> str:
        line = (await self.response.content.readline()).decode()
        assert line, "the stream has ended"
        self.text += line
        return line


@asynccontextmanager
async def stream(
    served: Served, session: aiohttp.ClientSession, query: str
) -> AsyncIterator[Events]:
    """Open a stream, such as `view=workloads`."""
    url = served.url(f"api/stream?{query}")
    async with session.get(url, headers=HEADERS, read_bufsize=2**24) as response:
        assert 200 == response.status, await response.text()
        yield Events(response)


async def put_queues(served: Served) -> None:
    """Create a ClusterQueue for both teams, and a LocalQueue in each namespace."""
    await served.client.create(RESOURCE_FLAVORS, _object(RESOURCE_FLAVORS.kind, "default", {}))
    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}],
    }
    spec: Json = {"namespaceSelector": {}, "resourceGroups": [group]}
    await served.client.create(CLUSTER_QUEUES, _object("ClusterQueue", "shared", spec))
    for team in ("vision", "speech"):
        local = _object("LocalQueue", f"{team}-queue", {"clusterQueue": "shared"}, team)
        await served.client.create(LOCAL_QUEUES, local)


async def put_workload(served: Served, namespace: str, name: str, **spec: Any) -> Json:
    """Create a pending Workload of one pod."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    pods = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    body: Json = {"queueName": f"{namespace}-queue", "podSets": [pods], **spec}
    return await served.client.create(WORKLOADS, _object("Workload", name, body, namespace))


async def put_status(served: Served, namespace: str, name: str, status: Json) -> None:
    patch = {"status": status}
    key = Key(namespace, name)
    await served.client.patch(WORKLOADS, key, patch, subresource="status")


def _object(kind: str, name: str, spec: Json, namespace: str = "") -> Json:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    found: Json = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata}
    return found | {"spec": spec}
