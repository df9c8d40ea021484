# SPDX-License-Identifier: Apache-2.0
"""Serves liveness and readiness probes.

Paths and texts are those of Kueue: `/healthz` and `/readyz`, each with its checks as subpaths
(`/readyz/webhooks`), and a list of all checks with `?verbose`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping

from aiohttp import web

from kuota.api.config.shapes import Health
from kuota.listening import Listeners

Check = Callable[[], str]
"""The reason of a failure; "" if the check passes."""

LIVE = "healthz"
READY = "readyz"


def alive() -> str:
    """Always pass: a process that responds is alive."""
    return ""


class Probes:
    """Serves two groups of checks over HTTP, at the paths in the configuration."""

    def __init__(self, health: Health, ready: Mapping[str, Check]) -> None:
        self._listeners = Listeners(self._answer)
        live: Mapping[str, Check] = {"ping": alive}
        self._groups = {
            _path(health.liveness_endpoint_name or LIVE): live,
            _path(health.readiness_endpoint_name or READY): ready,
        }

    async def serve(self, at: socket.socket) -> int:
        """Serve on a listening socket until closed; returns its port."""
        return await self._listeners.open(at)

    async def close(self) -> None:
        await self._listeners.close()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path.rstrip("/")
        for root, checks in self._groups.items():
            if path == root:
                return _summary(root, checks, verbose="verbose" in request.query)
            name = path.removeprefix(f"{root}/")
            if name in checks:
                return _summary(root, {name: checks[name]}, verbose=False)
        return web.Response(status=404, text="404 page not found\n")


def _path(name: str) -> str:
    return f"/{name.strip('/')}"


def _summary(root: str, checks: Mapping[str, Check], *, verbose: bool) -> web.Response:
    faults = {name: check() for name, check in checks.items()}
    healthy = not any(faults.values())
    if healthy and not verbose:
        return web.Response(text="ok")
    lines = [f"[-]{name} failed: {why}" if why else f"[+]{name} ok" for name, why in faults.items()]
    verdict = "passed" if healthy else "failed"
    text = "\n".join([*lines, f"{root.removeprefix('/')} check {verdict}", ""])
    return web.Response(status=200 if healthy else 500, text=text)
