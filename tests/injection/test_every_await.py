# SPDX-License-Identifier: Apache-2.0
"""One failure at each await point of controllers and runner leads to the expected final state.

Usage is correct, every Job that should finish finishes, every running pod has its process, and no
device leaks. If the failure ends the process, a new process reaches the same state.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from injection.points import PLAN, Failure, Mode, points
from injection.story import run_story

CHAINED = {"runner.agent.Agent._work#2": "runner.agent.Agent._work#1"}
"""Points that are reached only after a bug at another one, which is injected first."""

APART = {
    "runner.file_creation.create_files#1": "a process creates volumes, and here are none",
    "runner.file_creation.create_files#2": "a process creates volumes, and here are none",
    "runner.file_creation._whole#1": "a process creates volumes, and here are none",
    "runner.pod_launch.PodLaunch._prepare#2": "a process creates volumes, and here are none",
    "runner.pod_runs.end_all#1": "`kuota down` runs it in a process of its own",
    "runner.exec.ExecSessions.end#1": "no command runs in a container here",
    "control.reconcile_job.JobReconciler._evaluated#1": "all priority classes are known here",
    "control.cluster_cache.ClusterCache.find_missing#1": "all classes and flavors are known here",
    "runner.group_controller.GroupController._change_jobs#2": "no JobSet starts again here",
}
"""Points that are not part of the story, and why."""

STREAMS = (
    "runner.descriptors.",
    "runner.exec.ExecSession.",
    "runner.directory_watch.",
    "runner.logs.",
    "runner.pod_sockets.",
    "runner.pod_worker.PodWorker.exec#",
    "runner.pod_worker.PodWorker._launch_again#",
)
"""Parts of the answer to `kubectl exec`, `logs` or `port-forward`: nobody else depends on them."""

USAGE = "runner.usage."
"""Measures processes for `kubectl top`. It is retried, and nothing depends on it."""

IDLE = (
    "multikueue.clusters.ClusterReconciler.run#",
    "multikueue.clusters.ClusterReconciler._watch_secrets#",
    "multikueue.clusters.ClusterReconciler._watch_files#",
    "multikueue.collector.GarbageCollector.run#",
    "multikueue.controller.MultiKueueController.",
    "multikueue.dispatcher.Dispatcher.run#",
    "multikueue.external.ExternalJobs.run#",
    "multikueue.cluster_connections.ClusterConnections.run#",
    "multikueue.objects.MultiKueueObjects.run#",
    "multikueue.objects.MultiKueueObjects.ready#",
)
"""Loops of MultiKueue that run although no other cluster is known."""

MULTIKUEUE = {e for e in points() if e.startswith("multikueue.") and not e.startswith(IDLE)}
"""Other clusters: tests/control/test_multikueue_faults.py has fault runs of its own."""

_LEFT_OUT = (*STREAMS, USAGE)
_NOT_TOLD = {e for e in points() if e.startswith(_LEFT_OUT)} | MULTIKUEUE
APART |= dict.fromkeys(_NOT_TOLD, "not part of the story")

ATOMIC = {
    "control.keyed_locks.LockSet.__aenter__#1",
    "control.keyed_locks.KeyedLocks.acquire#1",
}
"""A lock is taken, or taking it raises: no caller can fail after it was taken."""

SHARED = "control.effects.EffectSender._patch#1"
"""Where all controllers write: it also fails at later times, so that each of them is met."""

FAILURES = [
    Failure(point, mode)
    for point, modes in points().items()
    for mode in modes
    if point not in APART and not (point in ATOMIC and mode is Mode.AFTER)
]
FAILURES += [Failure(SHARED, mode, n) for mode in (Mode.BEFORE, Mode.AFTER) for n in range(2, 25)]


@pytest.fixture
def state_dir() -> Iterator[Path]:
    """A folder in memory, where there is one: what is stored is not what is tested here."""
    memory = "/dev/shm"
    with TemporaryDirectory(dir=memory if Path(memory).is_dir() else None) as folder:
        yield Path(folder)


def test_the_story_reaches_every_point(state_dir: Path) -> None:
    it = run_story(state_dir)
    assert {*CHAINED, *APART, *ATOMIC} <= {*points()}, "all exceptions exist"
    missed = {each for each in points() if not PLAN.reached[each]}
    # Whether an idle loop of MultiKueue reaches a point is no contract.
    assert missed - MULTIKUEUE == {*APART, *CHAINED} - MULTIKUEUE
    assert 1 == it.restarts, "only the planned one"


@pytest.mark.slow
@pytest.mark.parametrize(
    "failure", FAILURES, ids=lambda each: f"{each.point}-{each.mode}-{each.nth}"
)
def test_after_a_failure_at_any_point_all_ends_well(failure: Failure, state_dir: Path) -> None:
    before = CHAINED.get(failure.point)
    run_story(state_dir, *([Failure(before, Mode.BEFORE)] if before else []), failure)
    endless = failure.mode in (Mode.AFTER, Mode.LOST) and not PLAN.returned[failure.point]
    assert endless or not PLAN.left, "the failure took place"
