# SPDX-License-Identifier: Apache-2.0
"""Messages: every reason has one, and it names the relevant objects."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bridge.objects import believed, fitting, refused, reserved, workload
from kuota.bridge.messages import (
    assignment_text,
    preempting_text,
    priorities_text,
    reason_text,
    victim_text,
    wait_text,
)
from kuota.engine.assignment import WorkloadAssignment
from kuota.engine.decisions import Preempt, Victim, Wait, WaitCause
from kuota.engine.reasons import PreemptionReason, Reason, RejectionCause, WaitReason

SHORT = Reason(cause=RejectionCause.INSUFFICIENT, flavor="a100", resource="gpu", missing=2)


def wait(why: WaitCause, assignment: WorkloadAssignment | None = None) -> Wait:
    return Wait(
        workload=believed(workload()),
        cluster_queue="gpus",
        reason=WaitReason.WAITING_FOR_QUOTA,
        why=why,
        assignment=assignment,
        details=("spec.podSets[0]: requests above limits",),
    )


def preempt(
    reason: PreemptionReason = PreemptionReason.IN_CLUSTER_QUEUE, count: int = 1
) -> Preempt:
    victim = Victim(
        workload=believed(reserved("old")), cluster_queue="gpus", path="/lab/gpus", reason=reason
    )
    return Preempt(
        workload=believed(workload("new", priority=10)),
        cluster_queue="speech",
        path="/lab/speech",
        assignment=refused(SHORT),
        victims=(victim,) * count,
    )


@pytest.mark.parametrize("cause", list(RejectionCause))
def test_every_cause_has_words_that_name_its_flavor_or_resource(cause: RejectionCause) -> None:
    words = reason_text(Reason(cause=cause, flavor="a100", resource="gpu", detail="why"))
    assert "a100" in words or "gpu" in words
    assert cause.value not in words


@pytest.mark.parametrize("why", [why for why in WaitCause if why is not WaitCause.SECOND_PASS])
def test_every_kind_of_waiting_has_words(why: WaitCause) -> None:
    words = wait_text(wait(why, refused(SHORT)))
    assert len(words) > 10
    assert why.value not in words


def test_what_is_missing_is_reported_in_the_units_of_the_resource() -> None:
    cpu = Reason(cause=RejectionCause.INSUFFICIENT, flavor="spot", resource="cpu", missing=1500)
    assert reason_text(cpu) == "cpu in flavor spot: 1500m more needed"
    memory = Reason(
        cause=RejectionCause.EXCEEDS_MAX,
        flavor="spot",
        resource="memory",
        requested=2**31,
        assumed=2**30,
        limit=2**20,
    )
    words = reason_text(memory)
    assert [text in words for text in ("2Gi", "1Gi", "1Mi")] == [True] * 3


def test_the_node_that_leaves_no_more_is_named() -> None:
    words = reason_text(
        Reason(cause=RejectionCause.INSUFFICIENT, flavor="f", resource="gpu", where="lab")
    )
    assert words.endswith("at lab")


def test_reasons_are_sorted_and_said_once() -> None:
    taint = Reason(cause=RejectionCause.TAINT, flavor="spot", detail="gpu:NoSchedule")
    words = assignment_text(refused(taint, SHORT, taint))
    assert words == (
        "flavor spot has the untolerated taint gpu:NoSchedule, gpu in flavor a100: 2 more needed"
    )


def test_a_reason_that_another_one_states_in_more_detail_is_not_repeated() -> None:
    short = Reason(cause=RejectionCause.PLACEMENT, detail="fits only 4 of 5 pods")
    long = Reason(
        cause=RejectionCause.PLACEMENT, detail="fits only 4 of 5 pods; of 4 nodes, 2 are full"
    )
    assert reason_text(long) == assignment_text(refused(short, long))


def test_a_broken_pod_set_is_all_that_is_reported() -> None:
    assert assignment_text(refused(SHORT, error="no such level")) == "no such level"


def test_pod_sets_are_named_where_there_are_several() -> None:
    (first,) = refused(SHORT).pod_sets
    both = replace(refused(SHORT), pod_sets=(first, replace(first, name="workers")))
    clause = "got no flavor: gpu in flavor a100: 2 more needed"
    assert f"pod set main {clause}; pod set workers {clause}" == assignment_text(both)


def test_what_fits_needs_no_words() -> None:
    assert assignment_text(fitting()) == ""
    assert assignment_text(None) == ""


def test_a_preemptor_hears_how_many_make_room() -> None:
    assert preempting_text(preempt()).endswith("more needed. 1 workload is being preempted")
    assert preempting_text(preempt(count=2)).endswith("2 workloads are being preempted")


@pytest.mark.parametrize("reason", list(PreemptionReason))
def test_a_victim_hears_for_whom_and_why(reason: PreemptionReason) -> None:
    found = preempt(reason)
    words = victim_text(found, found.victims[0])
    for part in ("UID: uid-new", "job UID: unknown", "/lab/speech", "/lab/gpus"):
        assert part in words
    assert reason.value not in words


def test_priorities_are_reported_with_base_and_boost() -> None:
    found = preempt()
    assert priorities_text(found.workload, found.victims[0].workload) == (
        "preemptor priority: 10 (base 10, boost 0); preempted priority: 0 (base 0, boost 0)"
    )
