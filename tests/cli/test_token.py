# SPDX-License-Identifier: Apache-2.0
"""`kuota token`: access to the control plane of this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from cli.cluster import Cluster
from kuota.cli.main import main
from kuota.kube.resources import NAMESPACES
from kuota.server.tokens import TokenFile
from kuota.up import kubeconfig
from kuota.up.state_dir import RunningInstance, StateDir


@pytest.fixture
def state_dir(tmp_path: Path) -> StateDir:
    """An installation that has been started once."""
    made = StateDir(tmp_path / "state")
    made.prepare()
    assert 0 == token(made, "list").exit_code
    kubeconfig.write(made.kubeconfig, "https://127.0.0.1:7443", "old", b"certificate")
    return made


def token(state_dir: StateDir, *words: str) -> Result:
    return CliRunner().invoke(main, ["token", *words, "--state", str(state_dir.root)])


def test_a_member_gets_a_kubeconfig_of_their_own(state_dir: StateDir) -> None:
    done = token(state_dir, "create", "ann", "--team", "vision", "-n", "vision", "--uid", "1234")
    found = yaml.safe_load(done.stdout)
    assert "https://127.0.0.1:7443" == found["clusters"][0]["cluster"]["server"]
    assert "vision" == found["contexts"][0]["context"]["namespace"]
    user = TokenFile(state_dir.tokens).user(found["users"][0]["user"]["token"])
    assert user is not None
    assert ("ann", "1234", ("vision", "system:authenticated")) == (user.name, user.uid, user.groups)


def test_the_only_namespace_of_the_team_is_the_default(cluster: Cluster) -> None:
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    state_dir = StateDir(cluster.folder)
    state_dir.announce(RunningInstance(os.getpid(), started, cluster.port, "test"))

    def created() -> tuple[str, str]:
        done = token(state_dir, "create", "ann", "--team", "vision")
        context = yaml.safe_load(done.stdout)["contexts"][0]["context"]
        return context.get("namespace", ""), done.stderr

    namespace, said = created()
    assert ("", True) == (namespace, "kubectl create namespace vision\n" in said)
    labels = {"kuota.dev/team": "vision"}
    cluster.create(NAMESPACES, {"metadata": {"name": "lab", "labels": labels}})
    assert "lab" == created()[0]
    cluster.create(NAMESPACES, {"metadata": {"name": "more", "labels": labels}})
    namespace, said = created()
    assert ("", True) == (namespace, "several namespaces: lab, more." in said)


def test_who_is_in_no_team_is_said_to_have_few_rights(state_dir: StateDir) -> None:
    note = "ann is not in a team and may only read queues"
    assert note in token(state_dir, "create", "ann").stderr
    assert "" == token(state_dir, "create", "ann", "--team", "vision").stderr
    assert "" == token(state_dir, "create", "ann", "--admin").stderr


def test_a_kubeconfig_may_lead_to_the_address_for_others(
    state_dir: StateDir, tmp_path: Path
) -> None:
    (tmp_path / "ca.crt").write_bytes(b"authority")
    flags = ("--server", "https://gpu.example:6443", "--certificate-authority")
    done = token(state_dir, "create", "ann", *flags, str(tmp_path / "ca.crt"))
    cluster = yaml.safe_load(done.stdout)["clusters"][0]["cluster"]
    assert kubeconfig.cluster("https://gpu.example:6443", b"authority") == cluster


def test_a_file_is_written_for_one_pair_of_eyes_and_never_over_another(
    state_dir: StateDir, tmp_path: Path
) -> None:
    out = tmp_path / "ann.kubeconfig"
    assert 0 == token(state_dir, "create", "ann", "--out", str(out)).exit_code
    assert 0o600 == out.stat().st_mode & 0o777
    before = state_dir.tokens.read_text()
    assert 1 == token(state_dir, "create", "bob", "--out", str(out)).exit_code
    assert before == state_dir.tokens.read_text()


def test_the_list_shows_people_and_no_tokens(state_dir: StateDir) -> None:
    done = token(state_dir, "create", "ann", "--team", "vision", "--uid", "7")
    secret = yaml.safe_load(done.stdout)["users"][0]["user"]["token"]
    listed = token(state_dir, "list").stdout
    assert ["ann", "7", "vision"] == listed.splitlines()[-1].split()[1:]
    assert secret not in listed


def test_listing_creates_nothing(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["token", "list", "--state", str(tmp_path / "none")])
    assert 1 == done.exit_code
    assert "start `kuota up` first" in done.output
    assert not (tmp_path / "none").exists()


def test_a_member_learns_which_namespaces_belong_to_the_team(
    state_dir: StateDir, tmp_path: Path
) -> None:
    done = token(state_dir, "create", "ann", "--team", "vision", "--out", str(tmp_path / "ann"))
    assert "namespaces with the label kuota.dev/team=vision" in done.stdout


def test_a_token_is_taken_back(state_dir: StateDir) -> None:
    token(state_dir, "create", "ann")
    assert "of ann revoked" in token(state_dir, "revoke", "ann").stdout
    assert "ann" not in token(state_dir, "list").stdout
    assert 1 == token(state_dir, "revoke", "ann").exit_code
    assert 2 == token(state_dir, "revoke").exit_code


def test_the_owner_who_loses_a_token_has_a_new_one(state_dir: StateDir) -> None:
    before = state_dir.kubeconfig.read_text()
    done = token(state_dir, "revoke", "admin")
    assert "admin has a new token" in done.stdout
    after = yaml.safe_load(state_dir.kubeconfig.read_text())
    assert before != state_dir.kubeconfig.read_text()
    assert "https://127.0.0.1:7443" == after["clusters"][0]["cluster"]["server"]
    user = TokenFile(state_dir.tokens).user(after["users"][0]["user"]["token"])
    assert user is not None
    assert "admin" == user.name


def test_bad_names_are_refused(state_dir: StateDir) -> None:
    done = token(state_dir, "create", "system:root")
    assert 1 == done.exit_code
    assert "system:" in done.output


@pytest.mark.parametrize(
    "flags",
    [("--address", "0.0.0.0"), ("--tls-cert", "/etc/hostname"), ("--tls-key", "/etc/hostname")],
)
def test_up_refuses_another_address_without_tls(tmp_path: Path, flags: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, ["up", "--state", str(tmp_path / "state"), *flags])
    assert 2 == done.exit_code
    assert "TLS" in done.output
