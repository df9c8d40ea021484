# SPDX-License-Identifier: Apache-2.0
"""A port that cannot be bound ends the controller with a one-line message."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from pathlib import Path

import pytest

from cluster.kube_server import free_port
from controller.site import Running, Site, configuration, run_story
from kuota.api.base import Json
from kuota.api.config.load import load
from kuota.api.gates import Gates
from kuota.control.parts import DEFAULT, Part
from kuota.controller.flags import ControllerSettings
from kuota.controller.ports import PortUnavailable, opened
from kuota.kube.config import Connection
from kuota.listening import bound

HOST = "127.0.0.1"


def _all(**ports: int) -> Json:
    """A configuration in which everything listens on loopback, on free ports unless given."""
    return {
        "health": {"healthProbeBindAddress": f"{HOST}:{ports.get('probes', 0)}"},
        "metrics": {"bindAddress": f"{HOST}:{ports.get('metrics', 0)}"},
        "webhook": {"host": HOST, "port": ports.get("webhooks") or free_port()},
        "visibilityServer": {
            "bindAddress": HOST,
            "bindPort": ports.get("visibility") or free_port(),
        },
    }


NAMED = {
    "probes": "health.healthProbeBindAddress",
    "webhooks": "webhook.port",
    "metrics": "metrics.bindAddress",
    "visibility": "visibilityServer.bindPort",
}


@pytest.mark.parametrize("part", NAMED)
def test_a_taken_port_is_reported_in_one_line_before_anything_is_ready(
    part: str, tmp_path: Path
) -> None:
    async def story(site: Site) -> None:
        with closing(bound(HOST, 0)) as taken:
            port = taken.getsockname()[1]
            running = await site.controller(config=_all(**{part: port}))
            assert 1 == await running.ended()
        said = (
            f"cannot start: cannot serve {part}: cannot listen on {HOST}:{port}: another process "
            f"listens there. Free the port, or choose another one with {NAMED[part]} in the "
            "configuration file"
        )
        assert [said] == _errors(running), str(running)
        assert len(running.raw) == len(running.log), "every line is a log entry, no traceback"
        assert not any("answer" in each["msg"] for each in running.log)

    run_story(story, tmp_path)


def _errors(running: Running) -> list[str]:
    return [each["msg"] for each in running.log if each["level"] == "error"]


def test_two_parts_cannot_share_a_port() -> None:
    port = free_port()
    with pytest.raises(PortUnavailable, match="cannot serve metrics"):
        opened(_settings(_all(probes=port, metrics=port)))
    with closing(bound(HOST, port)) as freed:
        assert isinstance(freed, socket.socket), "a failed start keeps no port"


def test_only_what_is_served_is_opened() -> None:
    found = opened(_settings(_all() | {"metrics": {"bindAddress": "0"}}, Part.CORE))
    assert found.probes is not None
    found.probes.close()
    assert [None, None, None] == [found.webhooks, found.metrics, found.visibility]


def _settings(config: Json, *parts: Part) -> ControllerSettings:
    return ControllerSettings(
        config=load(json.dumps(configuration(config))),
        gates=Gates(),
        connection=Connection(server="http://127.0.0.1:1"),
        parts=frozenset(parts) or DEFAULT,
    )
