# SPDX-License-Identifier: Apache-2.0
"""Pods, groups and services of `examples/services`, as a user sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from up.machine import running

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "services"


def test_logs_follow_all_pods_of_a_job_at_once() -> None:
    with running("--gpus", "4") as machine:
        machine.kubectl("apply", "-f", str(EXAMPLE / "1-queues.yaml"))
        machine.kubectl("apply", "-f", str(EXAMPLE / "4-pod-group.yaml"))
        followed = machine.kuota("logs", "-f", "podgroup/pair").splitlines()
        assert ["[follower] follower", "[leader] leader"] == sorted(followed)
        printed = machine.kuota("logs", "workload/pair").splitlines()
        assert sorted(followed) == sorted(printed)
        machine.kubectl("apply", "-f", str(EXAMPLE / "3-statefulset.yaml"))
        machine.kubectl("rollout", "status", "statefulset/cache")
        lines = machine.kuota("logs", "statefulset/cache").splitlines()
        assert ["[cache-0] cache-0", "[cache-1] cache-1"] == lines
        assert "StatefulSet" in machine.kuota("describe", "statefulset", "cache")
        listed = machine.kuota("list", "workload")
        assert "statefulset-cache" in listed
        assert "pair" in listed


@pytest.mark.parametrize(("kind", "file"), [("deployment/web", 2), ("statefulset/cache", 3)])
def test_a_rollout_can_be_followed_undone_and_restarted(kind: str, file: int) -> None:
    path = ("jsonpath={.spec.template.spec.containers[0].env[?(@.name=='VERSION')].value}",)
    manifest = next(EXAMPLE.glob(f"{file}-*.yaml"))
    with running("--gpus", "4") as machine:
        machine.kubectl("apply", "-f", str(EXAMPLE / "1-queues.yaml"), "-f", str(manifest))
        for version in ("one", "two"):
            machine.kubectl("set", "env", kind, f"VERSION={version}")
            machine.kubectl("rollout", "status", kind)
        history = machine.kubectl("rollout", "history", kind).splitlines()
        assert ["1", "2", "3"] == [line.split()[0] for line in history if line[:1].isdigit()]
        machine.kubectl("rollout", "undo", kind)
        machine.kubectl("rollout", "status", kind)
        assert "one" == machine.kubectl("get", kind, "-o", *path)
        machine.kubectl("rollout", "undo", kind, "--to-revision=1")
        machine.kubectl("rollout", "status", kind)
        assert "" == machine.kubectl("get", kind, "-o", *path)
        machine.kubectl("rollout", "restart", kind)
        machine.kubectl("rollout", "status", kind)
        assert "NewReplicaSet" in machine.kubectl("describe", "deployment") or "cache" in kind
