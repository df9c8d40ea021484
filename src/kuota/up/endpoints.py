# SPDX-License-Identifier: Apache-2.0
"""The addresses of one machine: loopback, a Unix socket and other machines; API and dashboard."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from datetime import UTC, datetime

from kuota import __version__
from kuota.bridge.settings import policy
from kuota.connections import Connections, raise_descriptor_limit
from kuota.dashboard.http import PREFIX
from kuota.listening import CannotListen
from kuota.runner.proc import start_ticks
from kuota.server.api import ApiServer
from kuota.server.http import HttpServer, server_context
from kuota.server.streaming.sessions import SessionLimits

from . import kubeconfig
from .dashboard import machine_dashboard
from .host import Host
from .options import UpOptions
from .state_dir import RunningInstance, StateDir


class Endpoints:
    """Serves an ApiServer and the dashboard at all addresses until the stack is closed."""

    def __init__(self, api: ApiServer, state_dir: StateDir, options: UpOptions) -> None:
        self._api = api
        self._state_dir = state_dir
        self._options = options
        self.sessions = SessionLimits()
        self.http = HttpServer(api, self.sessions, Connections(raise_descriptor_limit()))

    async def open(self, token: str, host: Host, stack: AsyncExitStack) -> int:
        """Listen, write a kubeconfig with the admin's token, and announce the instance.

        Returns the port. Raises CannotListen and OSError.
        """
        state_dir, external = self._state_dir, self._options.external_listener
        stack.push_async_callback(self.http.close)
        self._mount_dashboard(stack)
        port = await self._listen_here()
        if external is not None:
            await self.http.listen(external.host, external.port, external.tls)
        await self.http.listen_unix(state_dir.socket)
        authority = (state_dir.tls / "server.crt").read_bytes()
        kubeconfig.write(state_dir.kubeconfig, f"https://127.0.0.1:{port}", token, authority)
        pid, run_as, mode = os.getpid(), self._options.run_as, host.isolation.mode
        state_dir.announce(
            RunningInstance(pid, start_ticks(pid), port, __version__, run_as, mode, host.limits)
        )
        stack.callback(state_dir.retire)
        return port

    def _mount_dashboard(self, stack: AsyncExitStack) -> None:
        dashboard = machine_dashboard(
            self._api,
            policy(self._options.config, self._options.gates),
            actions=self._options.dashboard_actions,
        )
        stack.push_async_callback(dashboard.feed.close)
        self.http.mount(PREFIX, dashboard.dashboard.answer)

    async def _listen_here(self) -> int:
        """Listen on loopback, on the port of existing kubeconfigs if it is free."""
        context = server_context(self._state_dir.tls, datetime.now(UTC))
        wanted = self._options.port or kubeconfig.port_of(self._state_dir.kubeconfig)
        try:
            return await self.http.listen(port=wanted, tls=context)
        except CannotListen:
            if self._options.port:
                raise
            return await self.http.listen(tls=context)
