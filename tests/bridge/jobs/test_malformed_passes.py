# SPDX-License-Identifier: Apache-2.0
"""A pass over a malformed job does not fail, and stops the job if its Workload is evicted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.jobs.kinds import BY_NAME, EXAMPLES, FIELDS, RUNTIME, template
from bridge.jobs.test_arbitrary_json import paths, replaced, values
from bridge.objects import NOON, condition
from kuota.api.base import Json, Key
from kuota.api.config.frameworks import FRAMEWORKS
from kuota.api.gates import Gates
from kuota.api.rules.metadata import ELASTIC_JOB, elastic
from kuota.bridge.draft import PassResult, StoredWorkload
from kuota.bridge.effects import Patch
from kuota.bridge.job_pass.steps import reconcile_job
from kuota.bridge.job_pass.workload import workload
from kuota.bridge.jobs.ancestor import owners_of
from kuota.bridge.jobs.fields import put
from kuota.bridge.jobs.kind import JobKind, resolved
from kuota.bridge.jobs.registry import JOB
from kuota.bridge.lifecycle_view import JobPassInput, LifecycleConfig

KINDS: dict[str, JobKind] = BY_NAME | {"Job": JOB}
BATCH: Json = {
    "metadata": EXAMPLES["JobSet"]["metadata"],
    "spec": {"suspend": False, "parallelism": 1, "template": template()},
    "status": {"active": 1},
}
JOBS: dict[str, Json] = EXAMPLES | {"Job": BATCH}
RESERVED = condition("QuotaReserved", reason="QuotaReserved")
ADMITTED = condition("Admitted", reason="Admitted")
EVICTED = condition("Evicted", reason="Preempted")
PHASES = ((), (RESERVED, ADMITTED), (RESERVED, ADMITTED, EVICTED))
ELASTIC = Gates.of({"ElasticJobsViaWorkloadSlices": True})
CONTAINER = template()["spec"]["containers"][0]


def running(value: Any) -> Any:
    """The job, not suspended."""
    if isinstance(value, dict):
        return {k: False if k == "suspend" else running(each) for k, each in value.items()}
    return [running(each) for each in value] if isinstance(value, list) else value


def resizable(job: Json) -> Json:
    """The job, elastic."""
    return job | {"metadata": job["metadata"] | {"annotations": {ELASTIC_JOB: "true"}}}


def stored(kind: JobKind, job: Json, *conditions: Json) -> StoredWorkload:
    """The Workload of a well-formed job."""
    job = resolved(kind, job, lambda _kind, _key: RUNTIME)
    made = workload(kind, job, gates=ELASTIC if elastic(job, ELASTIC) else None)
    return StoredWorkload.of(made | {"status": {"conditions": list(conditions)}})


def passed(kind: JobKind, job: Json, *workloads: StoredWorkload) -> PassResult:
    view = JobPassInput(
        key=Key("ml", "j"),
        kind=kind,
        job=resolved(kind, job, lambda _kind, _key: RUNTIME),
        workloads=workloads,
        namespace={},
        config=LifecycleConfig(
            gates=ELASTIC if elastic(job, ELASTIC) else Gates(),
            owners=owners_of(FRAMEWORKS),
            timeout_s=None,
        ),
    )
    return reconcile_job(view, NOON)


def stops(result: PassResult) -> bool:
    bodies = [each.body for each in result.effects if isinstance(each, Patch)]
    return any(body.get("spec", {}).get("suspend") is True for body in bodies)


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_no_pass_fails_if_one_field_of_a_job_is_malformed(name: str, data: st.DataObject) -> None:
    kind, job = KINDS[name], JOBS[name]
    job = data.draw(st.sampled_from([job, running(job), resizable(running(job))]))
    phase = data.draw(st.sampled_from(PHASES))
    own = [each for each in paths(job) if each[0] in ("spec", "status")]
    broken = replaced(job, data.draw(st.sampled_from(own)), data.draw(values((*FIELDS, "env"))))
    passed(kind, broken, stored(kind, job, *phase))
    passed(kind, broken)


@pytest.mark.parametrize(
    "malformed",
    [
        {"spec": {"containers": [CONTAINER | {"env": [{"name": []}]}]}},
        {"spec": [1]},
        {"spec": {"containers": [CONTAINER | {"resources": {"requests": {"cpu": [1]}}}]}},
        [1],
    ],
)
@pytest.mark.parametrize("phase", PHASES)
def test_a_running_job_with_a_malformed_template_is_stopped(
    malformed: Any, phase: tuple[Json, ...]
) -> None:
    broken = replaced(BATCH, ("spec", "template"), malformed)
    assert stops(passed(JOB, broken, stored(JOB, BATCH, *phase)))


UNPARSABLE = {"annotations": {"kueue.x-k8s.io/podset-unconstrained-topology": "maybe"}}


@pytest.mark.parametrize("job", [BATCH, resizable(BATCH)], ids=["fixed", "elastic"])
@pytest.mark.parametrize(("conditions", "stopped"), [(PHASES[1], False), (PHASES[2], True)])
def test_a_running_job_with_an_invalid_topology_request_can_be_evicted(
    job: Json, conditions: tuple[Json, ...], stopped: bool
) -> None:
    broken = replaced(job, ("spec", "template", "metadata"), UNPARSABLE)
    found = passed(JOB, broken, stored(JOB, job, *conditions))
    assert (stopped, True) == (stops(found), found.invalid)


def test_a_suspended_job_with_an_invalid_topology_request_does_not_start() -> None:
    job = replaced(BATCH, ("spec", "suspend"), True)
    broken = replaced(job, ("spec", "template", "metadata"), UNPARSABLE)
    found = passed(JOB, broken, stored(JOB, job, RESERVED, ADMITTED))
    assert ((), True) == (found.effects, found.invalid)


def test_an_elastic_job_whose_pods_are_unknown_can_be_evicted() -> None:
    kind, job = KINDS["RayCluster"], resizable(running(JOBS["RayCluster"]))
    head: Json = {"template": {"spec": {"containers": []}}}
    tolerant = {"headGroupSpec": head, "gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}
    broken = job | {"spec": job["spec"] | tolerant}
    assert stops(passed(kind, broken, stored(kind, job, RESERVED, ADMITTED, EVICTED)))


@pytest.mark.parametrize("job", [BATCH, resizable(BATCH)], ids=["fixed", "elastic"])
def test_a_job_that_names_a_missing_priority_class_can_be_evicted(job: Json) -> None:
    labels = job["metadata"]["labels"] | {"kueue.x-k8s.io/priority-class": "missing"}
    renamed = replaced(job, ("metadata", "labels"), labels)
    ref = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "low"}
    before = stored(JOB, job, RESERVED, ADMITTED, EVICTED).json
    spec = before["spec"] | {"priorityClassRef": ref}
    found = passed(JOB, renamed, StoredWorkload.of(before | {"spec": spec}))
    assert stops(found)
    assert found.missing is not None
    assert found.fault


def test_a_workload_is_not_updated_to_an_invalid_spec() -> None:
    job = replaced(BATCH, ("spec", "suspend"), True)
    broken = replaced(job, ("spec", "template", "spec"), [1])
    found = passed(JOB, broken, stored(JOB, job))
    assert ((), True) == (found.effects, found.invalid)
    assert "podSets[0].template.spec" in found.fault


@pytest.mark.parametrize("generation", [1, 2])
def test_an_elastic_job_with_a_finished_slice_and_a_malformed_template_does_not_run_on(
    generation: int,
) -> None:
    """It ended if the slice is of its generation; otherwise its pods have no quota."""
    job = put(resizable(BATCH), ("metadata", "generation"), 1)
    finished = stored(JOB, job, RESERVED, ADMITTED, condition("Finished", reason="Succeeded"))
    broken = replaced(job, ("spec", "template", "metadata"), UNPARSABLE)
    broken = put(broken, ("metadata", "generation"), generation)
    assert (generation == 2) == stops(passed(JOB, broken, finished))
