# SPDX-License-Identifier: Apache-2.0
"""Defaults of a new Job: queue, priority class, suspension, and managedBy."""

from __future__ import annotations

from typing import Any

import pytest

from kuota.api.base import Json, Key, LabelSelector
from kuota.api.faults import Invalid
from kuota.api.gates import Gates
from kuota.bridge.jobs.ancestor import GroupKind, Lookup, Owners, owners_of
from kuota.bridge.jobs.job_webhook import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    NAMESPACE,
    WORKLOAD_PRIORITY_CLASS,
    defaulted,
    left_default_queue,
    reviewed,
    with_default_labels,
)
from kuota.bridge.jobs.pod import PodKind
from kuota.bridge.jobs.registry import JOB
from kuota.bridge.lifecycle_view import LifecycleConfig

QUEUE, CLASS = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
MULTIKUEUE = "kueue.x-k8s.io/multikueue"


def job(labels: dict[str, str] | None = None, **spec: Any) -> Json:
    meta = {"name": "j", "namespace": "team", "labels": labels or {}}
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": {"parallelism": 1, "template": template, **spec},
    }


def objects(*names: tuple[GroupKind, str], **specs: Json) -> Lookup:
    """Objects by kind and name in the namespace team, besides that namespace; specs by name."""
    found: dict[tuple[GroupKind, Key], Json] = {}
    for kind, name in ((NAMESPACE, "team"), *names):
        space = "team" if kind == LOCAL_QUEUE else ""
        found[kind, Key(space, name)] = {"metadata": {"name": name}, "spec": specs.get(name)}
    return lambda kind, key: found.get((kind, key))


def config(*, manage_all: bool = False, **gates: bool) -> LifecycleConfig:
    return LifecycleConfig(
        gates=Gates.of(gates, check=False), manage_all=manage_all, namespaces=LabelSelector()
    )


def labels(found: Json) -> dict[str, str]:
    return dict(found["metadata"].get("labels") or {})


def test_a_job_without_a_queue_gets_the_default_one_of_its_namespace() -> None:
    found = defaulted(JOB, job({"team": "x"}), objects((LOCAL_QUEUE, "default")), config())
    assert labels(found) == {"team": "x", QUEUE: "default"}
    assert found["spec"]["suspend"] is True


def test_a_job_with_a_queue_keeps_it_and_is_suspended() -> None:
    found = defaulted(JOB, job({QUEUE: "mine"}), objects((LOCAL_QUEUE, "default")), config())
    assert labels(found) == {QUEUE: "mine"}
    assert found["spec"]["suspend"] is True


def test_without_a_default_queue_a_job_stays_as_it_is_unless_all_jobs_are_managed() -> None:
    assert defaulted(JOB, job(), objects(), config()) == job()
    assert defaulted(JOB, job(), objects(), config(manage_all=True)) == job(suspend=True)


def test_a_job_of_a_namespace_that_is_not_managed_gets_no_queue() -> None:
    nowhere: Lookup = lambda kind, key: {} if kind == LOCAL_QUEUE else None  # noqa: E731
    assert defaulted(JOB, job(), nowhere, config(manage_all=True)) == job()


def test_the_default_class_is_given_only_where_its_gate_is_on_and_none_is_named() -> None:
    classes = objects((WORKLOAD_PRIORITY_CLASS, "default"))
    assert labels(defaulted(JOB, job(), classes, config())) == {CLASS: "default"}
    assert labels(defaulted(JOB, job({CLASS: "own"}), classes, config())) == {CLASS: "own"}
    off = config(WorkloadPriorityClassDefaulting=False)
    assert labels(defaulted(JOB, job(), classes, off)) == {}


def test_a_job_that_an_owner_manages_is_given_nothing() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "up", "uid": "u", "controller": True}
    child = job()
    child["metadata"]["ownerReferences"] = [owner]
    around = objects((LOCAL_QUEUE, "default"), (WORKLOAD_PRIORITY_CLASS, "default"))
    assert labels(with_default_labels(child, around, config())) == {}


@pytest.mark.parametrize(
    ("controller", "manager", "gate", "wanted"),
    [
        (MULTIKUEUE, None, True, MULTIKUEUE),
        (MULTIKUEUE, "kubernetes.io/job-controller", True, MULTIKUEUE),
        (MULTIKUEUE, "example.com/own", True, "example.com/own"),
        (MULTIKUEUE, None, False, None),
        ("example.com/check", None, True, None),
    ],
)
def test_a_job_for_other_clusters_is_managed_by_their_dispatcher(
    controller: str, manager: str | None, gate: bool, wanted: str | None
) -> None:
    around = objects(
        (LOCAL_QUEUE, "mine"),
        (CLUSTER_QUEUE, "cq"),
        (ADMISSION_CHECK, "check"),
        mine={"clusterQueue": "cq"},
        cq={"admissionChecksStrategy": {"admissionChecks": [{"name": "check"}]}},
        check={"controllerName": controller},
    )
    made = job({QUEUE: "mine"}, **({"managedBy": manager} if manager else {}))
    found = defaulted(JOB, made, around, config(MultiKueue=gate))
    assert found["spec"].get("managedBy") == wanted


def test_where_jobs_are_no_integration_they_are_left_alone() -> None:
    off = LifecycleConfig(owners=Owners(managed=frozenset()))
    assert defaulted(JOB, job({QUEUE: "mine"}), objects(), off) == job({QUEUE: "mine"})


def test_a_queue_name_may_not_be_given_up_for_the_default_queue() -> None:
    default = objects((LOCAL_QUEUE, "default"))
    assert left_default_queue(job(), job({QUEUE: "mine"}), default)
    assert not left_default_queue(job(), job({QUEUE: "mine"}), objects())
    assert not left_default_queue(job({QUEUE: "b"}), job({QUEUE: "mine"}), default)
    assert not left_default_queue(job(), job(), default)
    assert not left_default_queue(job(), None, default)


def test_a_review_gives_defaults_to_new_jobs_only_and_refuses_faults() -> None:
    new = reviewed(JOB, job({QUEUE: "mine"}), None, objects(), config())
    assert new["spec"]["suspend"] is True
    changed = job({QUEUE: "mine", "a": "b"}, suspend=False)
    assert (
        reviewed(JOB, changed, job({QUEUE: "mine"}, suspend=False), objects(), config()) == changed
    )
    with pytest.raises(Invalid):
        reviewed(JOB, job({QUEUE: "not a name"}), None, objects(), config())


@pytest.mark.parametrize(("selected", "gated"), [("other", True), ("team", False)])
def test_a_pod_of_a_job_without_a_queue_waits_where_such_jobs_are_not_managed(
    selected: str, gated: bool
) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    meta = {"name": "p", "namespace": "team", "labels": {QUEUE: "mine"}, "ownerReferences": [owner]}
    above = job()
    above["metadata"]["uid"] = "u"
    space = {"metadata": {"name": "team", "labels": {"name": "team"}}}
    found = {NAMESPACE: space, JOB.group_kind: above}
    some = LifecycleConfig(
        manage_all=True,
        manage_all_in=LabelSelector(match_labels={"name": selected}),
        namespaces=LabelSelector(),
        owners=owners_of(["batch/job", "pod"]),
    )
    pod = {"metadata": meta, "spec": job()["spec"]["template"]["spec"]}
    stored = defaulted(PodKind(), pod, lambda kind, _key: found.get(kind), some)
    assert gated == bool(stored["spec"].get("schedulingGates"))
