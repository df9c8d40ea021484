# SPDX-License-Identifier: Apache-2.0
"""A member's token grants access to the namespaces of the member's team only."""

from __future__ import annotations

from pathlib import Path

from attack.members import job, join
from up.machine import Machine


def test_members_of_two_teams_do_not_reach_each_other(machine: Machine, tmp_path: Path) -> None:
    ann = join(machine, "ann", "vision", tmp_path)
    bob = join(machine, "bob", "speech", tmp_path)
    created = ann.create(job("train", ["true"]))
    assert created.returncode == 0, created.stderr
    for attempt in (
        ("get", "jobs", "-n", "vision"),
        ("delete", "job", "train", "-n", "vision"),
        ("get", "pods", "--all-namespaces"),
        ("get", "secrets", "-n", "kuota-system"),
    ):
        refused = bob.kubectl(*attempt)
        assert refused.returncode != 0, refused.stdout
        assert "Forbidden" in refused.stderr, refused.stderr
