# SPDX-License-Identifier: Apache-2.0
"""Rules for Pods that Kueue adds to those of Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest

from api.rule_examples import said
from kuota.api.base import Json
from kuota.api.gates import Gates
from kuota.api.rules import pod_faults, pod_warnings

PREFIX = "kueue.x-k8s.io/"
GATED = {"schedulingGates": [{"name": f"{PREFIX}admission"}]}


def pod(annotations: Json | None = None, spec: Json | None = None, **labels: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "it", "labels": _named(labels), "annotations": _named(annotations)},
        "spec": {"containers": []} | (spec or {}),
    }


def _named(given: dict[str, Any] | None) -> Json:
    return {f"{PREFIX}{key.replace('_', '-')}": value for key, value in (given or {}).items()}


def at_label(key: str) -> str:
    return f"metadata.labels[{PREFIX}{key}]"


def at_annotation(key: str) -> str:
    return f"metadata.annotations[{PREFIX}{key}]"


def grouped(total: str = "2", spec: Json | None = None, **labels: str) -> Json:
    annotations = {"pod_group_total_count": total}
    return pod(annotations, spec, **({"pod_group_name": "g"} | labels))


COUNT = at_annotation("pod-group-total-count")

ALWAYS = [
    (pod(managed="false"), at_label("managed"), "Forbidden"),
    (pod(pod_group_name="g"), COUNT, "Required"),
    (pod({"pod_group_total_count": "2"}), at_label("pod-group-name"), "Required"),
    (grouped("0"), COUNT, "Invalid"),
    (grouped("many"), COUNT, "Invalid"),
    (grouped(pod_group_name="a b"), at_label("pod-group-name"), "Invalid"),
    (grouped(prebuilt_workload_name="other"), at_label("prebuilt-workload-name"), "Invalid"),
    (pod({"podset_unconstrained_topology": "maybe"}),
     at_annotation("podset-unconstrained-topology"), "Invalid"),
]  # fmt: skip


def test_the_format_of_a_queue_name_is_checked_when_a_pod_is_created() -> None:
    misnamed = pod(queue_name="Not A Name")
    assert {(at_label("queue-name"), "Invalid")} == said(pod_faults(misnamed))
    assert [] == pod_faults(misnamed, misnamed)


@pytest.mark.parametrize(("obj", "path", "kind"), ALWAYS)
def test_a_pod_is_held_to_what_kueue_reads_in_it(obj: Json, path: str, kind: str) -> None:
    assert {(path, kind)} == said(pod_faults(obj))
    assert (path, kind) in said(pod_faults(obj, obj))


def test_plain_pods_and_groups_have_no_faults() -> None:
    for each in (pod(), pod(queue_name="q", managed="true"), grouped(queue_name="q")):
        assert [] == pod_faults(each)
        assert [] == pod_faults(each, each)


def test_the_annotation_names_the_group_where_it_is_heeded() -> None:
    named = pod({"pod_group_name": "a b", "pod_group_total_count": "2"}, pod_group_name="g")
    assert {(at_annotation("pod-group-name"), "Invalid")} == said(pod_faults(named))
    off = Gates.of({"WorkloadIdentifierAnnotations": False})
    assert [] == pod_faults(named, None, off)


def test_the_queue_of_a_pod_can_change_while_it_is_gated_or_when_it_is_over() -> None:
    path = at_label("queue-name")
    assert {(path, "Invalid")} == said(pod_faults(pod(queue_name="b"), pod(queue_name="a")))
    assert [] == pod_faults(pod(None, GATED, queue_name="b"), pod(queue_name="a"))
    over = pod(queue_name="b") | {"status": {"phase": "Failed"}}
    assert [] == pod_faults(over, pod(queue_name="a"))


def test_a_pod_stays_in_its_group_and_does_not_become_retriable_again() -> None:
    path = at_label("pod-group-name")
    moved = grouped(pod_group_name="h")
    assert {(path, "Invalid")} == said(pod_faults(moved, grouped()))
    assert (path, "Invalid") in said(pod_faults(pod(), grouped()))
    assert [] == pod_faults(grouped(), pod())
    final = grouped()
    final["metadata"]["annotations"][f"{PREFIX}retriable-in-group"] = "false"
    assert {(at_annotation("retriable-in-group"), "Forbidden")} == said(
        pod_faults(grouped(), final)
    )
    assert [] == pod_faults(final, grouped())


def test_a_managed_pod_of_a_managed_owner_is_worth_a_warning() -> None:
    assert 1 == len(pod_warnings(pod(managed="true"), owned=True))
    assert [] == pod_warnings(pod(managed="true"), owned=False)
    assert [] == pod_warnings(pod(), owned=True)


def test_the_admission_gates_of_a_stored_pod_must_be_well_formed_too() -> None:
    old = pod({"admission_gated_by": "not a gate"}, GATED)
    path = f"metadata.annotations[{PREFIX}admission-gated-by]"
    assert {(path, "Invalid")} == said(pod_faults(old, old))
