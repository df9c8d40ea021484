# SPDX-License-Identifier: Apache-2.0
"""Two-phase admission: quota first, then admission checks."""

from __future__ import annotations

from datetime import UTC, datetime

from cluster.stage import Stage, StageRunner
from control.objects import check, flavor, job, local_queue, queue
from kuota.kube.resources import ADMISSION_CHECKS, CLUSTER_QUEUES, JOBS, WORKLOADS


async def _setting(stage: Stage) -> None:
    strategy = {"admissionChecks": [{"name": "ok"}]}
    await stage.apply(flavor(), check("ok"), local_queue())
    await stage.apply(queue("cq", 4, admissionChecksStrategy=strategy))
    await stage.shows("False/AdmissionCheckInactive", stage.active_says, CLUSTER_QUEUES, "cq")
    active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
    active["lastTransitionTime"] = _now()
    await stage.status(ADMISSION_CHECKS, "ok", {"conditions": [active]})
    await stage.shows("True/Ready", stage.active_says, CLUSTER_QUEUES, "cq")


async def _answer(stage: Stage, job_name: str, state: str, **more: object) -> None:
    said = {"name": "ok", "state": state, "message": "", "lastTransitionTime": _now(), **more}
    name = stage.workload(job_name)["metadata"]["name"]
    await stage.status(WORKLOADS, name, {"admissionChecks": [said]})


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def _asked(stage: Stage, name: str) -> None:
    """Wait until quota is reserved and the check is asked."""
    await stage.shows("True/QuotaReserved", stage.says, name, "QuotaReserved")
    await stage.shows(["Pending"], _states, stage, name)


def _states(stage: Stage, name: str) -> list[str]:
    return [each["state"] for each in stage.workload(name)["status"]["admissionChecks"]]


def test_a_workload_starts_where_its_check_says(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.apply(job("a", "4"))
        await _asked(stage, "a")
        await stage.shows("False/UnsatisfiedAdmissionChecks", stage.says, "a", "Admitted")
        assert stage.suspended("a")
        update = {"name": "main", "nodeSelector": {"zone": "z1"}}
        await _answer(stage, "a", "Ready", podSetUpdates=[update])
        await stage.shows(1, stage.active, "a")
        assert {"zone": "z1"} == stage.job("a")["spec"]["template"]["spec"]["nodeSelector"]

    on_stage(scene)


def test_an_edit_of_a_job_that_waits_for_its_check_is_kept_and_queues_anew(
    on_stage: StageRunner,
) -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.apply(job("a", "4"))
        await _asked(stage, "a")
        before = stage.workload("a")["metadata"]["uid"]
        tolerated = [{"key": "spot", "operator": "Exists"}]
        await stage.edit(JOBS, "a", {"spec": {"template": {"spec": {"tolerations": tolerated}}}})
        await stage.holds(lambda: stage.workload("a")["metadata"]["uid"] != before)
        await _asked(stage, "a")
        asked = stage.workload("a")["spec"]["podSets"][0]["template"]["spec"]["tolerations"]
        kept = stage.job("a")["spec"]["template"]["spec"]["tolerations"]
        assert (tolerated, tolerated) == (asked, kept)

    on_stage(scene)


def test_a_check_that_wants_a_retry_costs_the_quota_for_a_while(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.apply(job("a", "4"))
        await _asked(stage, "a")
        await _answer(stage, "a", "Retry", requeueAfterSeconds=2)
        await stage.shows("True/AdmissionCheck", stage.says, "a", "Evicted")
        await stage.shows("False/AdmissionCheck", stage.says, "a", "Requeued")
        await _asked(stage, "a")
        await _answer(stage, "a", "Ready")
        await stage.shows(1, stage.active, "a")

    on_stage(scene)


def test_a_check_that_rejects_ends_the_activity(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.apply(job("a", "4"))
        await _asked(stage, "a")
        await _answer(stage, "a", "Ready")
        await stage.shows(1, stage.active, "a")
        await _answer(stage, "a", "Rejected")
        await stage.shows(False, lambda: stage.workload("a")["spec"]["active"])
        await stage.shows(True, stage.suspended, "a")
        await stage.holds(lambda: "AdmissionCheckRejected" in stage.events("Workload"))

    on_stage(scene)
