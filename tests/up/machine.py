# SPDX-License-Identifier: Apache-2.0
"""A complete installation in its own directory, used like a user does."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from hang import HANG_S

KUBECTL = os.environ.get("KUOTA_KUBECTL") or str(Path(sys.executable).with_name("kubectl"))
KUOTA = str(Path(sys.executable).with_name("kuota"))


class Machine:
    """An installation in a folder of its own."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.environment = {
            **os.environ,
            "KUOTA_STATE": str(state),
            "KUBECONFIG": str(state / "kubeconfig"),
        }

    def up(self, *options: str) -> None:
        self._run(KUOTA, "up", *options, "--detach")

    def down(self) -> None:
        self._run(KUOTA, "down", "--kill")

    def kill(self) -> None:
        """As the kernel would: at once, with no chance to tidy up."""
        pid = self.pid()
        end = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        assert select.select([end], [], [], HANG_S)[0], "it does not die"
        os.close(end)

    def killed_start(self, after_s: float, *options: str) -> None:
        """Start it, and kill it so much later, ready or not."""
        with subprocess.Popen(
            [KUOTA, "up", *options],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            time.sleep(after_s)
            process.kill()

    def pid(self) -> int:
        """The process of the control plane that runs, or ran last."""
        return int(json.loads((self.state / "running.json").read_bytes())["pid"])

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        return self._run(KUBECTL, *arguments, stdin=stdin)

    def warnings(self, *arguments: str, stdin: str = "") -> str:
        """What kubectl writes to standard error, although it succeeds."""
        done = subprocess.run(
            (KUBECTL, *arguments),
            input=stdin,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=True,
        )
        return done.stderr

    def kuota(self, *arguments: str, stdin: str = "") -> str:
        return self._run(KUOTA, *arguments, stdin=stdin)

    def apply(self, *manifests: str) -> None:
        self.kubectl("apply", "-f", "-", stdin="---\n".join(manifests))

    def get(self, *arguments: str) -> Any:
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def wait(self, what: str, for_: str) -> None:
        self.kubectl("wait", *what.split(), f"--for={for_}", f"--timeout={HANG_S}s")

    def started(self, name: str, pods: int = 1, namespace: str = "default") -> None:
        """Wait until the pods of a Job run."""
        self.wait(f"job/{name} -n {namespace}", f"jsonpath={{.status.ready}}={pods}")

    @contextmanager
    def following(self, *arguments: str) -> Iterator[IO[str]]:
        """What a kubectl that follows something writes, line by line, until it is left."""
        command = (KUBECTL, *arguments)
        with subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            try:
                yield process.stdout
            finally:
                process.terminate()

    def _run(self, *arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            arguments,
            input=stdin,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )
        assert 0 == done.returncode, f"{arguments}\n{done.stdout}{done.stderr}"
        return done.stdout


@contextmanager
def running(*options: str) -> Iterator[Machine]:
    """An installation that is up until it is left."""
    with open_folder() as folder:
        machine = Machine(folder / "state")
        machine.up(*options)
        try:
            yield machine
        finally:
            machine.down()


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that other users may pass through, as whom pods may run; it goes afterwards.

    Not one of pytest's: each session of pytest shuts the folder that they all lie in.
    """
    with TemporaryDirectory(prefix="kuota-test-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder
