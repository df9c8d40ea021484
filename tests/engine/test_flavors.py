# SPDX-License-Identifier: Apache-2.0
"""Flavor assignment: quota, resources, pod sets and their groups."""

from __future__ import annotations

import msgspec
import pytest

from engine.offers import OfferedQueue, chosen, group, pods, usage, workload
from kuota.api.gates import Gates
from kuota.api.workload import TopologyRequest
from kuota.engine.assignment import AssignmentMode, WorkloadAssignment
from kuota.engine.model import Preemption, Quota, ResourceFlavor
from kuota.engine.policy import Policy
from kuota.engine.reasons import RejectionCause, WaitReason
from kuota.engine.resource_index import visiting_order

GROUPED = TopologyRequest(pod_set_group_name="g")


def causes(
    assignment: WorkloadAssignment, pod_set: int = 0
) -> list[tuple[RejectionCause, str, str]]:
    return [
        (each.cause, each.flavor, each.resource) for each in assignment.pod_sets[pod_set].reasons
    ]


def test_a_request_within_quota_fits_and_is_charged() -> None:
    market = OfferedQueue({"a": {"cpu": 10, "memory": 20}})

    found = market.assign(workload(pods(count=2, cpu=3, memory=4)))

    assert AssignmentMode.FIT is found.mode
    assert found.no_fit is None
    assert [{"cpu": "a", "memory": "a"}] == chosen(found)
    assert {"a/cpu": 6, "a/memory": 8} == usage(found)
    assert () == found.pod_sets[0].reasons
    assert ["a"] == [each.flavor for each in found.pod_sets[0].attempts]


def test_a_workload_without_pod_sets_fits_nowhere() -> None:
    assert AssignmentMode.NO_FIT is OfferedQueue({"a": {"cpu": 1}}).assign(workload()).mode


def test_pods_that_ask_for_nothing_fit_without_a_flavor() -> None:
    found = OfferedQueue({"a": {"cpu": 1}}).assign(workload(pods()))

    assert AssignmentMode.FIT is found.mode
    assert [{}] == chosen(found)


def test_pods_count_only_where_the_queue_has_a_quota_of_them() -> None:
    counted = OfferedQueue({"a": {"cpu": 9, "pods": 2}}).assign(workload(pods(count=3, cpu=1)))
    free = OfferedQueue({"a": {"cpu": 9}}).assign(workload(pods(count=3, cpu=1)))

    assert AssignmentMode.NO_FIT is counted.mode
    assert {"cpu": 3, "pods": 3} == counted.pod_sets[0].requests
    assert [(RejectionCause.EXCEEDS_MAX, "a", "pods")] == causes(counted)
    assert {"cpu": 3} == free.pod_sets[0].requests


def test_fewer_pods_ask_for_less() -> None:
    market = OfferedQueue({"a": {"cpu": 5, "pods": 9}})

    found = market.assign(workload(pods(count=3, cpu=2)), counts=[2])

    assert AssignmentMode.FIT is found.mode
    assert 2 == found.pod_sets[0].count
    assert {"a/cpu": 4, "a/pods": 2} == usage(found)


def test_a_pod_set_of_which_no_pods_are_left_gets_none_whatever_is_tried() -> None:
    market = OfferedQueue({"a": {"cpu": 5, "pods": 9}})
    done = msgspec.structs.replace(pods("done", count=1, cpu=0), pods=0)

    found = market.assign(workload(pods(count=3, cpu=2), done), counts=[2, 1])

    assert [2, 0] == [each.count for each in found.pod_sets]
    assert {"a/cpu": 4, "a/pods": 2} == usage(found)


def test_an_undeclared_resource_blocks_unless_it_is_zero() -> None:
    market = OfferedQueue({"a": {"cpu": 5}})

    blocked = market.assign(workload(pods(cpu=1, tpu=1)))
    zero = market.assign(workload(pods(cpu=1, tpu=0)))

    assert AssignmentMode.NO_FIT is blocked.mode
    assert WaitReason.NO_MATCHING_FLAVOR is blocked.no_fit
    assert [(RejectionCause.UNDECLARED, "", "tpu")] == causes(blocked)
    assert AssignmentMode.FIT is zero.mode
    assert {"a/cpu": 1} == usage(zero)


def test_an_undeclared_resource_is_passed_over_where_the_settings_say_so() -> None:
    market = OfferedQueue({"a": {"cpu": 5}}, policy=Policy(ignore_undeclared=True))

    found = market.assign(workload(pods(cpu=1, tpu=7)))

    assert AssignmentMode.FIT is found.mode
    assert {"a/cpu": 1} == usage(found)


def test_undeclared_resources_block_whatever_the_settings_say_when_their_gate_is_off() -> None:
    gates = Gates.of({"QuotaCheckStrategy": False})
    market = OfferedQueue({"a": {"cpu": 5}}, policy=Policy(gates=gates, ignore_undeclared=True))

    assert AssignmentMode.NO_FIT is market.assign(workload(pods(cpu=1, tpu=7))).mode


def test_a_zero_amount_of_a_declared_resource_gets_a_flavor() -> None:
    found = OfferedQueue({"a": {"cpu": 5, "gpu": 1}}).assign(workload(pods(cpu=1, gpu=0)))

    assert [{"cpu": "a", "gpu": "a"}] == chosen(found)
    assert {"a/cpu": 1, "a/gpu": 0} == usage(found)


def test_resources_are_visited_by_the_hash_of_their_names() -> None:
    names = ("cpu", "hugepages-2Mi", "memory", "nvidia.com/gpu", "pods", "storage")

    assert (
        "ephemeral-storage",
        "memory",
        "nvidia.com/gpu",
        "pods",
        "hugepages-2Mi",
        "storage",
        "cpu",
    ) == visiting_order((*names, "ephemeral-storage"))


def test_of_two_groups_that_fail_only_the_one_met_first_is_reported() -> None:
    market = OfferedQueue({"a": {"cpu": 1}}, {"b": {"memory": 1}})

    found = market.assign(workload(pods(cpu=2, memory=2)))

    assert [(RejectionCause.EXCEEDS_MAX, "b", "memory")] == causes(found)


def test_a_group_that_fails_after_another_took_a_flavor_takes_it_back() -> None:
    market = OfferedQueue({"a": {"cpu": 1}}, {"b": {"memory": 9}})

    found = market.assign(workload(pods(cpu=2, memory=2)))

    assert AssignmentMode.NO_FIT is found.mode
    assert [{}] == chosen(found)
    assert {} == usage(found)
    assert [(RejectionCause.EXCEEDS_MAX, "a", "cpu")] == causes(found)


def test_all_resources_of_a_group_over_the_maximum_are_reported() -> None:
    found = OfferedQueue({"a": {"cpu": 1, "memory": 1}}).assign(workload(pods(cpu=2, memory=3)))

    assert {
        (RejectionCause.EXCEEDS_MAX, "a", "cpu"),
        (RejectionCause.EXCEEDS_MAX, "a", "memory"),
    } == set(causes(found))


def test_a_later_pod_set_sees_what_earlier_ones_were_given() -> None:
    found = OfferedQueue({"a": {"cpu": 10}}).assign(
        workload(pods("one", cpu=6), pods("two", cpu=5))
    )

    reason = found.pod_sets[1].reasons[0]
    assert AssignmentMode.NO_FIT is found.mode
    assert AssignmentMode.FIT is found.pod_sets[0].mode
    assert (RejectionCause.EXCEEDS_MAX, 6, 5, 10) == (
        reason.cause,
        reason.assumed,
        reason.requested,
        reason.limit,
    )
    assert {"a/cpu": 6} == usage(found)


def test_pod_sets_after_one_that_failed_are_not_looked_at() -> None:
    found = OfferedQueue({"a": {"cpu": 3}}).assign(
        workload(pods("one", cpu=1), pods("two", cpu=9), pods("three", cpu=1))
    )

    assert ["one", "two"] == [each.name for each in found.pod_sets]


def test_the_missing_amount_is_reported_when_preemption_is_needed() -> None:
    market = OfferedQueue({"a": {"cpu": 4}})
    market.use("a/cpu", 3)

    found = market.assign(workload(pods(cpu=2)))

    reason = found.pod_sets[0].reasons[0]
    assert AssignmentMode.PREEMPT is found.mode
    assert (RejectionCause.INSUFFICIENT, 1, 1) == (reason.cause, reason.missing, reason.limit)
    assert {"a/cpu"} == {str(column) for column in found.needed}
    assert "Preempt" == found.pod_sets[0].attempts[0].preemption


def test_borrowing_has_the_height_of_the_cohort_that_lends() -> None:
    market = OfferedQueue({"a": {"cpu": 2}}, cohort="small")
    market.tree.put_cohort("small", "large", (), 1.0)
    market.neighbour({"a": {"cpu": 8}}, cohort="large")

    assert 0 == market.assign(workload(pods(cpu=2))).height
    assert 2 == market.assign(workload(pods(cpu=5))).height


def test_a_request_within_nominal_quota_asks_the_oracle_even_when_the_queue_is_overused() -> None:
    market = OfferedQueue({"a": {"cpu": 4}}, cohort="team")
    market.neighbour({"a": {"cpu": 2}}, cohort="team")
    market.use("a/cpu", 6)

    assert AssignmentMode.PREEMPT is market.assign(workload(pods(cpu=4))).mode
    assert [("a/cpu", 4)] == market.asked


def test_a_request_above_nominal_quota_in_a_flat_cohort_never_preempts() -> None:
    market = OfferedQueue(
        {"a": {"cpu": 4}}, cohort="team", preemption=Preemption(within_cluster_queue="Any")
    )
    market.neighbour({"a": {"cpu": 4}}, cohort="team")
    market.use("a/cpu", 4)

    found = market.assign(workload(pods(cpu=5)))

    assert AssignmentMode.NO_FIT is found.mode
    assert WaitReason.WAITING_FOR_QUOTA is found.no_fit
    assert [] == market.asked


@pytest.mark.parametrize(
    ("preemption", "policy"),
    [
        (Preemption(borrow_within_cohort=True), Policy()),
        (Preemption(reclaim_within_cohort="Any"), Policy(fair_sharing=())),
        (Preemption(reclaim_within_cohort=""), Policy(fair_sharing=())),
    ],
)
def test_preempting_while_borrowing_has_to_be_allowed(
    preemption: Preemption, policy: Policy
) -> None:
    market = OfferedQueue({"a": {"cpu": 4}}, cohort="team", preemption=preemption, policy=policy)
    market.neighbour({"a": {"cpu": 4}}, cohort="team")
    market.use("a/cpu", 4)

    assert AssignmentMode.PREEMPT is market.assign(workload(pods(cpu=5))).mode


def test_a_subtree_that_could_hold_the_request_may_reclaim_from_outside() -> None:
    market = OfferedQueue({"a": {"cpu": 1}}, cohort="small")
    lent = (group({"a": {"cpu": 4}}),)
    market.tree.put_cohort("small", "large", lent, 1.0)
    outside = market.neighbour({"a": {"cpu": 0}}, cohort="large")
    market.use("a/cpu", 5, outside)

    assert AssignmentMode.PREEMPT is market.assign(workload(pods(cpu=3))).mode
    assert [("a/cpu", 3)] == market.asked


def test_members_of_a_group_get_one_flavor_for_the_sum_of_their_requests() -> None:
    market = OfferedQueue({"a": {"cpu": 4, "gpu": 4}, "b": {"cpu": 9, "gpu": 9}})

    found = market.assign(
        workload(
            pods("worker", 4, group="g", topology=GROUPED, cpu=1, gpu=1),
            pods("leader", group="g", topology=GROUPED, cpu=1),
        )
    )

    assert [{"cpu": "b", "gpu": "b"}, {"cpu": "b"}] == [
        dict(sorted(each.items())) for each in chosen(found)
    ]
    assert {"b/cpu": 5, "b/gpu": 4} == usage(found)


def test_a_group_that_fails_reports_every_member_why() -> None:
    found = OfferedQueue({"a": {"cpu": 4}}).assign(
        workload(
            pods("worker", 4, group="g", topology=GROUPED, cpu=1),
            pods("leader", group="g", topology=GROUPED, cpu=1),
        )
    )

    assert AssignmentMode.NO_FIT is found.mode
    assert [5, 5] == [each.reasons[0].requested for each in found.pod_sets]


def test_the_mildest_reason_of_a_group_counts() -> None:
    market = OfferedQueue({"gone": {"cpu": 9}, "small": {"cpu": 1}})
    flavors = dict(market.snapshot.flavors)
    del flavors["gone"]
    market.snapshot.flavors = flavors

    found = market.assign(workload(pods(cpu=2)))

    assert WaitReason.EXCEEDS_MAX_QUOTA is found.no_fit
    assert [WaitReason.NO_MATCHING_FLAVOR, WaitReason.EXCEEDS_MAX_QUOTA] == [
        each.no_fit for each in found.pod_sets[0].attempts
    ]


def test_flavors_turned_down_in_a_group_that_fits_count_beside_the_group_that_does_not() -> None:
    assert ("tpu", "cpu") == visiting_order(("cpu", "tpu"))
    market = OfferedQueue({"gone": {"tpu": 9}, "a": {"tpu": 9}}, {"b": {"cpu": 1}})
    market.snapshot.flavors = {"a": ResourceFlavor(name="a"), "b": ResourceFlavor(name="b")}

    found = market.assign(workload(pods(tpu=1, cpu=2)))

    assert [(RejectionCause.EXCEEDS_MAX, "b", "cpu")] == causes(found)
    assert WaitReason.NO_MATCHING_FLAVOR is found.no_fit


def test_next_to_an_undeclared_resource_a_flavor_that_was_turned_down_gives_the_reason() -> None:
    market = OfferedQueue({"small": {"tpu": 1}, "a": {"tpu": 9}})

    found = market.assign(workload(pods(tpu=2, cpu=1)))

    assert [(RejectionCause.UNDECLARED, "", "cpu")] == causes(found)
    assert WaitReason.EXCEEDS_MAX_QUOTA is found.no_fit


def test_a_flavor_that_was_not_even_asked_gives_no_reason() -> None:
    market = OfferedQueue({"a": {"tpu": 9}, "b": {"tpu": 9}}, {"c": {"cpu": 1}})

    found = market.assign(workload(pods(tpu=1, cpu=2), allowed=["b", "c"]))

    assert WaitReason.EXCEEDS_MAX_QUOTA is found.no_fit


def test_a_flavor_fails_for_its_most_severe_resource() -> None:
    market = OfferedQueue({"a": {"cpu": Quota(1), "memory": 1}}, cohort="team")
    market.neighbour({"a": {"cpu": 9}}, cohort="team")
    market.use("a/cpu", 9, market.snapshot.queues["other"])

    found = market.assign(workload(pods(cpu=2, memory=2)))

    assert WaitReason.EXCEEDS_MAX_QUOTA is found.no_fit


def test_a_flavor_that_is_not_allowed_or_not_pinned_is_skipped() -> None:
    market = OfferedQueue({"a": {"cpu": 4}, "b": {"cpu": 4}, "c": {"cpu": 4}})

    allowed = market.assign(workload(pods(cpu=1), allowed=["c"]))
    pinned = market.assign(workload(pods(cpu=1)), pinned=[{"cpu": "b"}])

    assert [{"cpu": "c"}] == chosen(allowed)
    assert [{"cpu": "b"}] == chosen(pinned)
    assert WaitReason.NO_MATCHING_FLAVOR is pinned.pod_sets[0].attempts[0].no_fit
