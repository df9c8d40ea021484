# SPDX-License-Identifier: Apache-2.0
"""Idle devices of one machine: the event, `kuota gpus`, `kuota describe` and the metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, Any

import pytest

from attack.members import job, join
from up.machine import running


@pytest.mark.slow
def test_an_idle_device_is_reported_to_its_team_and_to_admins(tmp_path: Path) -> None:
    with running("--gpus", "2", "--idle-after", "2", "--idle-below", "1") as machine:
        ann = join(machine, "ann", "vision", tmp_path)
        bob = join(machine, "bob", "speech", tmp_path)
        ann.create(job("asleep", ["sleep", "600"]))
        machine.started("asleep", namespace="vision")
        bob.create(job("busy", ["sh", "-c", "while :; do :; done"]))
        machine.started("busy", namespace="speech")
        with machine.following(
            *("get", "events", "-n", "vision", "-w", "-o", "json"),
            *("--field-selector", "reason=DeviceIdle,involvedObject.kind=Workload"),
        ) as events:
            event = _first(events)
        assert "GPU-pretend-" in event["message"]
        assert "idle since" in event["message"]
        shown = machine.kuota("gpus")
        (idle,) = [each for each in shown.splitlines() if "idle for" in each]
        assert "vision/Job/asleep" in idle
        workload = event["involvedObject"]["name"]
        for what in (f"workload/{workload}", "job/asleep"):
            assert "1 idle for" in machine.kuota("describe", what, "-n", "vision")
        assert "idle" not in machine.kuota("describe", "job/busy", "-n", "speech")
        text = machine.kubectl("get", "--raw", "/metrics")
        samples = dict(line.rpartition(" ")[::2] for line in text.splitlines())
        team = 'cluster_queue="vision",replica_role="standalone",resource="nvidia.com/gpu"'
        team += ',team="vision"'
        assert "1.0" == samples[f"kuota_idle_devices{{{team}}}"]
        assert float(samples[f"kuota_device_idle_seconds_total{{{team}}}"]) >= 2
        assert "No resources" in machine.warnings(
            "get", "events", "-n", "speech", "--field-selector", "reason=DeviceIdle"
        )


def _first(lines: IO[str]) -> Any:
    """The first JSON document of a stream."""
    text = ""
    for line in lines:
        text += line
        if line.startswith("}"):
            return json.loads(text)
    raise AssertionError("no event")
