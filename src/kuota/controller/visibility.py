# SPDX-License-Identifier: Apache-2.0
"""The visibility API of the controller, which every replica serves."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from kuota.kube.client import Client
from kuota.kube.clock import Clock

from .aggregation import Aggregation, serve
from .flags import ControllerSettings

if TYPE_CHECKING:
    from kuota.control.system import System

SERVICE = "kueue-visibility-server"
ENTRY = "visibility-"
"""The prefix of this certificate's keys in the Secret of the webhooks."""


class VisibilityPart:
    """Serves until cancelled, as soon as the queues are known."""

    def __init__(self, settings: ControllerSettings, client: Client, clock: Clock) -> None:
        self._settings = settings
        self._client = client
        self._clock = clock

    async def run(self, system: System, at: socket.socket) -> None:
        """Serve on the socket."""
        await system.cache.ready()
        from kuota.control.observer import CacheReader
        from kuota.visibility import explanation
        from kuota.visibility.api import VisibilityApi
        from kuota.visibility.explanation import ExplanationApi
        from kuota.visibility.http import VisibilityServer
        from kuota.visibility.pending import GROUP, VERSIONS
        from kuota.visibility.remote_pods import RemotePodsApi

        objects = CacheReader(system.cache)
        api = VisibilityApi(system.engine, objects)
        explanations = ExplanationApi(system.engine, objects, objects.workload_priorities)
        remote = system.checks.multikueue
        pods = None if remote is None else RemotePodsApi(remote.pods)
        server = VisibilityServer(api, explanations, self._client, self._clock, pods)
        own = f"{explanation.VERSION}.{explanation.GROUP}"
        named = (*(f"{each}.{GROUP}" for each in VERSIONS), own)
        of = Aggregation("the visibility API", SERVICE, named, entry=ENTRY)
        await serve(server, of, at, self._settings, self._client, self._clock)
