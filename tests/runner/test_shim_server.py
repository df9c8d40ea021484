# SPDX-License-Identifier: Apache-2.0
"""The server that forks shims survives the runner."""

from __future__ import annotations

import marshal
import os
import socket
import subprocess
import sys
from pathlib import Path

from hang import HANG_S

SERVE = "from kuota.runner.shim_server import serve; serve()"


def test_a_runner_that_is_killed_before_it_hears_the_answer_ends_it_quietly(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-c", SERVE]
    with subprocess.Popen(command, stdin=theirs.fileno(), stderr=subprocess.PIPE) as server:
        theirs.close()
        plan = os.memfd_create("plan")
        os.write(plan, marshal.dumps({}))
        os.lseek(plan, 0, os.SEEK_SET)
        errors, lock = (os.open(tmp_path / each, os.O_CREAT | os.O_RDWR) for each in ("e", "l"))
        ready, ready_write = os.pipe()
        socket.send_fds(ours, [b"s"], [plan, errors, ready_write, lock])
        for fd in (plan, errors, lock, ready_write):
            os.close(fd)
        os.read(ready, 1)  # the shim has come and gone; its pidfd lies in the line, unread
        os.close(ready)
        ours.close()
        _, said = server.communicate(timeout=HANG_S)
    assert (0, b"") == (server.returncode, said)
