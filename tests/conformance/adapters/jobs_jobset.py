# SPDX-License-Identifier: Apache-2.0
"""Suites of Kueue's integration of JobSet."""

from __future__ import annotations

import msgspec

from conformance.case import Run, check, same
from conformance.job_kinds import (
    RECONCILER_IGNORES,
    defaults_agree,
    judged,
    normal,
    pod_sets_of,
    reconciled,
)
from conformance.recorder import whole
from conformance.registry import Exercise, suite
from conformance.world import gates_of
from kuota.bridge.jobs.job_set import JobSet

JOB_SET = JobSet()


@suite("jobs/jobset-TestPodSets")
def pod_sets(run: Run) -> None:
    job = normal(run.inputs["jobSet"])
    same(run.expected["wantPodSets"], JOB_SET.pod_sets(job, gates_of(run)))


@suite("jobs/jobset-TestPodsReady")
def ready(run: Run) -> None:
    same(run.expected["want"], JOB_SET.pods_ready(whole(run.inputs["jobSet"])))


@suite("jobs/jobset-TestReclaimablePods")
def reclaimable(run: Run) -> None:
    found = JOB_SET.reclaimable(whole(run.inputs["jobSet"]), exact=False)
    same(run.expected["want"], msgspec.to_builtins(found))


@suite("jobs/jobset-TestRestorePodSetsInfo")
def restored(run: Run) -> None:
    job = normal(run.inputs["jobSet"])
    changed = JOB_SET.restored(job, pod_sets_of(run.inputs["podSetsInfo"])) != job
    check(changed == run.expected["wantChanged"], f"changed: {changed}")


@suite("jobs/jobset-TestReconciler", exercises=Exercise.PATH, ignores=RECONCILER_IGNORES)
def passes(run: Run) -> None:
    reconciled(run, JOB_SET, whole(run.inputs["job"]))


@suite("jobs/jobset-TestDefault", exercises=Exercise.PATH)
def defaults(run: Run) -> None:
    defaults_agree(run, JOB_SET, whole(run.inputs["jobSet"]))


@suite("jobs/jobset-TestValidateCreate", exercises=Exercise.PATH)
def create(run: Run) -> None:
    judged(run, JOB_SET, whole(run.inputs["job"]))


@suite("jobs/jobset-TestValidateUpdate", exercises=Exercise.PATH)
def update(run: Run) -> None:
    judged(run, JOB_SET, whole(run.inputs["newJob"]), whole(run.inputs["oldJob"]))
