# SPDX-License-Identifier: Apache-2.0
"""`kuota logs -f` and `kuota run` survive a restart of the control plane."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack

import pytest

from hang import HANG_S
from up.machine import KUOTA, Machine


@pytest.mark.slow
def test_a_log_goes_on_where_it_broke_and_the_exit_status_is_the_commands(machine: Machine) -> None:
    line = machine.state.parent / "line"
    script = (
        f"echo begun; for n in 1 2 3; do while [ ! -e {line}$n ]; do sleep 0.05; done; echo $n; "
        "done; exit 3"
    )
    with ExitStack() as stack:

        def started(*arguments: str) -> subprocess.Popen[str]:
            return stack.enter_context(
                subprocess.Popen(
                    [KUOTA, *arguments],
                    stdout=subprocess.PIPE,
                    text=True,
                    env=machine.environment,
                )
            )

        run = started("run", "--quiet", "--name", "long", "--", "sh", "-c", script)
        assert run.stdout is not None
        assert "begun\n" == run.stdout.readline()
        tail = started("logs", "-f", "--tail", "1", "job/long")
        assert tail.stdout is not None
        assert "begun\n" == tail.stdout.readline()
        line.with_name("line1").touch()
        assert "1\n" == run.stdout.readline() == tail.stdout.readline()
        machine.kill()
        line.with_name("line2").touch()
        machine.up("--gpus", "2")
        line.with_name("line3").touch()
        assert ["2\n", "3\n"] == run.stdout.readlines() == tail.stdout.readlines()
        assert (3, 0) == (run.wait(HANG_S), tail.wait(HANG_S))
