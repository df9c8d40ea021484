# SPDX-License-Identifier: Apache-2.0
"""An installation of the whole system in a folder of its own, driven as a user drives it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

KUBECTL = os.environ.get("KUOTA_KUBECTL") or str(Path(sys.executable).with_name("kubectl"))
KUOTA = str(Path(sys.executable).with_name("kuota"))


class Machine:
    """An installation in a folder of its own."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self._environment = {
            **os.environ,
            "KUOTA_STATE": str(state),
            "KUBECONFIG": str(state / "kubeconfig"),
        }

    def up(self, *options: str) -> None:
        user = ["--run-as", "nobody"] if os.geteuid() == 0 else []
        self._run(KUOTA, "up", *options, "--detach", *user)

    def down(self) -> None:
        self._run(KUOTA, "down", "--kill")

    def kill(self) -> None:
        """As the kernel would: at once, with no chance to tidy up."""
        pid = json.loads((self.state / "running.json").read_bytes())["pid"]
        end = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        assert select.select([end], [], [], 30)[0], "it does not die"
        os.close(end)

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        return self._run(KUBECTL, *arguments, stdin=stdin)

    def apply(self, *manifests: str) -> None:
        self.kubectl("apply", "-f", "-", stdin="---\n".join(manifests))

    def get(self, *arguments: str) -> Any:
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def wait(self, what: str, for_: str) -> None:
        self.kubectl("wait", *what.split(), f"--for={for_}", "--timeout=60s")

    def started(self, name: str, pods: int = 1, namespace: str = "default") -> None:
        """Wait until the pods of a Job run."""
        self.wait(f"job/{name} -n {namespace}", f"jsonpath={{.status.ready}}={pods}")

    @contextmanager
    def following(self, *arguments: str) -> Iterator[IO[str]]:
        """What a kubectl that follows something writes, line by line, until it is left."""
        command = (KUBECTL, *arguments)
        with subprocess.Popen(
            command, env=self._environment, stdout=subprocess.PIPE, text=True
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
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert 0 == done.returncode, f"{arguments}\n{done.stdout}{done.stderr}"
        return done.stdout


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that other users may pass through, as whom pods may run; it goes afterwards.

    Not one of pytest's: each session of pytest shuts the folder that they all lie in.
    """
    with TemporaryDirectory(prefix="kuota-test-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder
