# SPDX-License-Identifier: Apache-2.0
"""`kuota controller` as processes on a real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from cluster.kube_server import KubeServer
from controller.site import Ground
from kuota.api.base import Json
from kuota.kube.http_client import http_client

WRITERS = "--parts=core,scheduler,jobs"


class Controllers(Ground):
    """A real API server, and controllers that are killed at the end."""

    def __init__(self, server: KubeServer, folder: Path, stack: AsyncExitStack) -> None:
        super().__init__(folder, http_client(server.connection()), stack)
        stack.push_async_callback(self.admin.close)
        self._server = server

    @property
    def kubeconfig(self) -> Path:
        return self._server.kubeconfig


@asynccontextmanager
async def controllers(server: KubeServer, folder: Path) -> AsyncIterator[Controllers]:
    async with AsyncExitStack() as stack:
        yield Controllers(server, folder, stack)


def electing(namespace: str, *, quick: bool = True) -> Json:
    """A configuration with the Lease in a namespace that is there."""
    times = {"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "300ms"}
    return {"leaderElection": {"resourceNamespace": namespace} | (times if quick else {})}
