# SPDX-License-Identifier: Apache-2.0
"""The rules of the Job controller, one per test, in virtual time."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from kuota.runner.job_pods import FAILURES, INDEX, pod_view
from kuota.runner.job_rules import NOTHING, step
from kuota.runner.job_spec import indexes_text, parsed_indexes
from kuota.runner.pod_informer import trimmed_pod
from runner.job_world import World, job


def running(**spec: Any) -> World:
    world = World(job(**spec))
    world.settle()
    for name in world.active():
        world.run(name)
    world.settle()
    return world


def fail(world: World, name: str, code: int = 1, **more: Any) -> None:
    world.end(name, "Failed", code, **more)
    world.settle()


def succeed(world: World, *names: str) -> None:
    for name in names:
        world.end(name, "Succeeded")
    world.settle()


@pytest.mark.parametrize(
    ("text", "indexes"),
    [("", set()), ("3", {3}), ("1,3-5,7", {1, 3, 4, 5, 7}), ("0,1,4", {0, 1, 4})],
)
def test_indexes_are_written_as_they_are_read(text: str, indexes: set[int]) -> None:
    assert indexes == parsed_indexes(text)
    assert text == indexes_text(indexes)


def test_a_job_makes_one_pod_and_is_complete_when_it_succeeds() -> None:
    world = running()
    assert (1, 1) == (world.status["active"], world.status["ready"])
    succeed(world, *world.active())
    assert {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"} == (
        world.conditions()
    )
    assert 1 == world.status["succeeded"]
    assert "completionTime" in world.status
    assert {} == world.status["uncountedTerminatedPods"]
    assert [[]] == [pod["metadata"]["finalizers"] for pod in world.pods.values()]


def test_a_job_of_one_pod_costs_two_status_writes_and_one_finalizer() -> None:
    world = World(job())
    world.settle()
    succeed(world, *world.active())
    made, started, ended, released = 1, 1, 1, 1
    assert made + started + ended + released == world.writes


def test_never_more_than_parallelism_run_until_all_completions_are_reached() -> None:
    world = running(parallelism=2, completions=5)
    for expected in (2, 2, 2, 2, 1):
        assert expected == len(world.active())
        succeed(world, world.active()[0])
    assert ("CompletionsReached", 5) == (world.conditions()["Complete"], world.status["succeeded"])


def test_a_work_queue_ends_when_one_succeeded_and_none_runs() -> None:
    world = running(parallelism=3)
    first, second, third = world.active()
    succeed(world, first)
    assert [second, third] == world.active()
    fail(world, second)
    assert [third] == world.active()
    succeed(world, third)
    assert "Complete" in world.conditions()


def test_a_failed_pod_is_replaced_after_a_pause_that_doubles() -> None:
    world = running(backoffLimit=5)
    for pause in (10, 20, 40):
        fail(world, world.active()[0])
        assert [] == world.active()
        again = world.settle().retry_at
        assert again is not None
        assert int(world.now) + pause == again
        world.now = again
        world.settle()
        assert 1 == len(world.active())
    assert 3 == world.status["failed"]


def test_one_failure_more_than_the_limit_fails_the_job_and_ends_its_pods() -> None:
    world = running(parallelism=2, completions=2, backoffLimit=0)
    first, second = world.active()
    fail(world, first)
    assert {"FailureTarget": "BackoffLimitExceeded"} == world.conditions()
    assert [second] == world.terminating()
    world.end(second, "Failed")
    world.settle()
    assert "BackoffLimitExceeded" == world.conditions()["Failed"]
    assert (2, 0) == (world.status["failed"], world.status["terminating"])
    assert "completionTime" not in world.status


def test_restarts_in_place_count_against_the_limit() -> None:
    world = running(backoffLimit=2)
    world.job["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    (name,) = world.active()
    world.pods[name]["status"]["containerStatuses"] = [{"name": "main", "restartCount": 2}]
    world.settle()
    assert {"FailureTarget": "BackoffLimitExceeded"} == world.conditions()


def test_a_job_that_runs_too_long_fails() -> None:
    world = running(activeDeadlineSeconds=60)
    assert int(world.now) + 60 == world.settle().retry_at
    world.now += 60
    world.settle()
    for name in world.terminating():
        fail(world, name)
    assert "DeadlineExceeded" == world.conditions()["Failed"]


def test_suspending_takes_the_pods_away_and_counts_none_of_them() -> None:
    world = running(parallelism=2, completions=2, activeDeadlineSeconds=100)
    world.suspend(True)
    world.settle()
    assert [] == world.active()
    assert 2 == world.status["terminating"]
    assert {"Suspended": "JobSuspended"} == world.conditions()
    for name in world.terminating():
        fail(world, name)
    assert (0, {}) == (world.status.get("failed", 0), world.pods)
    world.now += 1000
    assert world.settle().retry_at is None


def test_resuming_starts_afresh_with_a_new_start_time() -> None:
    world = running(suspend=True, activeDeadlineSeconds=100)
    assert ([], False) == (world.active(), "startTime" in world.status)
    world.now += 500
    world.suspend(False)
    world.settle()
    assert (1, {}) == (len(world.active()), world.conditions())
    assert int(world.now) + 100 == world.settle().retry_at
    assert ["JobResumed"] == [each["reason"] for each in world.status["conditions"]]


def test_each_index_gets_one_pod_that_knows_its_index() -> None:
    world = running(completionMode="Indexed", completions=3, parallelism=2)
    assert [0, 1] == sorted(world.indexes())
    pod = world.pods[world.indexes()[1]]
    assert "1" == pod["metadata"]["labels"][INDEX] == pod["metadata"]["annotations"][INDEX]
    (variable,) = pod["spec"]["containers"][0]["env"]
    assert ("JOB_COMPLETION_INDEX", "work-1") == (variable["name"], pod["spec"]["hostname"])
    succeed(world, world.indexes()[1])
    assert ("1", [0, 2]) == (world.status["completedIndexes"], sorted(world.indexes()))
    succeed(world, *world.indexes().values())
    assert ("0-2", 3) == (world.status["completedIndexes"], world.status["succeeded"])
    assert "Complete" in world.conditions()


def test_an_index_may_fail_alone_and_the_others_go_on() -> None:
    world = running(completionMode="Indexed", completions=2, parallelism=2, backoffLimitPerIndex=1)
    fail(world, world.indexes()[0])
    world.now = world.settle().retry_at or 0
    world.settle()
    assert "1" == world.pods[world.indexes()[0]]["metadata"]["annotations"][FAILURES]
    fail(world, world.indexes()[0])
    assert ("0", [1]) == (world.status["failedIndexes"], sorted(world.indexes()))
    succeed(world, world.indexes()[1])
    assert "FailedIndexes" == world.conditions()["Failed"]
    assert (1, 2, "1") == (
        world.status["succeeded"],
        world.status["failed"],
        world.status["completedIndexes"],
    )


def test_too_many_failed_indexes_fail_the_job() -> None:
    world = running(
        completionMode="Indexed",
        completions=3,
        parallelism=3,
        backoffLimitPerIndex=0,
        maxFailedIndexes=1,
    )
    pods = world.indexes()
    fail(world, pods[0])
    assert {} == world.conditions()
    fail(world, pods[1])
    assert {"FailureTarget": "MaxFailedIndexesExceeded"} == world.conditions()


POLICY = {
    "rules": [
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
    ]
}


def test_an_exit_code_may_fail_the_whole_job() -> None:
    world = running(podFailurePolicy=POLICY)
    fail(world, world.active()[0], 42)
    (end,) = [each for each in world.status["conditions"] if each["type"] == "Failed"]
    assert "PodFailurePolicy" == end["reason"]
    assert "exit code 42 matching FailJob rule at index 0" in end["message"]


def test_a_disruption_may_count_as_nothing() -> None:
    world = running(podFailurePolicy=POLICY, backoffLimit=0)
    disruption = {"type": "DisruptionTarget", "status": "True"}
    fail(world, world.active()[0], conditions=[disruption])
    assert ({}, 0) == (world.conditions(), world.status.get("failed", 0))
    world.now += 10
    world.settle()
    assert 1 == len(world.active())


def test_disruptions_of_an_index_never_count_not_even_when_their_pods_are_trimmed() -> None:
    world = running(
        completionMode="Indexed",
        completions=1,
        backoffLimitPerIndex=0,
        podFailurePolicy=POLICY,
    )
    disruption = {"type": "DisruptionTarget", "status": "True"}
    for _ in range(4):
        fail(world, world.indexes()[0], conditions=[disruption])
        world.now += 10_000
        world.pods = {name: trimmed_pod(pod) for name, pod in world.pods.items()}
        world.settle()
    assert ({}, [0]) == (world.conditions(), sorted(world.indexes()))


def test_a_rule_may_fail_one_index() -> None:
    rules = [{"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [1]}}]
    world = running(
        completionMode="Indexed",
        completions=2,
        parallelism=2,
        backoffLimitPerIndex=5,
        podFailurePolicy={"rules": rules},
    )
    fail(world, world.indexes()[0], 7)
    assert ("0", [1]) == (world.status["failedIndexes"], sorted(world.indexes()))


def test_a_success_policy_ends_the_job_before_all_indexes_are_done() -> None:
    world = running(
        completionMode="Indexed",
        completions=3,
        parallelism=3,
        successPolicy={"rules": [{"succeededIndexes": "0"}]},
    )
    succeed(world, world.indexes()[0])
    assert {"SuccessCriteriaMet": "SuccessPolicy"} == world.conditions()
    for name in world.terminating():
        fail(world, name)
    assert "SuccessPolicy" == world.conditions()["Complete"]
    assert ("0", 0) == (world.status["completedIndexes"], world.status.get("failed", 0))


@pytest.mark.parametrize(
    ("text", "met"),
    [("0-99999999999", False), ("0-" + "9" * 5000, False), ("²", False), ("0-1", True)],
)
def test_indexes_of_a_success_policy_are_counted_one_range_at_a_time(text: str, met: bool) -> None:
    """Older versions stored Jobs with any text. A set of so many indexes would fill the memory."""
    world = running(
        completionMode="Indexed",
        completions=3,
        parallelism=3,
        successPolicy={"rules": [{"succeededIndexes": text}]},
    )
    pods = world.indexes()
    succeed(world, pods[0], pods[1])
    assert met is ("SuccessCriteriaMet" in world.conditions())


def test_annotations_of_pods_that_are_no_numbers_are_ignored() -> None:
    for text in ("²", "9" * 5000, "-1", "x"):
        notes = {INDEX: text, FAILURES: text}
        found = pod_view({"metadata": {"name": "p", "annotations": notes}})
        assert (None, 0) == (found.index, found.failures)


def test_enough_successes_of_any_index_may_do() -> None:
    world = running(
        completionMode="Indexed",
        completions=3,
        parallelism=3,
        successPolicy={"rules": [{"succeededCount": 2}]},
    )
    pods = world.indexes()
    succeed(world, pods[2])
    assert {} == world.conditions()
    succeed(world, pods[1])
    assert {"SuccessCriteriaMet": "SuccessPolicy"} == world.conditions()


@pytest.mark.parametrize("policy", ["TerminatingOrFailed", "Failed"])
def test_a_deleted_pod_is_replaced_when_its_processes_are_gone(policy: str) -> None:
    world = running(podReplacementPolicy=policy)
    (name,) = world.active()
    world.delete(name)
    world.settle()
    assert (0, 1) == (len(world.active()), world.status["terminating"])
    fail(world, name)
    world.now += 10
    world.settle()
    assert (1, 1, 0) == (
        len(world.active()),
        world.status["failed"],
        world.status["terminating"],
    )


def test_a_finished_job_goes_when_its_time_to_live_is_over() -> None:
    world = running(ttlSecondsAfterFinished=30)
    succeed(world, *world.active())
    assert int(world.now) + 30 == world.settle().retry_at
    world.now += 30
    world.settle()
    assert world.removed


def test_less_parallelism_takes_the_pods_that_came_least_far() -> None:
    world = World(job(parallelism=3, completions=3))
    world.settle()
    first, second, third = world.active()
    world.run(second)
    world.job["spec"]["parallelism"] = 1
    world.settle()
    assert [second] == world.active()
    assert 0 == world.status.get("failed", 0)
    assert {second} == set(world.pods)
    assert first != third


def test_a_job_of_another_controller_is_left_alone_until_it_has_expired() -> None:
    world = running(managedBy="example.com/other", ttlSecondsAfterFinished=60)
    assert ({}, {}) == (world.pods, world.status)
    assert NOTHING == step(world.job, [], world.now)
    end = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}
    finished = world.job | {"status": {"conditions": [end]}}
    ended = datetime.fromisoformat(end["lastTransitionTime"]).timestamp()
    assert ended + 60 == step(finished, [], ended + 59).retry_at
    assert step(finished, [], ended + 60).remove
