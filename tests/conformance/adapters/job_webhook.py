# SPDX-License-Identifier: Apache-2.0
"""Suites of Kueue's job webhooks as far as they concern batch/v1 Job and Pod."""

from __future__ import annotations

from kuota.api.base import Json
from kuota.api.gates import Gates
from kuota.api.rules import pod_faults, pod_warnings
from kuota.api.rules.job_common import Supported, common_faults, common_update_faults
from kuota.api.rules.topology import topology_faults
from kuota.bridge.jobs.ancestor import Owners, owned
from kuota.bridge.jobs.job_webhook import faults_of
from kuota.bridge.jobs.registry import JOB, JobKindRegistry
from kuota.bridge.lifecycle_view import LifecycleConfig

from ..case import Run, check, refused
from ..jobs import stored
from ..recorder import whole
from ..registry import Exercise, suite
from .webhooks import agree


def _gates(run: Run) -> Gates:
    return Gates.of(whole(run.gates), check=False)


@suite("jobs/job-TestValidateCreate", exercises=Exercise.PATH)
def create(run: Run) -> None:
    _judge_job(run, whole(run.inputs["job"]))


@suite("jobs/job-TestValidateUpdate", exercises=Exercise.PATH)
def update(run: Run) -> None:
    _judge_job(run, whole(run.inputs["newJob"]), whole(run.inputs["oldJob"]))


def _judge_job(run: Run, job: Json, old: Json | None = None) -> None:
    refused(run.expected["wantErr"], None)
    faults = faults_of(JOB, job, old, stored([]), LifecycleConfig(gates=_gates(run)))
    agree(run.expected["wantValidationErrs"], faults)


_WARNINGS = {"expected.wantWarns.*": "the texts of warnings are Kuota's own; they are counted"}


@suite("jobs/pod-TestValidateCreate", exercises=Exercise.PATH, ignores=_WARNINGS)
def pod_create(run: Run) -> None:
    _judge_pod(run, whole(run.inputs["pod"]))


@suite("jobs/pod-TestValidateUpdate", exercises=Exercise.PATH, ignores=_WARNINGS)
def pod_update(run: Run) -> None:
    _judge_pod(run, whole(run.inputs["newPod"]), whole(run.inputs["oldPod"]))


def _judge_pod(run: Run, pod: Json, old: Json | None = None) -> None:
    pod = pod | {"kind": "Pod"}
    agree(run.expected["wantErr"], pod_faults(pod, old, _gates(run)))
    warnings = pod_warnings(pod, old, owned=owned(pod, Owners()))
    wanted = run.expected["wantWarns"] or []
    check(len(warnings) == len(wanted), f"want warnings {wanted}, got {[*map(str, warnings)]}")


@suite("jobframework/jobframework-TestValidateJobOnCreate")
def common_create(run: Run) -> None:
    gvk = whole(run.inputs["gvk"])
    named = {"apiVersion": f"{gvk['Group']}/{gvk['Version']}", "kind": gvk["Kind"]}
    job: Json = whole(run.inputs["job"]) | named
    kind = JobKindRegistry().get((gvk["Group"], gvk["Kind"]))
    supported = kind.supported if kind is not None else Supported()
    agree(run.expected["wantErr"], list(common_faults(job, _gates(run), supported)))


@suite("jobframework/jobframework-TestValidateJobOnUpdate")
def common_update(run: Run) -> None:
    new, old, default = (
        whole(run.inputs[key]) for key in ("newJob", "oldJob", "nsHasDefaultQueue")
    )
    agree(
        run.expected["wantErr"],
        list(common_update_faults(new, old, _gates(run), JOB.supported, default)),
    )


@suite(
    "jobframework/jobframework-TestValidateSliceRequiredTopologyConstraintsAnnotation",
    "jobframework/jobframework-TestValidateSliceSizeAnnotationUpperBound",
    ignores={"inputs.shared": "the path at which the test puts the annotations"},
)
def slices(run: Run) -> None:
    metadata = {"annotations": whole(run.inputs["annotations"])}
    pods = run.inputs.get("podSetCount")
    faults = list(topology_faults(metadata, "metadata", pods, _gates(run)))
    wanted = run.expected["wantErrNum"]
    check(len(faults) == wanted, f"want {wanted} faults, got {[*map(str, faults)]}")
