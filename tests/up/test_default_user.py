# SPDX-License-Identifier: Apache-2.0
"""A control plane of root runs pods as an unprivileged user, and reports which."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from kuota.cli.run_folder import enterable
from kuota.up import state_dir
from kuota.up.default_user import account, default_user
from up.machine import KUOTA, Machine, open_folder

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs pods as another user")
NOBODY = pwd.getpwnam("nobody").pw_uid


def test_the_user_who_invoked_sudo_comes_first() -> None:
    assert account(NOBODY) == default_user({"SUDO_UID": str(NOBODY)})
    assert 54321 == default_user({"SUDO_UID": "54321"}).uid


@pytest.mark.parametrize("value", ["", "0", "00", "-1", "ann", "\u0661"])
def test_without_such_a_user_a_dedicated_account_is_used_and_never_root(value: str) -> None:
    assert default_user({"SUDO_UID": value}).name in ("kuota", "nobody")
    assert default_user({"SUDO_UID": value}).uid != 0


def test_the_state_of_root_is_where_other_users_can_reach_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUOTA_STATE", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert Path("/var/lib/kuota") == state_dir.default_state_dir().root
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert tmp_path / ".local" / "state" / "kuota" == state_dir.default_state_dir().root


def test_a_directory_is_entered_by_its_owner_or_if_it_is_open_to_all() -> None:
    with open_folder() as parent:
        folder = parent / "private" / "work"
        folder.mkdir(parents=True)
        folder.parent.chmod(0o700)
        owner = folder.parent.stat().st_uid
        assert enterable(folder, owner)
        assert not enterable(folder, owner + 1)
        folder.parent.chmod(0o711)
        assert enterable(folder, owner + 1)


@root_only
def test_the_first_job_of_root_runs_as_nobody_which_is_printed_at_start_up() -> None:
    with open_folder() as folder:
        machine = Machine(folder / "state")
        machine.environment.pop("SUDO_UID", None)
        started = run(machine, "up", "--detach")
        try:
            assert f"run as nobody (uid {NOBODY})" in started.stderr
            assert f"nobody (uid {NOBODY})" in run(machine, "status").stdout
            private = folder / "private"
            private.mkdir(mode=0o700)
            done = run(machine, "run", "--", "sh", "-c", "id -u; cd; touch f; pwd", cwd=private)
            assert f"uid {NOBODY} cannot enter {private}" in done.stderr
            uid, home = done.stdout.split()
            assert str(NOBODY) == uid
            assert str(folder) in home
        finally:
            machine.down()


@root_only
def test_root_is_not_chosen_by_accident(tmp_path: Path) -> None:
    environment = {**os.environ, "KUOTA_STATE": str(tmp_path / "state")}
    done = subprocess.run(
        [KUOTA, "up", "--run-as", "root", "--detach"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 2 == done.returncode
    assert "--run-as root also needs --allow-root" in done.stderr


def run(
    machine: Machine, *arguments: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [KUOTA, *arguments],
        env={name: each for name, each in machine.environment.items() if name != "KUBECONFIG"},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    return done
