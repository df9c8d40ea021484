# SPDX-License-Identifier: Apache-2.0
"""After a writer is killed at any time, the file contains every acknowledged write."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from kuota.api.base import Key
from kuota.server.store import Durability, Store
from kuota.server.store_copies import copy_store

ROUNDS = 8
WRITE_S = 0.004
Acknowledged = tuple[int, str, str, str]


def acknowledged_until_killed(
    path: str, durability: Durability, chance: random.Random
) -> list[Acknowledged]:
    """Run a writer until it has said some lines, kill it, and hear what it still said."""
    command = [sys.executable, str(Path(__file__).with_name("writer.py")), path, durability]
    with subprocess.Popen([*command, str(chance.random())], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(chance.randrange(20, 120))]
        with suppress(subprocess.TimeoutExpired):  # any instant of a write, not just its end
            writer.wait(timeout=chance.random() * WRITE_S)
        writer.send_signal(signal.SIGKILL)
        lines += writer.stdout.readlines()
    assert -signal.SIGKILL == writer.returncode
    whole = [line.decode().split() for line in lines if line.endswith(b"\n")]
    return [(int(revision), verb, name, value) for revision, verb, name, value in whole]


def unheard(store: Store, acknowledged: list[Acknowledged]) -> list[Acknowledged]:
    """The writes that the writer had no time left to tell of."""
    return [
        (
            change.revision,
            "delete" if change.type == "DELETED" else "put",
            change.key.name,
            change.object["spec"]["value"],
        )
        for change in store.changes(acknowledged[-1][0])
    ]


def check_all_is_there(store: Store, acknowledged: list[Acknowledged]) -> None:
    """The file holds all of `told`, and at most one write more, of which nobody was told."""
    assert acknowledged[-1][0] <= store.revision <= acknowledged[-1][0] + 1
    latest = {each[2]: each for each in acknowledged + unheard(store, acknowledged)}
    for revision, verb, name, value in latest.values():
        obj = store.get("things", Key("team", name))
        if verb == "delete":
            assert obj is None
        else:
            assert obj is not None
            assert (str(revision), value) == (
                obj["metadata"]["resourceVersion"],
                obj["spec"]["value"],
            )


def check_log(store: Store, acknowledged: list[Acknowledged]) -> None:
    """The log has no gap, tells of the writes what was told of them, and ends in what there is."""
    log = store.changes(store.compacted)
    assert list(range(store.compacted + 1, store.revision + 1)) == [each.revision for each in log]
    by_revision = {each.revision: each for each in log}
    for revision, verb, name, value in acknowledged:
        if revision > store.compacted:
            change = by_revision[revision]
            assert (name, verb == "delete") == (change.key.name, change.type == "DELETED")
            assert verb == "delete" or value == change.object["spec"]["value"]
    for change in {each.key: each for each in log}.values():
        live = None if change.type == "DELETED" else change.object
        assert live == store.get("things", change.key)


@pytest.mark.slow
@pytest.mark.parametrize("durability", list(Durability))
def test_what_was_acknowledged_survives_kill_9_at_any_instant(
    tmp_path: Path, durability: Durability
) -> None:
    path, chance = str(tmp_path / "kuota.db"), random.Random(f"kill {durability}")
    acknowledged: list[Acknowledged] = []
    for round_ in range(ROUNDS):
        if round_ % 2:
            copy_store(path, f"{path}.copy")  # a reader must not get in the way of recovery
        acknowledged += acknowledged_until_killed(path, durability, chance)
        store = Store.open(path, durability)
        check_all_is_there(store, acknowledged)
        check_log(store, acknowledged)
        acknowledged += unheard(store, acknowledged)
        store.close()
        with sqlite3.connect(path) as db:
            assert [("ok",)] == db.execute("PRAGMA integrity_check").fetchall()
        db.close()
