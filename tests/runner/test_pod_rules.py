# SPDX-License-Identifier: Apache-2.0
"""Transitions of a pod's containers, and its status."""

from __future__ import annotations

from typing import Any

import pytest

from kuota.api.base import Json
from kuota.runner.pod_status import LOCAL, Observed, pod_status
from kuota.runner.pod_steps import ContainerRun, CrashBackoff, RunHistory, Steps, next_steps

NOW = 1_000_000.0
PACE = CrashBackoff()


def spec(*containers: str, policy: str = "Never", **more: Any) -> Json:
    return {"containers": [{"name": name} for name in containers], "restartPolicy": policy, **more}


def init(*names: str, sidecars: tuple[str, ...] = ()) -> list[Json]:
    return [{"name": n, **({"restartPolicy": "Always"} if n in sidecars else {})} for n in names]


def running(attempt: int = 0) -> RunHistory:
    return RunHistory(ContainerRun(attempt=attempt, started=NOW - 5))


def ended(code: int = 0, attempt: int = 0, streak: int = 0) -> RunHistory:
    return RunHistory(
        ContainerRun(attempt=attempt, streak=streak, started=NOW - 5, finished=NOW, code=code)
    )


def steps(pod: Json, stopping: bool = False, now: float = NOW, **seen: RunHistory) -> Steps:
    return next_steps(pod, seen, now, stopping=stopping, backoff=PACE)


def test_init_containers_start_one_by_one_and_then_all_others() -> None:
    pod = spec("a", "b", initContainers=init("i", "j"))
    assert ["i"] == steps(pod).start
    assert [] == steps(pod, i=running()).start
    assert ["j"] == steps(pod, i=ended()).start
    assert ["a", "b"] == steps(pod, i=ended(), j=ended()).start


def test_a_failed_init_container_ends_a_pod_that_never_restarts() -> None:
    pod = spec("a", initContainers=init("i"))
    assert steps(pod, i=ended(1)).over
    again = steps(spec("a", policy="OnFailure", initContainers=init("i")), i=ended(1))
    assert ["i"] == again.start


def test_a_sidecar_lets_others_begin_once_it_runs_and_goes_last() -> None:
    pod = spec("a", initContainers=init("s", "i", sidecars=("s",)))
    assert ["s"] == steps(pod).start
    assert ["i"] == steps(pod, s=running()).start
    assert ["s"] == steps(pod, s=ended(1), i=ended(), a=running()).start
    assert ["s"] == steps(pod, s=running(), i=ended(), a=ended()).stop
    assert ["a"] == steps(pod, True, s=running(), i=ended(), a=running()).stop
    assert steps(pod, s=ended(143), i=ended(), a=ended()).over


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        ("Never", 1, False),
        ("OnFailure", 1, True),
        ("OnFailure", 0, False),
        ("Always", 0, True),
    ],
)
def test_the_restart_policy_is_followed(policy: str, code: int, again: bool) -> None:
    assert again == (steps(spec("a", policy=policy), a=ended(code)).start == ["a"])


def test_the_first_restart_comes_at_once_and_later_ones_ever_later() -> None:
    waits = []
    for streak in range(8):
        found = steps(spec("a", policy="Always"), a=ended(1, streak, streak))
        waits.append(0 if found.start else int((found.retry_at or 0) - NOW))
    assert [0, 10, 20, 40, 80, 160, 300, 300] == waits


def test_a_long_run_was_no_crash() -> None:
    run = ContainerRun(attempt=5, streak=5, started=NOW - 700, finished=NOW, code=1)
    assert (0, NOW) == (PACE.streak_after(run), PACE.retry_at(run))


def status(pod_spec: Json, over: bool = False, **seen: RunHistory) -> Json:
    for each in (*pod_spec["containers"], *(pod_spec.get("initContainers") or ())):
        each.setdefault("image", "img")
    pod = {"metadata": {"name": "p", "namespace": "team", "uid": "u"}, "spec": pod_spec}
    return pod_status(pod, Observed(histories=seen, over=over, started=NOW), NOW)


def conditions(found: Json) -> dict[str, str]:
    return {each["type"]: each["status"] for each in found["conditions"]}


def test_a_pod_is_pending_then_running_then_over() -> None:
    pod = spec("a", "b")
    assert "Pending" == status(pod)["phase"]
    assert "Running" == status(pod, a=running())["phase"]
    assert "Running" == status(pod, a=running(), b=ended())["phase"]
    assert "Succeeded" == status(pod, True, a=ended(), b=ended())["phase"]
    assert "Failed" == status(pod, True, a=ended(), b=ended(2))["phase"]


def test_the_status_says_which_containers_are_not_ready() -> None:
    found = status(spec("a", "b"), a=running())
    assert ("False", "True") == (conditions(found)["Ready"], conditions(found)["Initialized"])
    (ready,) = [each for each in found["conditions"] if each["type"] == "Ready"]
    assert "containers with unready status: [b]" == ready["message"]
    assert "True" == conditions(status(spec("a"), a=running()))["Ready"]


def test_waiting_containers_say_for_what() -> None:
    early = status(spec("a", initContainers=init("i")))
    assert {"waiting": {"reason": "PodInitializing"}} == early["containerStatuses"][0]["state"]
    assert "False" == conditions(early)["Initialized"]
    crashed = status(spec("a", policy="Always"), a=ended(1, 2, 2))["containerStatuses"][0]
    assert "CrashLoopBackOff" == crashed["state"]["waiting"]["reason"]
    assert (1, 2) == (crashed["lastState"]["terminated"]["exitCode"], crashed["restartCount"])


def test_a_successful_init_container_is_ready() -> None:
    found = status(spec("a", initContainers=init("i")), i=ended(), a=running())
    assert found["initContainerStatuses"][0]["ready"]


def test_no_image_was_pulled_and_the_pod_says_so() -> None:
    (said,) = [each for each in status(spec("a"))["conditions"] if each["type"] == LOCAL]
    assert "image img is recorded, not pulled" in said["message"]


def lost() -> RunHistory:
    run = ContainerRun(
        attempt=0,
        started=NOW - 5,
        finished=NOW,
        code=137,
        reason="ContainerStatusUnknown",
        message="the machine restarted while the container ran",
        disruption="MachineRestarted",
    )
    return RunHistory(run)


def disruption(pod: Json, **seen: Any) -> tuple[str, str] | None:
    """Reason and message of the condition DisruptionTarget, if the pod has it."""
    found = pod_status(pod, Observed(over=True, started=NOW, **seen), NOW)["conditions"]
    for each in found:
        if each["type"] == "DisruptionTarget":
            assert "True" == each["status"]
            return each["reason"], each["message"]
    return None


def test_a_pod_that_failed_with_its_machine_is_marked_as_disrupted() -> None:
    words = ("MachineRestarted", "the machine restarted while the container ran")
    pod = {"metadata": {"name": "p", "uid": "u"}, "spec": spec("a", "b")}
    seen = {"a": lost(), "b": ended()}
    assert words == disruption(pod, histories=seen)
    status = pod_status(pod, Observed(over=True, histories=seen), NOW)
    assert ("Failed", *words) == (status["phase"], status["reason"], status["message"])
    assert None is disruption(pod, histories={"a": ended(1), "b": ended()})
    assert None is disruption(pod, histories=seen, failure=("DeadlineExceeded", "too long"))
    deleted = {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2026-11-16T00:00:00Z"}}
    assert None is disruption(deleted, histories=seen), "it had to end anyway"


def test_the_status_of_a_pod_that_the_informer_has_reduced_can_be_written() -> None:
    known = [{"type": "Ready", "status": "False"}]
    pod = {
        "metadata": {"name": "p", "uid": "u"},
        "spec": spec("a"),
        "status": {"conditions": known},
    }
    found = pod_status(pod, Observed(over=True, histories={"a": ended(1)}, started=NOW), NOW)
    assert all(each["lastTransitionTime"] for each in found["conditions"])


def test_a_lost_sidecar_does_not_excuse_the_failure_of_a_container() -> None:
    inits = init("s", sidecars=("s",))
    pod = {"metadata": {"name": "p", "uid": "u"}, "spec": spec("a", initContainers=inits)}
    assert None is disruption(pod, histories={"s": lost(), "a": ended(1)})
    assert None is not disruption(pod, histories={"s": ended(143), "a": lost()})
