# SPDX-License-Identifier: Apache-2.0
"""The list of differences from Kueue in docs/migrate.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kuota.api.config.load import load
from kuota.api.gates import GATES, Gates
from kuota.controller.flags import ControllerSettings
from kuota.engine.activity import InactiveReason
from kuota.engine.reasons import WaitReason
from kuota.kube.config import Connection
from kuota.kube.events import BURST, FEW_WAITING, FLOOD_QPS, MOST_WAITING, OBJECT_BURST

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "migrate.md").read_text(encoding="utf-8")
SECTION = TEXT.partition("## Differences")[2].partition("\n## ")[0]


def test_every_gate_that_nothing_reads_is_listed() -> None:
    listed = re.search(r"<!-- gates without effect[^\n]*\n(.*?)\n<!--", SECTION, re.DOTALL)
    assert listed is not None
    sources = [each for each in (ROOT / "src").rglob("*.py") if each.name != "gates.py"]
    read = set(re.findall(r"\bGate\.(\w+)", "".join(map(_text, sources))))
    unread = sorted(str(gate) for gate in GATES if gate.name not in read)
    assert unread == re.findall(r"`(\w+)`", listed[1])


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_every_setting_without_effect_is_listed() -> None:
    asked = """
        apiVersion: config.kueue.x-k8s.io/v1beta2
        kind: Configuration
        pprofBindAddress: :6060
        controller: {groupKindConcurrency: {Job.batch: 5}, cacheSyncTimeout: 1}
        tls: {curvePreferences: [29]}
    """
    settings = ControllerSettings(
        config=load(asked), gates=Gates(), connection=Connection(server="x")
    )
    named = list(settings.without_effect)
    assert 4 == len(named)
    assert all(f"`{each}`" in SECTION for each in named)


@pytest.mark.parametrize("reason", [InactiveReason.INVALID.value, WaitReason.INTERNAL_ERROR.value])
def test_reasons_that_kueue_does_not_have_are_listed(reason: str) -> None:
    assert f"`{reason}`" in SECTION


def test_the_limits_of_events_are_those_of_the_recorder() -> None:
    (row,) = (line for line in SECTION.splitlines() if line.startswith("| Any |"))
    for number in (OBJECT_BURST, BURST, int(FLOOD_QPS), MOST_WAITING):
        assert str(number) in row
    assert f"more than {FEW_WAITING} events" in SECTION
