# SPDX-License-Identifier: Apache-2.0
"""A user account with a copy of the checkout, in which the documented commands run."""

from __future__ import annotations

import os
import pwd
import shutil
import site
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import ROOT
from up.machine import KUBECTL

COPIED = ("Makefile", "README.md", "docs", "examples", "manifests", "pyproject.toml", "scripts")
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-docs.lock")
PACKAGES = os.pathsep.join([str(ROOT / "src"), *site.getsitepackages()])
PAGE_S = 300.0
"""Far above what any page needs."""


class Account:
    """Runs commands as one user, in a home directory and a checkout of its own.

    The checkout has a `.venv` whose programs are those of the real one, run by an interpreter
    that the user can execute.
    """

    def __init__(self, folder: Path, user: str) -> None:
        self.user = pwd.getpwnam(user)
        self.home = folder / "home"
        self.checkout = folder / "checkout"
        self._write_checkout(self._interpreter())

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a shell script in the checkout, as the user."""
        path = f"{self.checkout}/.venv/bin:{os.environ['PATH']}"
        own = {"HOME": str(self.home), "USER": self.user.pw_name, "PATH": path}
        if self.user.pw_uid == 0:
            # The default, /var/lib/kuota, belongs to the machine and not to a test.
            own["KUOTA_STATE"] = str(self.home / "state")
        return self._execute(["bash", "-euo", "pipefail", "-c", command], own, self.checkout)

    def _execute(
        self, arguments: list[str], environment: dict[str, str], folder: Path
    ) -> subprocess.CompletedProcess[str]:
        other = os.geteuid() != self.user.pw_uid
        return subprocess.run(
            arguments,
            cwd=folder,
            env=environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PAGE_S,
            check=False,
            user=self.user.pw_uid if other else None,
            group=self.user.pw_gid if other else None,
            extra_groups=[] if other else None,
        )

    def _interpreter(self) -> str:
        """An interpreter of our version that the user can execute, or skip the test."""
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        system = shutil.which(version, path="/usr/bin:/usr/local/bin")
        for each in filter(None, (os.path.realpath(sys.executable), system)):
            if self._can_use(each):
                return each
        pytest.skip(f"{self.user.pw_name} can execute no {version} with the packages of .venv")

    def _can_use(self, interpreter: str) -> bool:
        probe = [interpreter, "-c", "import kuota, msgspec"]
        try:
            done = self._execute(probe, {"PYTHONPATH": PACKAGES}, Path("/"))
        except OSError:
            return False
        return done.returncode == 0

    def _write_checkout(self, interpreter: str) -> None:
        self.home.mkdir()
        self.checkout.mkdir()
        for name in COPIED + LOCKS:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self.checkout / name)
            else:
                shutil.copy(source, self.checkout / name)
        programs = self.checkout / ".venv" / "bin"
        programs.mkdir(parents=True)
        start = f'#!/bin/sh\nPYTHONPATH="{PACKAGES}" PYTHONDONTWRITEBYTECODE=1 exec "{interpreter}"'
        (programs / "kuota").write_text(f'{start} -m kuota.cli.main "$@"\n')
        (programs / "python").write_text(f'{start} "$@"\n')
        (programs / "kubectl").write_text(f'#!/bin/sh\nexec "{KUBECTL}" "$@"\n')
        for each in programs.iterdir():
            each.chmod(0o755)
        (self.checkout / ".venv" / ".ready-dev").touch()
        for path in (self.home, self.checkout, *self.checkout.rglob("*")):
            os.chown(path, self.user.pw_uid, self.user.pw_gid)
