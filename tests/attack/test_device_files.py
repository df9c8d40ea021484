# SPDX-License-Identifier: Apache-2.0
"""A process opens the device files of its own GPUs only, whatever its environment says."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.pages import ROOT
from kuota.runner.confine import NAMESPACES
from kuota.runner.isolation import Isolation, available, confinement
from kuota.runner.pod_home import PodHome
from up.machine import open_folder

NOBODY = 65534
FILES = {"GPU-a": "/dev/nvidia0", "GPU-b": "/dev/nvidia1", "MIG-b1": "/dev/nvidia1"}
# What the shim does: it confines itself, and then becomes the user of the pod.
CONFINE = f"""
import json, os, sys
sys.path.append({str(ROOT / "src")!r})
from kuota.runner.confine import confine
confine(json.loads(sys.argv[1]))
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
os.execvp("sh", ["sh", "-c", sys.argv[2]])
"""


@pytest.fixture
def gpus() -> Iterator[tuple[Path, Path]]:
    """Two device files that everybody may open, as those of GPUs are. They are like /dev/zero."""
    if os.geteuid() != 0:
        pytest.skip("only root creates device files, and confines processes of other users")
    if available() != NAMESPACES:
        pytest.skip("this kernel offers no mount namespaces")
    with open_folder() as folder:
        files = folder / "nvidia0", folder / "nvidia1"
        for each in files:
            try:
                os.mknod(each, stat.S_IFCHR | 0o666, os.makedev(1, 5))
            except PermissionError:
                pytest.skip("this root may not create device files")
            each.chmod(0o666)
        yield files


def run(closed: Path, script: str) -> str:
    plan = {"mode": NAMESPACES, "user": False, "masked": [], "kept": [], "read_only": []}
    whole = json.dumps(plan | {"closed_devices": [str(closed)]})
    argv = [sys.executable, "-I", "-S", "-c", CONFINE, whole, f"exec 2>&1; {script}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd="/")
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def test_the_device_file_of_another_gpu_cannot_be_opened(gpus: tuple[Path, Path]) -> None:
    own, foreign = gpus
    assert "opened" in run(foreign, f"head -c 1 {own} > /dev/null && echo opened")
    attempts = (
        f"head -c 1 {foreign}",
        f"umount {foreign}; head -c 1 {foreign}",
        f"unshare -Urm sh -c 'umount -l {foreign}; head -c 1 {foreign}'",
        f"cd {foreign.parent}; head -c 1 ./nvidia1",
        f"ln {foreign} /tmp/other-gpu; head -c 1 /tmp/other-gpu",
        f"head -c 1 /proc/{os.getpid()}/root{foreign}",
        "mknod /tmp/own-gpu c 1 5; head -c 1 /tmp/own-gpu",
    )
    for attempt in attempts:
        assert "opened" not in run(foreign, f"({attempt}) > /dev/null && echo opened"), attempt


def test_pods_get_the_files_of_their_own_devices() -> None:
    isolation = Isolation(NAMESPACES, device_files=FILES)
    assert ["/dev/nvidia0", "/dev/nvidia1"] == isolation.foreign_files([])
    assert ["/dev/nvidia1"] == isolation.foreign_files(["GPU-a"])
    assert ["/dev/nvidia0"] == isolation.foreign_files(["MIG-b1"])
    assert [] == isolation.foreign_files(["GPU-a", "GPU-b"])
    assert [] == Isolation("landlock", device_files=FILES).foreign_files([])


@pytest.mark.skipif(os.geteuid() != 0, reason="without root, only pods of members are confined")
def test_pods_of_admins_are_treated_alike(tmp_path: Path) -> None:
    home = PodHome(str(tmp_path), "uid")
    isolation = Isolation(NAMESPACES, device_files=FILES)
    plan = confinement(isolation, home, trusted=True, devices=["GPU-b"])
    assert plan is not None
    assert ["/dev/nvidia0"] == plan["closed_devices"]
    assert confinement(isolation, home, trusted=True, devices=["GPU-a", "GPU-b"]) is None
    assert confinement(Isolation(NAMESPACES), home, trusted=True) is None
