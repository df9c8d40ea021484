# SPDX-License-Identifier: Apache-2.0
"""Files of the control plane are lost or damaged: it reports that with a remedy, and stops."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from kuota.cli.main import main
from kuota.server.store import Store
from kuota.server.tokens import admin_token
from kuota.up.backups import Backups
from server.objects import PODS, thing
from up.lab import queues
from up.machine import Machine


def refused(machine: Machine, *options: str) -> str:
    """What `kuota up` says when it does not start."""
    done = CliRunner().invoke(main, ["up", "--state", str(machine.state), *options])
    assert 1 == done.exit_code, done.output
    assert "Traceback" not in done.output
    return done.output


@pytest.mark.slow
def test_a_lost_log_stops_the_start_until_an_admin_decides(machine: Machine) -> None:
    machine.apply(queues())
    state = machine.state
    Backups(state / "backups").create(state / "kuota.db", datetime.now(UTC))
    machine.kubectl("create", "configmap", "acknowledged", "--from-literal=a=b")
    machine.kill()
    (state / "kuota.db-wal").unlink()
    said = refused(machine)
    assert "it held" in said
    assert "1 clusterqueues.kueue.x-k8s.io" in said
    assert "kuota restore latest" in said
    assert "kuota up --accept-loss" in said

    machine.up("--gpus", "4", "--accept-loss")
    machine.kubectl("get", "nodes")
    machine.kill()
    machine.kuota("restore", "latest")
    machine.up("--gpus", "4")
    machine.kubectl("get", "clusterqueue", "lab")


@pytest.mark.parametrize("content", [b"\0" * 9000, b"not a database " * 999])
def test_a_damaged_store_is_reported_with_a_remedy(tmp_path: Path, content: bytes) -> None:
    stopped = Machine(tmp_path)
    store = Store.open(tmp_path / "kuota.db")
    store.create(PODS, thing("a"))
    store.close()
    (tmp_path / "kuota.db").write_bytes(content)
    said = refused(stopped)
    assert str(tmp_path / "kuota.db") in said
    assert "Restore a backup with `kuota restore FILE`" in said
    assert "Nothing was started or changed" in said


@pytest.mark.parametrize("content", [b"\xff\xfe\x00garbage", b'a,"b\0c', b"", b"x" * 200_000])
def test_a_damaged_token_file_is_reported_with_a_remedy(tmp_path: Path, content: bytes) -> None:
    admin_token(tmp_path / "tokens.csv")
    (tmp_path / "tokens.csv").write_bytes(content)
    said = refused(Machine(tmp_path))
    assert "tokens.csv" in said
