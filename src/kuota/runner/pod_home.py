# SPDX-License-Identifier: Apache-2.0
"""Where a pod lives on disk: its root directory, its volumes, and a folder for each run.

<state>/pods/<uid>/pod.json              the pod as it was when it came
                   root/                 where its processes start
                   volumes/<name>/
                   runs/<container>/<attempt>/   see `processes`
<state>/trash/                           directories of ended pods, which are being deleted
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time

import msgspec

from kuota.api.base import Json

KEPT_RUNS = 2


class PodHome:
    """The directory of one pod. Nothing exists before `create`."""

    def __init__(self, pods_dir: str, uid: str) -> None:
        self.path = os.path.join(pods_dir, uid)

    @property
    def root(self) -> str:
        return self.path + "/root"

    @property
    def volumes(self) -> str:
        return self.path + "/volumes"

    @property
    def exists(self) -> bool:
        return os.path.exists(self.path + "/pod.json")

    def create(self, pod: Json) -> None:
        """Create the directory of the pod if it does not exist."""
        for folder in (self.root, self.volumes, self.path + "/runs"):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        # Processes of other users must be able to enter it, but need not list it.
        os.chmod(self.path, 0o711)
        if not self.exists:
            self.write("pod.json", pod)

    def hand_over(self, uid: int, gid: int) -> None:
        """Make the user the owner of the root directory and of the directory of volumes.

        Both are entries of a directory that only the runner can change, so no link can be in
        their place. What they contain is never touched as root.
        """
        for folder in (self.root, self.volumes):
            os.chown(folder, uid, gid, follow_symlinks=False)

    def pod(self) -> Json | None:
        """The pod as it was when it was bound; None if it was never written."""
        try:
            with open(self.path + "/pod.json", "rb") as file:
                found: Json = msgspec.json.decode(file.read())
                return found
        except (OSError, msgspec.DecodeError):
            return None

    def write(self, name: str, content: object) -> None:
        """Write the content atomically. It may contain secrets."""
        path = f"{self.path}/{name}"
        fd = os.open(path + ".new", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.encode(content))
        os.replace(path + ".new", path)

    def volume(self, name: str) -> str:
        return f"{self.volumes}/{name}"

    def run(self, container: str, attempt: int) -> str:
        return f"{self.path}/runs/{container}/{attempt}"

    def attempts(self, container: str) -> list[int]:
        """The numbers of the existing runs, oldest first."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(
                int(name) for name in os.listdir(f"{self.path}/runs/{container}") if name.isdigit()
            )
        return []

    def prune(self, container: str) -> None:
        """Delete all runs except the last ones."""
        for attempt in self.attempts(container)[:-KEPT_RUNS]:
            shutil.rmtree(self.run(container, attempt), ignore_errors=True)

    def remove(self) -> None:
        """Remove the directory, unless files of the pod's user are left."""
        for folder in (self.root, self.volumes):
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                continue
            except OSError:
                return
        shutil.rmtree(self.path, ignore_errors=True)

    def discard(self, trash: str) -> None:
        """Move the directory to the trash, where `deletion` finds it. Does nothing without one."""
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.path, f"{trash}/{os.path.basename(self.path)}-{time.time_ns()}")


def homes(pods_dir: str) -> list[str]:
    """The uids of all pods that have a directory."""
    with contextlib.suppress(FileNotFoundError):
        return sorted(os.listdir(pods_dir))
    return []
