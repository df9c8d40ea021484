# SPDX-License-Identifier: Apache-2.0
"""A real API server with an audit log, and functions to query it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress

from cluster.kube_server import KubeServer
from hang import HANG_S
from kuota.api.base import Json, Key
from kuota.kube.client import Client
from kuota.kube.errors import AlreadyExists
from kuota.kube.resources import ALL, Resource, key_of

_BY_KIND = {each.kind: each for each in ALL}


class Audited(KubeServer):
    """A server that writes down who asked for what, and what it answered."""

    def _server_flags(self) -> list[str]:
        policy = self.folder / "audit.yaml"
        rules = [{"level": "Metadata", "omitStages": ["RequestReceived"]}]
        wanted = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
        policy.write_text(json.dumps(wanted))
        log = self.folder / "audit.log"
        return [
            *super()._server_flags(),
            f"--audit-policy-file={policy}",
            f"--audit-log-path={log}",
        ]

    def asked_by(self, user: str) -> list[Json]:
        lines = (self.folder / "audit.log").read_text().splitlines()
        return [each for each in map(json.loads, lines) if each["user"]["username"] == user]


def conversing(server: KubeServer, work: Callable[[Client], Awaitable[None]]) -> None:
    """Do something with a client that may do everything."""

    async def conversed() -> None:
        async with server.client() as client, asyncio.timeout(HANG_S):
            await work(client)

    asyncio.run(conversed())


async def create(client: Client, *manifests: Json) -> None:
    for each in manifests:
        with suppress(AlreadyExists):
            await client.create(_BY_KIND[each["kind"]], each)


async def until(
    client: Client, resource: Resource, key: Key, true: Callable[[Json], object]
) -> Json:
    """The object as soon as that is true of it."""
    while True:
        listed = await client.list(resource, key.namespace or None)
        found = [each for each in listed.items if key_of(each) == key and true(each)]
        if found:
            return found[0]
        async for _ in client.watch(resource, key.namespace or None, since=listed.revision):
            break
