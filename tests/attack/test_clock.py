# SPDX-License-Identifier: Apache-2.0
"""The system clock of a machine jumps by hours, also around a restart of the control plane."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from up.machine import Machine, open_folder

HOURS_S = 3 * 3600
# Adds the number in a file to the system clock of a process, and to no other clock.
SKEW = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>
int clock_gettime(clockid_t which, struct timespec *found) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(which, found);
    FILE *file = which == CLOCK_REALTIME ? fopen("SKEW_FILE", "r") : NULL;
    long seconds = 0;
    if (file) {
        if (fscanf(file, "%ld", &seconds) == 1) found->tv_sec += seconds;
        fclose(file);
    }
    return result;
}
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]


class JumpingMachine(Machine):
    """A machine whose system clock the test sets."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "state")
        self._skew = folder / "skew"
        library = folder / "skew.so"
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library), "-ldl"],
            input=SKEW.replace("SKEW_FILE", str(self._skew)),
            text=True,
            check=True,
        )
        self.environment["LD_PRELOAD"] = str(library)

    def jump(self, seconds: int) -> None:
        self._skew.write_text(str(seconds))


@pytest.fixture
def machine() -> Iterator[JumpingMachine]:
    with open_folder() as folder:
        found = JumpingMachine(folder)
        found.up()
        try:
            yield found
        finally:
            found.down()


def job(name: str, deadline_s: int, command: str) -> str:
    container = {"name": "main", "image": "none", "command": ["sh", "-c", command]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"activeDeadlineSeconds": deadline_s, "backoffLimit": 0, "template": template},
    }
    return json.dumps(manifest) + "\n"


@pytest.mark.parametrize("jump_s", [-HOURS_S, HOURS_S])
def test_deadlines_survive_a_jump_and_a_restart(machine: JumpingMachine, jump_s: int) -> None:
    machine.apply(job("patient", 600, "sleep 1000"))
    machine.started("patient")
    machine.jump(jump_s)
    machine.apply(job("brief", 3, "sleep 1000"), job("quick", 600, "true"))
    machine.wait("job/brief", "condition=failed")
    machine.wait("job/quick", "condition=complete")
    machine.kill()
    machine.up()
    machine.apply(job("after", 3, "sleep 1000"))
    machine.wait("job/after", "condition=failed")
    status = machine.get("job", "patient")["status"]
    assert 1 == status.get("active"), status
