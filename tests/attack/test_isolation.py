# SPDX-License-Identifier: Apache-2.0
"""Without root, a member's process does not reach what belongs to the user of the server."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.account import Account
from docs.pages import ROOT
from kuota.up.separation import separation, warnings
from up.machine import open_folder

NOBODY = 65534
UNPRIVILEGED: dict[str, Any] = (
    {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
)
CONFINE = f"""
import json, os, sys
sys.path.append({str(ROOT / "src")!r})
from kuota.runner.confine import confine
confine(json.loads(sys.argv[1]))
os.execvp("sh", ["sh", "-c", sys.argv[2]])
"""
PROBE = f"""
import sys
sys.path.append({str(ROOT / "src")!r})
from kuota.runner.confine import probe
probe()
"""


def unprivileged(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python code as a user who is not root."""
    interpreter = sys.executable
    if os.geteuid() == 0:
        interpreter = shutil.which("python3", path="/usr/bin:/usr/local/bin") or ""
    if not interpreter:
        pytest.skip("no Python that an unprivileged user can execute")
    return subprocess.run(
        [interpreter, "-I", "-S", "-c", code, *arguments],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        **UNPRIVILEGED,
    )


@pytest.fixture
def state() -> Iterator[Path]:
    """A state directory with a token and the directories of one pod."""
    with open_folder() as folder:
        for name in ("pods/1/root", "pods/1/volumes", "pods/2/root", "data"):
            (folder / "state" / name).mkdir(parents=True)
        (folder / "state/token").write_text("secret")
        if os.geteuid() == 0:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, NOBODY, NOBODY)
        yield folder / "state"


def plan(state: Path, mode: str) -> str:
    whole = {
        "mode": mode,
        "user": True,
        "masked": sorted({str(state), "/tmp"}),
        "kept": [
            (str(state / "pods/1/root"), True),
            (str(state / "pods/1/volumes"), True),
            (str(state / "data"), False),
        ],
        "read_only": [],
    }
    return json.dumps(whole)


def confined(state: Path, mode: str, script: str) -> str:
    """What the script prints; errors too."""
    done = unprivileged(CONFINE, plan(state, mode), f"exec 2>&1; {script}")
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


@pytest.fixture
def strongest() -> str:
    """The strongest mode of this kernel, which a server chooses."""
    found = unprivileged(PROBE).stdout
    if not found:
        pytest.skip("this kernel offers no isolation to unprivileged users")
    return found


@pytest.fixture(params=["namespaces", "landlock"])
def mode(request: pytest.FixtureRequest, strongest: str) -> str:
    if strongest == "landlock" and request.param == "namespaces":
        pytest.skip("this kernel offers no namespaces to unprivileged users")
    return str(request.param)


def test_a_confined_process_does_not_read_or_change_the_state(state: Path, mode: str) -> None:
    attempts = (
        f"cat {state}/token",
        f"echo forged > {state}/token",
        f"rm -f {state}/token",
        f"mv {state}/token {state}/pods/1/root/",
        f"ln {state}/token {state}/pods/1/root/token; cat {state}/pods/1/root/token",
        f"cd {state}/pods/1/root/../../..; cat token",
        f"cat /proc/self/root{state}/token",
        f"cat /proc/{os.getpid()}/root{state}/token",
        f"ls {state}/pods/2/root",
        f"umount /tmp; umount {state}; cat {state}/token",
        f"unshare -Urm sh -c 'umount -l /tmp; umount -l {state}; cat {state}/token'",
        f"touch {state}/data/new",
    )
    for attempt in attempts:
        assert "secret" not in confined(state, mode, attempt), attempt
    assert "secret" == (state / "token").read_text()
    assert [] == [*(state / "data").iterdir(), *(state / "pods/1/root").iterdir()]


def test_a_confined_process_uses_its_own_directories(state: Path, mode: str) -> None:
    root = state / "pods/1/root"
    assert "mine\n" == confined(state, mode, f"echo mine > {root}/file; cat {root}/file")
    assert "mine" == (root / "file").read_text().strip()
    assert "" == confined(state, mode, f"ls {state}/data; test -r /etc/passwd || echo no")


def test_a_confined_process_cannot_signal_processes_outside(state: Path, mode: str) -> None:
    with subprocess.Popen(["sleep", "60"], **UNPRIVILEGED) as other:
        confined(state, mode, f"kill -9 {other.pid}; cat /proc/{other.pid}/environ")
        assert other.poll() is None
        other.kill()


def test_the_separation_is_stated() -> None:
    assert [] == warnings(separation(1000, ""))
    for mode in ("namespaces", "landlock", ""):
        said = " ".join(warnings(separation(None, mode)))
        assert "does not run as root" in said
        assert "teams are not isolated" in said
    assert "can read the admin token" in " ".join(warnings(separation(None, "")))


STORY = """
export KUOTA_STATE=$HOME/state
kuota up --allow-unqueued --detach
trap 'kuota down --kill' EXIT
eval "$(kuota status -o env)"
kuota status
kubectl create namespace vision
kubectl label namespace vision kuota.dev/team=vision
kuota token create ann --team vision -n vision --out ann.kubeconfig
echo private > $HOME/private
token=$(grep token: $KUBECONFIG)
attack="cat $KUOTA_STATE/kubeconfig $KUOTA_STATE/tokens.csv $HOME/private; id -u; echo done"
run() {
  kubectl --kubeconfig $1 -n vision run $2 --image=x --restart=Never --command -- sh -c "$attack"
  kubectl -n vision wait pod/$2 --for=jsonpath='{.status.phase}'=Succeeded --timeout=60s
  kubectl -n vision logs $2 | sed "s/^/$2: /"
}
run ann.kubeconfig attacked
run $KUBECONFIG trusted
echo "token on disk: $(grep -c "${token##* }" $KUOTA_STATE/tokens.csv)"
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become an ordinary user")
@pytest.mark.usefixtures("strongest")
def test_members_of_an_unprivileged_server_do_not_read_the_admin_token() -> None:
    with open_folder() as folder:
        name = pwd.getpwuid(NOBODY).pw_name
        done = Account(folder, name).run(STORY)
    assert 0 == done.returncode, done.stdout
    lines = done.stdout.splitlines()
    attacked = [line for line in lines if line.startswith("attacked: ")]
    assert [f"attacked: {NOBODY}", "attacked: done"] == [
        line for line in attacked if "cat: " not in line
    ]
    assert "trusted: private" in lines, "pods of admins are not confined"
    assert "token on disk: 0" in lines
    assert 2 <= sum("does not run as root" in line for line in lines), "status and token create"
