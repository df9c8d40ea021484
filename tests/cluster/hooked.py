# SPDX-License-Identifier: Apache-2.0
"""A real API server that calls our webhooks, which run in the event loop of the test.

It is configured with their address only; the webhooks publish the CA bundle themselves.
"""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

import yaml

from cluster.kube_install import MANIFESTS, install_crds
from cluster.kube_server import KubeServer, free_port, programs
from control.objects import flavor, job, namespace, queue
from hang import HANG_S
from kuota.api.base import Json, Key
from kuota.api.config.load import load
from kuota.api.config.shapes import Configuration
from kuota.kube.access import AccessReviews
from kuota.kube.client import Client
from kuota.kube.errors import KubeError
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    CRDS,
    JOBS,
    NAMESPACES,
    RESOURCE_FLAVORS,
    Resource,
)
from kuota.listening import bound
from kuota.pki.serving import serving_context
from kuota.webhook.certificates import CertificateSettings, ManagedCertificate
from kuota.webhook.injection import MUTATING, VALIDATING
from kuota.webhook.lookup import InformerLookup
from kuota.webhook.manifests import configurations
from kuota.webhook.server import Webhooks

T = TypeVar("T")
HOST = "127.0.0.1"
CONFIG = load("""
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
integrations: {frameworks: [batch/job, pod]}
""")
_PAUSE_S = 0.05


class Hooked:
    """The server, and the port at which it expects our webhooks."""

    def __init__(self, server: KubeServer, config: Configuration = CONFIG) -> None:
        self.server = server
        self._config = config
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.port}"

    async def install(self) -> None:
        await install_crds(self.server)
        async with self.server.client() as client:
            for file in sorted(MANIFESTS.glob("*.yaml")):
                crd = yaml.safe_load(file.read_text())
                if crd["spec"]["conversion"]["strategy"] == "Webhook":
                    away = {"service": None, "url": f"{self.url}/convert"}
                    body = {"spec": {"conversion": {"webhook": {"clientConfig": away}}}}
                    await client.patch(CRDS, Key("", crd["metadata"]["name"]), body)
            mutating, validating = configurations(url=self.url)
            await client.create(MUTATING, mutating)
            await client.create(VALIDATING, validating)
            for name in ("team", "kueue-system"):
                await client.create(NAMESPACES, namespace(name))

    @asynccontextmanager
    async def answering(self, *, authors: bool = False) -> AsyncIterator[Client]:
        """Webhooks that answer and are trusted, and a client. They may record authors of jobs."""
        async with self.server.client() as own, self.server.client() as client:
            context = serving_context()
            managed, following = (
                ManagedCertificate(own, context, CertificateSettings(hosts=(HOST,))),
                InformerLookup(own),
            )
            authorizer = AccessReviews(own) if authors else None
            webhooks = Webhooks(following, self._config, authorizer=authorizer)
            tasks = [asyncio.create_task(each.run()) for each in (managed, following)]
            try:
                await managed.ready.wait()
                await webhooks.serve(bound(HOST, self.port), context)
                await eventually(lambda: _asked(client))
                yield client
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await webhooks.close()

    def stored(self, resource: Resource, name: str) -> Json:
        """The object as it lies in etcd."""
        key = f"/registry/{resource.group}/{resource.plural}/{name}"
        body = json.dumps({"key": base64.b64encode(key.encode()).decode()}).encode()
        asked = urllib.request.Request(f"{self.server._etcd}/v3/kv/range", data=body)
        with urllib.request.urlopen(asked) as said:
            (found,) = json.load(said)["kvs"]
        stored: Json = json.loads(base64.b64decode(found["value"]))
        return stored


@contextmanager
def hooked(folder: Path, config: Configuration = CONFIG) -> Iterator[Hooked]:
    """Start a server of one's own: others would wait for webhooks that are not there any more."""
    server = KubeServer(folder, programs())
    try:
        server.start()
        made = Hooked(server, config)
        asyncio.run(made.install())
        yield made
    finally:
        server.close()


async def eventually(attempt: Callable[[], Awaitable[T]]) -> T:
    """What the attempt returns once the API server does not refuse it any more."""
    async with asyncio.timeout(HANG_S):
        while True:
            try:
                return await attempt()
            except KubeError:
                await asyncio.sleep(_PAUSE_S)


async def _asked(client: Client) -> None:
    """Whether the API server asks each webhook, and trusts what it is told."""
    await client.create(RESOURCE_FLAVORS, flavor("probe"), dry_run=True)
    await client.create(CLUSTER_QUEUES, queue("probe"), dry_run=True)
    await client.create(JOBS, job("probe"), dry_run=True)
    old = Resource("kueue.x-k8s.io", "v1beta1", "clusterqueues", "ClusterQueue", namespaced=False)
    await client.create(old, queue("probe") | {"apiVersion": old.api_version}, dry_run=True)
