# SPDX-License-Identifier: Apache-2.0
"""The sockets of one controller process, all of them opened before anything else starts.

A port that cannot be used is therefore known before the process reports that it is ready.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack

import msgspec

from kuota.api.gates import Gate
from kuota.control.parts import Part

from .flags import Address, ControllerSettings, address


class PortUnavailable(Exception):
    """A port of the controller cannot be used. The message also says what to do."""


class Ports(msgspec.Struct, frozen=True):
    """Listening sockets; None for what this process does not serve."""

    probes: socket.socket | None = None
    webhooks: socket.socket | None = None
    metrics: socket.socket | None = None
    visibility: socket.socket | None = None
    dashboard: socket.socket | None = None

    def close(self) -> None:
        """Close the sockets that no server has closed."""
        for each in (self.probes, self.webhooks, self.metrics, self.visibility, self.dashboard):
            if each is not None:
                each.close()


_SETTINGS = {
    "probes": "health.healthProbeBindAddress in the configuration file",
    "webhooks": "webhook.port in the configuration file",
    "metrics": "metrics.bindAddress in the configuration file",
    "visibility": "visibilityServer.bindPort in the configuration file",
    "dashboard": "--dashboard-address",
}


def opened(settings: ControllerSettings) -> Ports:
    """Open every port that the settings ask for. Raises PortUnavailable; then none is open."""
    wanted = _wanted(settings)
    if not wanted:
        return Ports()
    # HTTP servers take long to import, so a process that serves nothing does not do it.
    from kuota.listening import CannotListen, bound

    found: dict[str, socket.socket] = {}
    with ExitStack() as stack:
        for name, at in wanted.items():
            try:
                found[name] = stack.enter_context(bound(at.host, at.port))
            except CannotListen as error:
                raise PortUnavailable(
                    f"cannot serve {name}: {error}. Free the port, or choose another one with "
                    f"{_SETTINGS[name]}"
                ) from error
        stack.pop_all()
    return Ports(**found)


def _wanted(settings: ControllerSettings) -> dict[str, Address]:
    config, parts = settings.config, settings.parts
    found = {"probes": address(config.health.health_probe_bind_address)}
    if Part.HISTORY not in parts:
        found["metrics"] = address(config.metrics.bind_address)
    if Part.WEBHOOKS in parts:
        found["webhooks"] = Address(config.webhook.host, config.webhook.port or 0)
    visible = Part.VISIBILITY in parts and settings.gates.on(Gate.VisibilityOnDemand)
    if visible or Part.HISTORY in parts:
        from kuota.visibility.aggregated import serving

        at = serving(config)
        found["visibility"] = Address(at.host, at.port)
    if Part.DASHBOARD in parts:
        found["dashboard"] = settings.dashboard.address
    return {name: each for name, each in found.items() if each is not None}
