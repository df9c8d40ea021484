# SPDX-License-Identifier: Apache-2.0
"""`kuota status` says which limits are enforced, and how."""

from __future__ import annotations

from kuota.runner.cgroups import Cgroups
from kuota.up.separation import limits


def test_nothing_is_said_where_all_limits_are_enforced() -> None:
    assert "" == limits(Cgroups("/sys/fs/cgroup", controllers=("cpu", "memory", "pids")), 100)


def test_without_cgroups_processes_are_still_limited() -> None:
    assert (
        "Limits of cpu and memory are not enforced. The limit of 100 processes and threads applies "
        "to all pods of a Unix user together instead of each pod, and to no pod of root. "
        "The reason: this machine has no cgroup v2."
    ) == limits(Cgroups(refusal="this machine has no cgroup v2"), 100)


def test_only_what_is_missing_is_mentioned() -> None:
    some = Cgroups("/g", "cpu is not delegated", ("memory", "pids"))
    assert "Limits of cpu are not enforced. The reason: cpu is not delegated." == limits(some, 100)
    other = Cgroups("/g", "pids is not delegated", ("cpu", "memory"))
    assert limits(other, 7).startswith("The limit of 7 processes and threads applies to all pods")
