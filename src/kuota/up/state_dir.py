# SPDX-License-Identifier: Apache-2.0
"""The state directory of one control plane, and how commands find the running instance."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

ENVIRONMENT = "KUOTA_STATE"
SYSTEM_STATE = Path("/var/lib/kuota")
"""The default state directory of root."""


class RunningInstance(msgspec.Struct, frozen=True):
    """A running control plane. Its start time reveals a pid that another process reuses."""

    pid: int
    started: int
    port: int
    version: str
    run_as: int | None = None
    """As root: the uid that runs pods which name no user."""
    isolation: str = ""
    """What confines pods of members: namespaces, landlock, or nothing."""
    limits: str = ""
    """Which limits of pods are not enforced as documented, and why; empty if all are."""

    @property
    def alive(self) -> bool:
        try:
            with open(f"/proc/{self.pid}/stat", "rb") as file:
                state, *rest = file.read().rpartition(b")")[2].split()
        except OSError:
            return False
        return state != b"Z" and int(rest[18]) == self.started


class StateDir:
    """The state directory, owned by one user. Each control plane has its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = root / "kuota.db"
        self.tokens = root / "tokens.csv"
        self.kubeconfig = root / "kubeconfig"
        self.socket = root / "kuota.sock"
        self.log = root / "kuota.log"
        self.tls = root / "tls"
        self.backups = root / "backups"
        self.clock = root / "clock.json"
        self.history = root / "history.db"
        self._running = root / "running.json"

    def prepare(self) -> None:
        self.root.mkdir(mode=0o711, parents=True, exist_ok=True)

    def running(self) -> RunningInstance | None:
        """The control plane that runs from this directory; None if none does."""
        try:
            found = msgspec.json.decode(self._running.read_bytes(), type=RunningInstance)
        except (OSError, msgspec.DecodeError):
            return None
        return found if found.alive else None

    def announce(self, running: RunningInstance) -> None:
        temporary = self._running.with_suffix(".new")
        temporary.write_bytes(msgspec.json.encode(running))
        temporary.replace(self._running)

    def retire(self) -> None:
        self._running.unlink(missing_ok=True)


def default_state_dir() -> StateDir:
    """The state directory of this user: $KUOTA_STATE, or one named kuota in the usual location.

    Root uses /var/lib: pods run as other users, who cannot enter root's home directory.
    """
    given = os.environ.get(ENVIRONMENT)
    if given:
        return StateDir(Path(given))
    base = os.environ.get("XDG_STATE_HOME")
    if not base and os.geteuid() == 0:
        return StateDir(SYSTEM_STATE)
    return StateDir(Path(base or Path.home() / ".local" / "state") / "kuota")


def shared_state_dir() -> StateDir | None:
    """The state directory of root's control plane, if it runs and the user has chosen no other.

    Local users may use its socket, which identifies them. None if there is no such control plane.
    """
    state_dir = StateDir(SYSTEM_STATE)
    try:
        owner = state_dir.root.stat().st_uid
    except OSError:
        return None
    if os.environ.get(ENVIRONMENT) or owner != 0 or state_dir.running() is None:
        return None
    return state_dir
