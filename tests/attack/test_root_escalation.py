# SPDX-License-Identifier: Apache-2.0
"""A runner that is root creates, changes and reads no file on behalf of a member."""

from __future__ import annotations

import copy
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attack.members import Member, join
from attack.test_volumes import ATTACKS
from hang import HANG_S
from kuota.api.base import Json
from kuota.runner.container_env import LaunchError
from kuota.runner.pod_files import Refusal, prepare
from kuota.runner.volumes import check_spec
from up.machine import Machine, open_folder, running

UID = 65534
ENDED = "{.status.containerStatuses[0].state.terminated}"
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs pods as other users")


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine on which members create pods without a queue."""
    with running("--allow-unqueued") as found:
        yield found


# The runner starts no ephemeral containers, so it need not check them.
@pytest.mark.parametrize(
    "spec", [spec for field, spec in ATTACKS.values() if field != "ephemeralContainers"]
)
def test_the_runner_does_not_rely_on_the_validation_of_the_server(spec: Json) -> None:
    one = {"containers": [{"name": "main", "image": "x"}]} | copy.deepcopy(spec)
    with pytest.raises(LaunchError) as failure:
        check_spec(one)
    assert failure.value.permanent


def plan(home: Path, **more: Any) -> dict[str, Any]:
    for name in ("root", "volumes", "state"):
        (home / name).mkdir(exist_ok=True)
    return {
        "root": str(home / "root"),
        "volumes": str(home / "volumes"),
        "directories": ["v"],
        "files": [],
        "host_paths": [],
        "mounts": [],
        "state_dir": str(home / "state"),
        "allowed": None,
        **more,
    }


def test_links_in_the_directory_of_the_pod_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    files = [("v", "passwd", b"root::0:0", 0o644), ("v", "a/b", b"x", 0o644)]
    for place in ("volumes/v", "volumes/v/a", "root/data"):
        home = tmp_path / place.replace("/", "-")
        home.mkdir()
        wanted = plan(home, files=files, mounts=[("v", "", "", "/data/deep/v")])
        (home / place).parent.mkdir(parents=True, exist_ok=True)
        (home / place).symlink_to(outside)
        with pytest.raises(OSError, match=r"Not a directory|symbolic"):
            prepare(wanted)
    assert [] == list(outside.iterdir())


def test_a_file_that_is_a_link_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    wanted = plan(tmp_path, files=[("v", "link", b"forged", 0o4755)])
    (tmp_path / "volumes/v").mkdir()
    (tmp_path / "volumes/v/link").symlink_to(secret)
    prepare(wanted)
    assert "secret" == secret.read_text()
    written = (tmp_path / "volumes/v/link").lstat()
    assert (True, 0o755) == (stat.S_ISREG(written.st_mode), stat.S_IMODE(written.st_mode))


def test_nothing_is_created_below_a_directory_of_the_host(tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.mkdir()
    mounts = [("v", "", "", "/data/etc/cron.d"), ("h", str(host), "", "/data")]
    with pytest.raises(Refusal, match="below the hostPath mount /data"):
        prepare(plan(tmp_path, mounts=mounts))
    assert [] == list(host.iterdir())


@pytest.mark.parametrize("way", ["itself", "below", "link", "link to below", "proc", "sub path"])
def test_no_name_of_the_state_directory_is_accepted(tmp_path: Path, way: str) -> None:
    state = tmp_path / "state"
    (state / "pods").mkdir(parents=True)
    (tmp_path / "link").symlink_to(state)
    path, inside = {
        "itself": (str(state), ""),
        "below": (str(state / "pods"), ""),
        "link": (str(tmp_path / "link"), ""),
        "link to below": (str(tmp_path / "link/pods"), ""),
        "proc": (f"/proc/self/root{state}", ""),
        "sub path": (str(tmp_path), "state/pods"),
    }[way]
    wanted = plan(tmp_path, mounts=[("h", path, inside, "/h")], host_paths=[(path, "")])
    with pytest.raises(Refusal, match="state directory"):
        prepare(wanted)


def test_a_link_in_an_allowed_directory_leads_nowhere_else(tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (allowed / "link").symlink_to("/etc")
    for path, inside in ((allowed / "link", ""), (allowed, "link"), (allowed, "link/cron.d")):
        mounts = [("h", str(path), inside, "/h")]
        with pytest.raises(Refusal, match="not in a directory that an admin allows"):
            prepare(plan(tmp_path, mounts=mounts, allowed=[str(allowed)]))
    kinds = [(str(allowed / "link/new"), "DirectoryOrCreate")]
    with pytest.raises(Refusal, match="not in a directory"):
        prepare(plan(tmp_path, host_paths=kinds, allowed=[str(allowed)]))


@pytest.mark.parametrize(
    ("kind", "what"),
    [("Directory", "file"), ("File", "directory"), ("Socket", "file"), ("CharDevice", "fifo")],
)
def test_the_type_of_a_host_path_is_checked_without_opening_it(
    tmp_path: Path, kind: str, what: str
) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(Refusal, match="type check failed"):
        prepare(plan(tmp_path, host_paths=[(str(tmp_path / what), kind)]))


def pod(name: str, script: str, **spec: Any) -> Json:
    mounts = spec.pop("mounts", [])
    container = {
        "name": "main",
        "image": "none",
        "command": ["sh", "-c", script],
        "volumeMounts": mounts,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }


def ended(machine: Machine, member: Member, one: Json) -> Json:
    """The pod of the member, once it has ended."""
    done = member.create(one)
    assert done.returncode == 0, done.stderr
    name = one["metadata"]["name"]
    what = ("pod", name, "-n", member.namespace)
    member.kubectl("wait", *what, f"--for=jsonpath={ENDED}", f"--timeout={HANG_S}s")
    found: Json = machine.get(*what)
    return found


@NEEDS_ROOT
def test_a_member_owns_what_belongs_to_the_pod_and_nothing_else(
    machine: Machine, tmp_path: Path
) -> None:
    ann = join(machine, "ann", "vision", tmp_path, "--uid", str(UID))
    script = "id -u; find . $KUOTA_VOLUME_V ! -user $(id -u); ls -ld . >&2"
    one = pod(
        "a",
        script,
        volumes=[{"name": "v", "emptyDir": {}}, {"name": "w", "downwardAPI": {"items": []}}],
        mounts=[
            {"name": "v", "mountPath": "/v", "subPath": "deep/down"},
            {"name": "w", "mountPath": "/v/w"},
        ],
    )
    assert "Succeeded" == ended(machine, ann, one)["status"]["phase"]
    first, *foreign = ann.kubectl("logs", "a").stdout.splitlines()[:-1]
    assert (str(UID), []) == (first, foreign)


@NEEDS_ROOT
def test_a_directory_that_is_read_only_for_a_team_cannot_be_written(
    machine: Machine, tmp_path: Path
) -> None:
    with open_folder() as folder:
        data = folder / "data"
        data.mkdir()
        (data / "set").write_text("content")
        os.chown(data, UID, UID)  # Unix permissions alone would allow it.
        ann = join(machine, "ann", "vision", tmp_path, "--uid", str(UID))
        machine.kubectl("annotate", "namespace", "vision", f"kuota.dev/host-paths={data}:ro")
        volumes = [{"name": "data", "hostPath": {"path": str(data), "type": "Directory"}}]
        mounts = [{"name": "data", "mountPath": "/data", "readOnly": True}]
        script = f"cat data/set; touch data/new; touch {data}/new; rm -f {data}/set"
        ended(machine, ann, pod("a", script, volumes=volumes, mounts=mounts))
        # Nor does it help not to mount it.
        ended(machine, ann, pod("b", f"touch {data}/new; rm -f {data}/set"))
        assert "content" in ann.kubectl("logs", "a").stdout
        assert ["set"] == [each.name for each in data.iterdir()]


@NEEDS_ROOT
def test_root_does_not_follow_what_a_member_prepared(machine: Machine, tmp_path: Path) -> None:
    with open_folder() as folder:
        shared = folder / "shared"
        shared.mkdir()
        os.chown(shared, UID, UID)
        (shared / "state").symlink_to(machine.state)
        ann = join(machine, "ann", "vision", tmp_path, "--uid", str(UID))
        machine.kubectl("annotate", "namespace", "vision", f"kuota.dev/host-paths={shared}:rw")
        volumes = [
            {"name": "h", "hostPath": {"path": str(shared)}},
            {"name": "e", "emptyDir": {}},
        ]
        environment = {"env": [{"name": "WHERE", "value": "state/tokens.csv"}]}
        attacks: list[list[Json]] = [
            [{"name": "h", "mountPath": "/h", "subPathExpr": "$(WHERE)"}],
            [{"name": "h", "mountPath": "/h"}, {"name": "e", "mountPath": "/h/cron.d"}],
        ]
        before = (machine.state / "tokens.csv").stat()
        for at, mounts in enumerate(attacks):
            one = pod(f"a{at}", "true", volumes=volumes, mounts=mounts)
            one["spec"]["containers"][0] |= environment
            found = ended(machine, ann, one)
            assert "Failed" == found["status"]["phase"]
            (status,) = found["status"]["containerStatuses"]
            assert "hostPath" in status["state"]["terminated"]["message"]
        after = (machine.state / "tokens.csv").stat()
        assert (before.st_uid, before.st_mode) == (after.st_uid, after.st_mode)
        assert ["state"] == [each.name for each in shared.iterdir()]
