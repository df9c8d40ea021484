# SPDX-License-Identifier: Apache-2.0
"""No function for Pods, groups and serving kinds fails on malformed objects."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.jobs import pods
from bridge.jobs.test_arbitrary_json import paths, replaced, values
from bridge.jobs.test_serving import leader_worker_set, pod, stateful_set, workloads
from kuota.api.base import Json, Key
from kuota.api.gates import Gates
from kuota.api.podset import Injection, MergeConflict
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.jobs.ancestor import owners_of
from kuota.bridge.jobs.composable import StopCause, composed
from kuota.bridge.jobs.deployment import Deployment
from kuota.bridge.jobs.job_webhook import defaulted, faults_of
from kuota.bridge.jobs.kind import PodSetsUnknown
from kuota.bridge.jobs.leader_worker_set import LeaderWorkerSet
from kuota.bridge.jobs.pod import PodKind
from kuota.bridge.jobs.pod_group import PodGroup
from kuota.bridge.jobs.pod_parent import ParentView, PodParent
from kuota.bridge.jobs.role_hash import role_hash
from kuota.bridge.jobs.stateful_set import StatefulSet
from kuota.bridge.jobs.topology_request import TopologyRequestError
from kuota.bridge.lifecycle_view import LifecycleConfig

FIELDS = ("name", "spec", "status", "containers", "type", "phase", "requests", "ports", "size")
KNOWN = (PodSetsUnknown, TopologyRequestError, MergeConflict)
POD = pods.pod("a", node=True, deleted="2026-01-01T11:59:00Z")
EXAMPLES: dict[str, tuple[PodParent, Json]] = {
    "Deployment": (Deployment(), stateful_set(2) | {"kind": "Deployment"}),
    "StatefulSet": (StatefulSet(), stateful_set(2, currentRevision="a", updateRevision="b")),
    "LeaderWorkerSet": (LeaderWorkerSet(), leader_worker_set(2, replicas=3)),
}
CONFIG = LifecycleConfig(
    owners=owners_of(["pod", "deployment", "statefulset", *LeaderWorkerSet.framework.split()]),
    manage_all=True,
)


def mutated(data: st.DataObject, obj: Json) -> Json:
    """The object with one field of its spec or status replaced by anything."""
    known = [each for each in paths(obj) if each[0] in ("spec", "status")]
    return replaced(obj, data.draw(st.sampled_from(known)), data.draw(values(FIELDS)))  # type: ignore[no-any-return]


def nobody(*_: Any) -> Json | None:
    return {"metadata": {"labels": {}}}


@given(data=st.data())
def test_no_function_fails_on_a_malformed_pod(data: st.DataObject) -> None:
    given_pod, kind = mutated(data, POD), PodKind()
    role_hash(given_pod["spec"] if isinstance(given_pod["spec"], dict) else {})
    defaulted(kind, given_pod, nobody, CONFIG)
    faults_of(kind, given_pod, POD, nobody, CONFIG)
    kind.suspended(given_pod), kind.end(given_pod), kind.pods_ready(given_pod)
    kind.pod_priority_class(given_pod), kind.finalize(given_pod)
    kind.terminate(given_pod, StopCause(reason="R", message="", now=pods.NOON))
    with suppress(*KNOWN):
        kind.start(given_pod, [Injection(node_selector={"a": "b"})], Gates())


@given(data=st.data())
def test_no_function_fails_on_a_group_with_a_malformed_pod(data: st.DataObject) -> None:
    workload = pods.stored(pods.pod("a"), pods.pod("b"), admitted=True)
    some = [mutated(data, POD), pods.pod("b", phase="Failed"), pods.pod("c")]
    pods.passed(*some)
    pods.passed(*some, workload=workload)
    kind = PodGroup()
    job = composed(kind, pods.KEY, some, Gates(), pods.NOON)
    kind.reclaimable(job, exact=True), kind.end(job), kind.active(job), kind.pods_ready(job)


@pytest.mark.parametrize("name", EXAMPLES)
@given(data=st.data())
def test_no_function_fails_on_a_malformed_parent_of_pods(name: str, data: st.DataObject) -> None:
    kind, example = EXAMPLES[name]
    obj, some_pod = mutated(data, example), mutated(data, pod("db-0", kind.framework))
    defaulted(kind, obj, nobody, CONFIG)
    faults_of(kind, obj, example, nobody, CONFIG)
    faults_of(kind, example, obj, nobody, CONFIG)
    kind.parent_of(some_pod), kind.parent_of_related(obj)
    view = ParentView(
        key=Key("ml", "db"),
        obj=obj,
        pods=(some_pod,),
        related=(mutated(data, stateful_set(1)),),
        workloads=tuple(map(StoredWorkload.of, workloads(1))),
    )
    with suppress(*KNOWN):
        kind.reconcile(view, pods.NOON)
