# SPDX-License-Identifier: Apache-2.0
"""A real API server with Kueue's CustomResourceDefinitions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path

import yaml

from cluster.kube_server import KubeServer, programs
from hang import HANG_S
from kuota.api.base import Json
from kuota.kube.client import Client
from kuota.kube.errors import AlreadyExists
from kuota.kube.resources import ALL, CRDS

MANIFESTS = Path(__file__).parents[2] / "manifests" / "crds"
_GROUP = "kueue.x-k8s.io"


@contextmanager
def installed(folder: Path) -> Iterator[KubeServer]:
    """A server with Kueue's kinds and Kubernetes' own controllers."""
    server = KubeServer(folder, programs())
    try:
        server.start()
        asyncio.run(install_crds(server))
        server.run("kube-controller-manager")
        yield server
    finally:
        server.close()


async def install_crds(server: KubeServer) -> None:
    """Create all kinds, and return when they are served."""
    async with server.client() as client:
        for file in sorted(MANIFESTS.glob("*.yaml")):
            with suppress(AlreadyExists):
                await client.create(CRDS, yaml.safe_load(file.read_text()))
        async with asyncio.timeout(HANG_S):
            await _established_all(client)
            for resource in ALL:
                if resource.group == _GROUP:
                    # Just after its birth a kind answers that it is not ready; that is retried.
                    await client.list(resource)


async def _established_all(client: Client) -> None:
    listing = await client.list(CRDS)
    waiting = {each["metadata"]["name"] for each in listing.items if not _established(each)}
    if not waiting:
        return
    async with aclosing(client.watch(CRDS, since=listing.revision)) as events:
        async for event in events:
            if _established(event.object):
                waiting.discard(event.object["metadata"]["name"])
            if not waiting:
                return


def _established(crd: Json) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(e["type"] == "Established" and e["status"] == "True" for e in conditions)
