# SPDX-License-Identifier: Apache-2.0
"""Rendering only what a change names gives the same rows as rendering everything."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from control import objects as made
from dashboard.test_visible import MINE, _pod, _workload
from kuota.api.base import Json, Key
from kuota.dashboard.models.rows import workload_row
from kuota.dashboard.models.tree import tree_model
from kuota.dashboard.shapes import WorkloadRow
from kuota.view.observed import ObservedState

FAILED = {"type": "Finished", "status": "True", "reason": "Failed", "message": "failed"}
SCOPE: Any = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}


def _changed_workload(number: int, state: str, by: int, incarnation: int, failed: bool) -> Json:
    """A workload that another one may have preempted, maybe created anew."""
    obj = _workload(MINE, number, state, f"uid-{MINE}-w{by}", "n0")
    if incarnation:
        obj["metadata"]["uid"] += "-new"
    if failed:
        obj["status"] = {"conditions": [FAILED]}
    return obj


def _changed_pod(number: int, phase: str, exit_code: int) -> Json:
    pod = _pod(_workload(MINE, number, "admitted", "", "n0"), "n0")
    ended = {"name": "c", "state": {"terminated": {"exitCode": exit_code}}}
    pod["status"] = {"phase": phase, "containerStatuses": [ended]}
    return pod


def _local_queue(cluster_queue: str, stop: str) -> Json:
    obj = made.local_queue(f"{MINE}-lq", cluster_queue, stopPolicy=stop)
    obj["metadata"]["namespace"] = MINE
    return obj


_NUMBERS = st.integers(0, 1)
_OBJECTS = st.one_of(
    st.builds(
        _changed_workload,
        _NUMBERS,
        st.sampled_from(["pending", "preempted", "admitted"]),
        _NUMBERS,
        st.integers(0, 1),
        st.booleans(),
    ),
    st.builds(_changed_pod, _NUMBERS, st.sampled_from(["Running", "Failed"]), st.integers(1, 2)),
    st.builds(_local_queue, st.sampled_from(["cq", "other"]), st.sampled_from(["None", "Hold"])),
    st.builds(
        lambda name, usage: made.queue(name, **(SCOPE if usage else {})),
        st.sampled_from(["cq", "other"]),
        st.booleans(),
    ),
)
_CHANGES = st.lists(st.tuples(_OBJECTS, st.booleans()), min_size=8, max_size=30)


def _rendered(observed: ObservedState) -> dict[Key, WorkloadRow]:
    return {key: workload_row(each, observed) for key, each in observed.workloads.items()}


@settings(max_examples=70, deadline=None)
@given(_CHANGES)
def test_rendering_what_changed_equals_rendering_everything(
    changes: list[tuple[Json, bool]],
) -> None:
    observed = ObservedState.of([made.flavor(), made.queue("cq"), _local_queue("cq", "None")])
    rows: dict[Key, WorkloadRow] = {}
    for obj, deleted in changes:
        metadata = obj["metadata"]
        key = Key(metadata.get("namespace") or "", metadata["name"])
        for each in observed.drop(obj["kind"], key) if deleted else observed.put(obj):
            workload = observed.workloads.get(each)
            rows.pop(each, None)
            if workload is not None:
                rows[each] = workload_row(workload, observed)
        assert _rendered(observed) == rows


@settings(max_examples=30, deadline=None)
@given(_CHANGES)
def test_changes_lead_to_the_same_tree_as_the_objects_that_remain(
    changes: list[tuple[Json, bool]],
) -> None:
    observed = ObservedState.of([made.flavor()])
    for obj, deleted in changes:
        metadata = obj["metadata"]
        key = Key(metadata.get("namespace") or "", metadata["name"])
        if deleted:
            observed.drop(obj["kind"], key)
        else:
            observed.put(obj)
    left = [each for kind in observed.objects.values() for each in kind.values()]
    assert tree_model(ObservedState.of(left)) == tree_model(observed)
    assert observed.bound == ObservedState.of(left).bound


def test_a_preemptor_that_comes_or_goes_changes_the_rows_that_name_it() -> None:
    victim = _changed_workload(0, "preempted", 1, 0, failed=False)
    preemptor = _changed_workload(1, "admitted", 3, 0, failed=False)
    observed, mine = ObservedState.of([victim]), Key(MINE, f"{MINE}-w0")
    other = Key(MINE, f"{MINE}-w1")
    assert {mine, other} == observed.put(preemptor)
    assert {other} == observed.put(preemptor)
    assert [victim] == observed.preempted_by(f"uid-{other.name}")
    assert {mine, other} == observed.put(_changed_workload(1, "admitted", 3, 1, failed=False))
    assert {other} == observed.drop("Workload", other)
    assert [victim] == observed.preempted_by(f"uid-{other.name}")


def test_a_failed_pod_that_reports_more_changes_the_row_of_its_job() -> None:
    observed = ObservedState.of([_changed_workload(0, "admitted", 3, 0, failed=True)])
    key = Key(MINE, f"{MINE}-w0")
    assert set() == observed.put(_changed_pod(0, "Running", 1))
    assert {key} == observed.put(_changed_pod(0, "Failed", 1))
    assert set() == observed.put(_changed_pod(0, "Failed", 1))
    assert {key} == observed.put(_changed_pod(0, "Failed", 2))


def test_a_queue_that_orders_by_usage_changes_the_rows_in_it() -> None:
    waiting = _changed_workload(0, "pending", 3, 0, failed=False)
    observed = ObservedState.of([made.queue("cq"), _local_queue("cq", "None"), waiting])
    assert set() == observed.put(made.queue("cq", 20))
    assert {Key(MINE, f"{MINE}-w0")} == observed.put(made.queue("cq", **SCOPE))
