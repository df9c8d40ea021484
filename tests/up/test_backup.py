# SPDX-License-Identifier: Apache-2.0
"""`kuota backup` and `kuota restore` on a running system."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kuota.cli.main import main
from up.lab import job, queues
from up.machine import Machine

WAIT = "while :; do sleep 0.05; done"


def kuota(machine: Machine, *arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, [*arguments, "--state", str(machine.state)])
    assert code == done.exit_code, done.output
    return done.output


@pytest.mark.slow
def test_a_system_goes_on_from_a_backup_made_while_it_ran(machine: Machine) -> None:
    copy, gate = machine.state.parent / "copy", machine.state.parent / "gate"
    script = f"while [ ! -e {gate} ]; do sleep 0.05; done; echo done"
    machine.apply(queues(), job("kept", script))
    machine.started("kept")
    assert "KiB" in kuota(machine, "backup", str(copy))
    machine.apply(job("later", f"echo $$ > {gate}.pid; {WAIT}"))
    machine.started("later")

    assert "kuota down" in kuota(machine, "restore", str(copy), code=1)
    kuota(machine, "down")
    restored = kuota(machine, "restore", str(copy))
    assert 1 == len(list(machine.state.glob("kuota.db.before-*")))
    assert f"{machine.state / 'kuota.db'}.before-" in restored

    machine.up("--gpus", "2")
    assert ["kept"] == [each["metadata"]["name"] for each in machine.get("jobs")["items"]]
    gate.touch()
    machine.wait("job/kept", "condition=complete")
    assert "done\n" == machine.kubectl("logs", "job/kept")
    # The device of the process that no pod stands for any more is free again.
    machine.apply(job("both", "echo both", gpus=2))
    machine.wait("job/both", "condition=complete")


def test_a_backup_of_a_system_at_rest_and_of_none(tmp_path: Path) -> None:
    none = Machine(tmp_path / "none")
    assert "there is no store" in kuota(none, "backup", str(tmp_path / "copy"), code=1)
    assert "does not exist" in kuota(none, "restore", str(tmp_path / "copy"), code=2)
    assert not (tmp_path / "copy").exists()
