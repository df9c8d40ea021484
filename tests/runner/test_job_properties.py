# SPDX-License-Identifier: Apache-2.0
"""Invariants of the Job rules for any pod behavior and any crash of the controller."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kuota.api.core import is_finished
from runner.job_world import Crash, World, job

LOTS = 400
ACTIONS = ("run", "succeed", "fail", "delete", "finish", "suspend", "resume", "wait", "crash")


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "parallelism": draw(st.integers(1, 4)),
        "backoffLimit": draw(st.integers(0, 4)),
        "podReplacementPolicy": draw(st.sampled_from(["TerminatingOrFailed", "Failed"])),
    }
    kind = draw(st.sampled_from(["queue", "counted", "indexed", "per index"]))
    if kind != "queue":
        spec["completions"] = draw(st.integers(0, 5))
    if kind in ("indexed", "per index"):
        spec["completionMode"] = "Indexed"
    if kind == "per index":
        spec["backoffLimitPerIndex"] = draw(st.integers(0, 2))
        spec["backoffLimit"] = 1000
    return spec


actions = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 7)), max_size=25)


def act(world: World, action: str, number: int) -> None:
    active, terminating = world.active(), world.terminating()
    if action == "suspend" or action == "resume":
        world.suspend(action == "suspend")
    elif action == "wait":
        world.now += 10 * 2**number
    elif action == "crash":
        left = [number]

        def crash() -> bool:
            left[0] -= 1
            return left[0] < 0

        world.crash = crash
    elif action == "finish" and terminating:
        world.end(terminating[number % len(terminating)], "Failed", 143)
    elif active and action in ("run", "delete"):
        getattr(world, action)(active[number % len(active)])
    elif active and action in ("succeed", "fail"):
        phase = "Succeeded" if action == "succeed" else "Failed"
        world.end(active[number % len(active)], phase)


def settle(world: World) -> None:
    with suppress(Crash):
        world.settle()
    world.crash = lambda: False


def check(world: World) -> None:
    spec, status = world.job["spec"], world.status
    succeeded = status.get("succeeded", 0)
    assert world.most_active <= spec["parallelism"]
    assert succeeded <= list(world.ends.values()).count("Succeeded")
    if "completions" in spec:
        assert succeeded <= spec["completions"]
    uncounted = status.get("uncountedTerminatedPods") or {}
    listed = [*(uncounted.get("succeeded") or ()), *(uncounted.get("failed") or ())]
    assert len(set(listed)) == len(listed)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(specs(), actions)
def test_counts_never_exceed_what_happened_nor_active_pods_the_parallelism(
    spec: dict[str, Any], what: list[tuple[str, int]]
) -> None:
    world = World(job(**spec))
    settle(world)
    for action, number in what:
        act(world, action, number)
        settle(world)
        check(world)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(specs(), actions, st.sampled_from(["Succeeded", "Failed"]))
def test_every_job_comes_to_an_end_and_then_stays_as_it_is(
    spec: dict[str, Any], what: list[tuple[str, int]], fate: str
) -> None:
    world = World(job(**spec))
    settle(world)
    for action, number in what:
        act(world, action, number)
        settle(world)
    world.suspend(False)
    for _ in range(LOTS):
        again = world.settle().retry_at
        if is_finished(world.job):
            break
        for name in world.active() or world.terminating():
            world.end(name, fate)
        if again is not None:
            world.now = max(world.now, again)
    assert is_finished(world.job)
    end = dict(world.status)
    world.now += 10_000
    world.settle()
    assert end == world.status
    assert not any(pod["metadata"]["finalizers"] for pod in world.pods.values())


@settings(max_examples=200, deadline=None, derandomize=True)
@given(specs(), st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=30))
def test_nothing_is_counted_twice_nor_forgotten_when_the_controller_crashes(
    spec: dict[str, Any], ends: list[tuple[bool, int]]
) -> None:
    """Crash at any write; at rest, counters are exactly what the pods did."""
    world = World(job(**{**spec, "backoffLimit": 1000}))
    settle(world)
    for success, crash_at in ends:
        for name in world.active()[:1]:
            world.end(name, "Succeeded" if success else "Failed")
        act(world, "crash", crash_at)
        settle(world)
        world.now += 1000
        world.settle()
        if spec.get("completionMode") == "Indexed":
            continue
        happened = list(world.ends.values())
        assert happened.count("Succeeded") == world.status.get("succeeded", 0)
        assert happened.count("Failed") == world.status.get("failed", 0)
