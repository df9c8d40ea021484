# SPDX-License-Identifier: Apache-2.0
"""Two-phase admission: effects of admission checks on a Workload and its Job."""

from __future__ import annotations

from control.objects import check, flavor, job, local_queue, queue
from control.stage import Stage, run_scene
from kuota.api.base import Json, Key
from kuota.kube.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, WORKLOADS


async def _setting(stage: Stage, *checks: Json) -> None:
    """A queue of 4 CPUs that requires the checks, each of them active."""
    listed = {"admissionChecks": list(checks)}
    strategy: Json = {"admissionChecksStrategy": listed} if checks else {}
    await stage.api.apply(flavor(), local_queue(), *(check(each["name"]) for each in checks))
    await stage.api.apply(queue("cq", 4, **strategy))
    for each in checks:
        await stage.activate(each["name"])


async def _answer(stage: Stage, job_name: str, name: str, state: str, **more: object) -> None:
    await stage.answer(stage.workload(job_name), name, state, **more)


def _states(stage: Stage, job_name: str) -> dict[str, str]:
    listed = stage.workload(job_name)["status"].get("admissionChecks") or ()
    return {each["name"]: each["state"] for each in listed}


def test_a_reservation_lists_the_checks_and_hides_what_was_asked_for() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, {"name": "b"}, {"name": "a"})
        await stage.api.apply(job("j", "4"))
        await stage.rest()
        assert {"a": "Pending", "b": "Pending"} == _states(stage, "j")
        assert "False/UnsatisfiedAdmissionChecks" == stage.says("j", "Admitted")
        assert not stage.workload("j")["status"].get("resourceRequests")
        await _answer(stage, "j", "a", "Ready")
        await stage.rest()
        assert stage.suspended("j")
        await _answer(stage, "j", "b", "Ready")
        await stage.rest()
        assert not stage.suspended("j")

    run_scene(scene)


def test_an_edit_of_a_job_that_waits_for_a_check_is_kept_and_queues_anew() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, {"name": "a"})
        await stage.api.apply(job("j", "4"))
        await stage.rest()
        before = stage.workload("j")["metadata"]["uid"]
        tolerated = [{"key": "spot", "operator": "Exists"}]
        await stage.edit(JOBS, "j", {"spec": {"template": {"spec": {"tolerations": tolerated}}}})
        await stage.rest()
        assert tolerated == stage.job("j")["spec"]["template"]["spec"]["tolerations"]
        after = stage.workload("j")
        assert before != after["metadata"]["uid"]
        assert tolerated == after["spec"]["podSets"][0]["template"]["spec"]["tolerations"]
        assert {"a": "Pending"} == _states(stage, "j")
        assert ["DeletedWorkload"] == [e for e in stage.events("Job", "j") if "Deleted" in e]

    run_scene(scene)


def test_a_check_of_some_flavors_is_only_for_who_uses_them() -> None:
    async def scene(stage: Stage) -> None:
        await stage.api.apply(flavor("spot"), flavor("reserved"), local_queue(), check("a"))
        strategy = {"admissionChecks": [{"name": "a", "onFlavors": ["spot"]}]}
        flavors = {"reserved": 4, "spot": 4}
        await stage.api.apply(queue("cq", flavors=flavors, admissionChecksStrategy=strategy))
        await stage.activate("a")
        await stage.api.apply(job("first", "4"))
        await stage.rest()
        assert {} == _states(stage, "first")
        assert not stage.suspended("first")
        await stage.api.apply(job("second", "4"))
        await stage.rest()
        assert {"a": "Pending"} == _states(stage, "second")
        assert stage.suspended("second")

    run_scene(scene)


def test_a_check_added_later_stops_no_job_unless_it_demands_a_retry() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(job("j", "4"), check("late"))
        await stage.rest()
        await stage.activate("late")
        strategy = {"admissionChecks": [{"name": "late"}]}
        await stage.edit(CLUSTER_QUEUES, "cq", {"spec": {"admissionChecksStrategy": strategy}})
        await stage.rest()
        assert {"late": "Pending"} == _states(stage, "j")
        assert not stage.suspended("j")
        await _answer(stage, "j", "late", "Retry")
        await stage.rest()
        assert "EvictedDueToAdmissionCheck" in stage.events("Workload")

    run_scene(scene)


def test_one_that_rejects_counts_more_than_one_that_wants_to_try_again() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, {"name": "a"}, {"name": "b"})
        await stage.api.apply(job("j", "4"))
        await stage.rest()
        stored = stage.workload("j")
        listed = [
            each | {"state": state, "message": ""}
            for each, state in zip(
                stored["status"]["admissionChecks"], ("Rejected", "Retry"), strict=True
            )
        ]
        await stage.status(WORKLOADS, stored["metadata"]["name"], {"admissionChecks": listed})
        await stage.rest()
        assert "True/DeactivatedDueToAdmissionCheck" == stage.says("j", "Evicted")
        assert stage.workload("j")["spec"]["active"] is False
        assert "AdmissionCheckRejected" in stage.events("Workload")

    run_scene(scene)


def test_an_eviction_starts_all_checks_again_and_counts_the_tries_of_one() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, {"name": "a"}, {"name": "b"})
        await stage.api.apply(job("j", "4"))
        await stage.rest()
        await _answer(stage, "j", "a", "Ready")
        await _answer(stage, "j", "b", "Retry", requeueAfterSeconds=60)
        await stage.rest()
        assert {"a": "Pending", "b": "Pending"} == _states(stage, "j")
        a, b = stage.workload("j")["status"]["admissionChecks"]
        assert (None, 1) == (a.get("retryCount"), b.get("retryCount"))
        assert "False/AdmissionCheck" == stage.says("j", "Requeued")
        assert not (stage.workload("j")["status"]["requeueState"].get("count"))
        await stage.rest(70)
        assert "True/QuotaReserved" == stage.says("j", "QuotaReserved")
        assert "False/QuotaReserved" == stage.says("j", "Evicted")

    run_scene(scene)


def test_what_checks_add_must_not_contradict_the_job() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, {"name": "a"})
        await stage.api.apply(job("j", "4", pod={"nodeSelector": {"zone": "z2"}}))
        await stage.rest()
        update = {"name": "main", "nodeSelector": {"zone": "z1"}}
        await _answer(stage, "j", "a", "Ready", podSetUpdates=[update])
        await stage.rest()
        assert "True/FailedToStart" == stage.says("j", "Finished")
        assert stage.suspended("j")

    run_scene(scene)


def test_a_held_queue_takes_quota_back_from_who_has_not_started_without_evicting() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, {"name": "a"})
        await stage.api.apply(job("j", "4"))
        await stage.rest()
        await stage.edit(CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "Hold"}})
        await stage.rest()
        assert "False/Suspended" == stage.says("j", "QuotaReserved")
        assert "" == stage.says("j", "Evicted")
        await _answer(stage, "j", "a", "Ready")
        await stage.edit(CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "None"}})
        await stage.rest()
        assert not stage.suspended("j")

    run_scene(scene)


def test_a_local_queue_that_goes_takes_quota_only_from_who_has_not_started() -> None:
    async def scene(stage: Stage) -> None:
        await stage.api.apply(local_queue("other", "plain"), queue("plain", 4))
        await _setting(stage, {"name": "a"})
        await stage.api.apply(job("waiting", "4"), job("running", "4", queue="other"))
        await stage.rest()
        assert "True/QuotaReserved" == stage.says("waiting", "QuotaReserved")
        for name in ("main", "other"):
            await stage.api.delete(LOCAL_QUEUES, Key("team", name))
        await stage.rest()
        assert "False/Misconfigured" == stage.says("waiting", "QuotaReserved")
        assert not stage.suspended("running")
        assert "True/Admitted" == stage.says("running", "Admitted")

    run_scene(scene)


def test_messages_of_pending_checks_are_reported_on_the_job() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, {"name": "a"})
        await stage.api.apply(job("j", "4"))
        await stage.rest()
        await _answer(stage, "j", "a", "Pending", message="ETA 5 min")
        await stage.rest()
        assert "UpdatedAdmissionCheck" in stage.events("Job", "j")

    run_scene(scene)
