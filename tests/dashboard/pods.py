# SPDX-License-Identifier: Apache-2.0
"""Running pods of tests, and their logs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from dashboard.served import Served
from kuota.api.base import Json, Key
from kuota.kube.resources import PODS
from kuota.server.pods import LogOptions


async def log(pod: Json, options: LogOptions) -> AsyncIterator[bytes]:
    """Two lines, and an endless silence after them if the log is followed."""
    yield f"{pod['metadata']['name']} <script>alert(1)</script>\n".encode()
    yield f"tail={options.tail_lines}\n".encode()
    if options.follow:
        await asyncio.Event().wait()


async def put_pod(served: Served, namespace: str, name: str) -> None:
    pod: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
    pod["metadata"]["namespace"] = namespace
    pod["spec"] = {"containers": [{"name": "main", "image": "none"}]}
    await served.client.create(PODS, pod)
    running: Json = {
        "name": "main",
        "image": "none",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
    }
    running["state"] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    status = {"phase": "Running", "containerStatuses": [running]}
    await served.client.patch(PODS, Key(namespace, name), {"status": status}, subresource="status")
