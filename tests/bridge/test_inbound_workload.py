# SPDX-License-Identifier: Apache-2.0
"""Conversion of Workloads: requests, whether they may queue, and obstacles."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import convert

from bridge.objects import NOON, admission, at, check, condition, pod_set, reserved, workload
from kuota.api.base import Key
from kuota.api.core import LimitRange
from kuota.api.gates import Gates
from kuota.api.resources import Transformation
from kuota.api.workload import Workload
from kuota.bridge.inbound_workload import AccountingContext
from kuota.bridge.inbound_workload import workload as inbound
from kuota.engine import model
from kuota.engine.amounts import FlavorResource
from kuota.engine.model import Eviction


def on(**gates: bool) -> AccountingContext:
    return AccountingContext(gates=Gates.of(gates, check=False))


def requests(found: model.Workload) -> list[dict[str, int]]:
    return [each.requests for each in found.pod_sets]


def test_a_new_workload_is_counted_from_its_pods_and_may_queue() -> None:
    obj = workload("train", pod_set("main", 3, cpu="500m", gpu="2"), queueName="vision")
    found = inbound(obj)
    assert requests(found) == [{"cpu": 1500, "gpu": 6}]
    assert (found.key, found.local_queue) == (Key("ml", "train"), Key("ml", "vision"))
    assert found.queueable
    assert not found.charged


def test_negative_requests_count_as_nothing() -> None:
    assert requests(inbound(workload("train", pod_set(cpu="-10m", gpu="1")))) == [
        {"cpu": 0, "gpu": 1}
    ]


def test_finished_pods_are_not_asked_for_again_unless_the_gate_is_off() -> None:
    obj = workload(
        "train",
        pod_set(count=5, gpu="1"),
        status={"reclaimablePods": [{"name": "main", "count": 2}]},
    )
    assert [(each.count, each.pods) for each in inbound(obj).pod_sets] == [(5, 3)]
    assert requests(inbound(obj)) == [{"gpu": 3}]
    assert requests(inbound(obj, on(ReclaimablePods=False))) == [{"gpu": 5}]


def test_limits_defaults_and_rules_shape_what_a_pod_asks_for() -> None:
    defaults = {"spec": {"limits": [{"type": "Container", "defaultRequest": {"memory": "1Ki"}}]}}
    credits = Transformation(input="gpu", strategy="Replace", outputs={"credits": 10})
    accounting = AccountingContext(
        transformations={"gpu": credits},
        excluded_prefixes=("networking/",),
        limit_ranges={"ml": [convert(defaults, LimitRange)]},
    )
    asked = pod_set(requests={"gpu": "2", "networking/vf": "1"})
    assert requests(inbound(workload("train", asked), accounting)) == [
        {"credits": 20, "memory": 1024}
    ]


def rule(
    input_: str, multiply_by: str = "", strategy: str = "Retain", **outputs: str
) -> AccountingContext:
    made = Transformation(
        input=input_, multiply_by=multiply_by, strategy=strategy, outputs=dict(outputs)
    )
    return AccountingContext(transformations={input_: made})


@pytest.mark.parametrize(
    ("accounting", "asked", "counted"),
    [
        pytest.param(
            rule("mem", "gpu", quota="1"),
            {"gpu": "2", "mem": "1024"},
            {"gpu": 2, "mem": 1024, "quota": 2048},
            id="multiplied, and the input kept as it was",
        ),
        pytest.param(
            rule("mem", "cpu", quota="1"),
            {"cpu": "500m", "mem": "1024"},
            {"cpu": 500, "mem": 1024, "quota": 512},
            id="multiplied by less than one",
        ),
        pytest.param(
            rule("credit", strategy="Replace", gpu="-1"),
            {"credit": "3", "gpu": "8"},
            {"gpu": 8},
            id="an allowance does not reach what is asked directly",
        ),
        pytest.param(
            rule("credit", strategy="Replace", gpu="1"),
            {"credit": "1", "gpu": "1"},
            {"gpu": 2},
            id="an output adds to a request of its name",
        ),
        pytest.param(
            rule("gpu", gpu="5"), {"gpu": "1"}, {"gpu": 6}, id="an output adds to its own input"
        ),
        pytest.param(
            rule("credit", strategy="Replace", gpu="10G"),
            {"credit": "10G"},
            {"gpu": 2**63 - 1},
            id="a product past the range is the greatest amount",
        ),
    ],
)
def test_resources_may_count_as_others(
    accounting: AccountingContext, asked: dict[str, str], counted: dict[str, int]
) -> None:
    assert requests(inbound(workload("train", pod_set(requests=asked)), accounting)) == [counted]


def test_quota_once_reserved_is_counted_from_the_record_of_it() -> None:
    found = inbound(reserved())
    assert found.charged
    assert not found.queueable
    assert found.reservation is not None
    assert found.reservation.cluster_queue == "gpus"
    assert found.reservation.usage == {FlavorResource("a100", "gpu"): 4}
    assert found.reservation.since == NOON


def test_resources_without_a_flavor_are_charged_nowhere() -> None:
    given = admission(gpu="a100")
    given["podSetAssignments"][0]["resourceUsage"] = {"gpu": "4", "memory": "1Ki"}
    found = inbound(reserved(status={"admission": given})).reservation
    assert found is not None
    assert found.usage == {FlavorResource("a100", "gpu"): 4}


def running(count: int, recorded: int, done: int) -> Workload:
    """A workload of `count` pods admitted with `recorded` of them, 10m of cpu each."""
    given = admission(cpu="a100")
    usage = {"cpu": f"{10 * recorded}m"}
    given["podSetAssignments"][0] |= {"count": recorded, "resourceUsage": usage}
    return workload(
        "train",
        pod_set(count=count, cpu="10m"),
        conditions=[condition("QuotaReserved")],
        status={"admission": given, "reclaimablePods": [{"name": "main", "count": done}]},
    )


@pytest.mark.parametrize(
    ("obj", "charged"),
    [
        pytest.param(running(5, 5, 2), 30, id="two of five are done"),
        pytest.param(running(5, 3, 2), 30, id="three were admitted, and three are left"),
        pytest.param(running(5, 3, 3), 20, id="three were admitted, and two are left"),
        pytest.param(running(5, 3, 0), 30, id="a part admitted does not grow"),
        pytest.param(running(2, 5, 5), 0, id="more done than the size it shrank to"),
    ],
)
def test_the_charge_shrinks_with_the_pods_that_are_done(obj: Workload, charged: int) -> None:
    found = inbound(obj).reservation
    assert found is not None
    assert found.usage == {FlavorResource("a100", "cpu"): charged}


@pytest.mark.parametrize(
    ("obj", "charged"),
    [
        pytest.param(reserved("a", condition("Evicted")), True, id="evicted, pods still there"),
        pytest.param(reserved("a", condition("Finished")), False, id="finished"),
        pytest.param(workload("a", status={"admission": admission()}), False, id="not confirmed"),
        pytest.param(
            workload(
                "a",
                conditions=[condition("QuotaReserved")],
                status={"admission": admission()},
                active=False,
            ),
            False,
            id="deactivated",
        ),
    ],
)
def test_quota_is_charged_until_it_is_taken_back(obj: Workload, charged: bool) -> None:
    assert inbound(obj).charged is charged


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(workload(active=False), id="deactivated"),
        pytest.param(workload(conditions=[condition("Finished")]), id="finished"),
        pytest.param(workload(conditions=[condition("QuotaReserved", False, "OnHold")]), id="held"),
        pytest.param(
            workload(conditions=[condition("WaitingForReplacementPods")]), id="pods missing"
        ),
        pytest.param(
            workload(annotations={"kueue.x-k8s.io/admission-gated-by": "example.com/budget"}),
            id="gated",
        ),
    ],
)
def test_some_workloads_may_not_queue(obj: Workload) -> None:
    assert not inbound(obj).queueable


def test_an_eviction_is_remembered_until_quota_comes_again() -> None:
    out = workload(conditions=[condition("Evicted", True, "PodsReadyTimeout", since=30)])
    assert inbound(out).evicted == Eviction(reason="PodsReadyTimeout", at=NOON + 30)
    back = workload(conditions=[condition("Evicted", False, "QuotaReserved", since=60)])
    assert inbound(back).evicted is None


def test_whether_it_was_put_back_has_three_answers() -> None:
    assert inbound(workload()).requeued is None
    assert inbound(workload(conditions=[condition("Requeued", False)])).requeued is False
    later = workload(
        conditions=[condition("Requeued")], status={"requeueState": {"requeueAt": at(60)}}
    )
    assert inbound(later).requeued is True
    assert inbound(later).requeue_at == NOON + 60


def test_requests_above_limits_are_a_fault_that_names_the_place() -> None:
    asked = pod_set(gpu="2")
    asked["template"]["spec"]["containers"][0]["resources"]["limits"] = {"gpu": "1"}
    (fault,) = inbound(workload("train", asked)).faults
    assert "podSets[0]" in fault


def test_an_elastic_workload_names_the_slice_it_replaces_in_its_own_namespace_only() -> None:
    def replaces(name: str, **gates: bool) -> Key | None:
        note = {"kueue.x-k8s.io/workload-slice-replacement-for": name}
        return inbound(workload("train-2", annotations=note), on(**gates)).replaces

    assert replaces("ml/train-1") == Key("ml", "train-1")
    assert replaces("train-1") == Key("ml", "train-1")
    assert replaces("other/train-1") is None
    assert replaces("ml/train-1", ElasticJobsViaWorkloadSlices=False) is None


def test_a_slice_that_replaces_another_is_rejected_for_itself_only() -> None:
    """It is charged less than other workloads of its size, so what they lack says nothing."""
    note = {"kueue.x-k8s.io/workload-slice-replacement-for": "train-1"}
    assert inbound(workload("train-2", annotations=note), on()).scheduling_hash == ""
    assert inbound(workload("train-2"), on()).scheduling_hash != ""


def test_variants_are_bound_to_their_flavors_only_with_concurrent_admission() -> None:
    note = {"kueue.x-k8s.io/workload-allowed-resource-flavors": "a100,h100"}
    obj = workload("train", annotations=note)
    assert inbound(obj).allowed_flavors is None
    found = inbound(obj, on(ConcurrentAdmission=True))
    assert found.allowed_flavors == frozenset({"a100", "h100"})


@pytest.mark.parametrize(
    ("positions", "closed"), [([], True), (["Closed"], True), (["Open"], False)]
)
def test_a_preemption_gate_is_closed_until_somebody_opens_it(
    positions: list[str], closed: bool
) -> None:
    states = [{"name": "orchestrator", "position": each} for each in positions]
    obj = workload(preemptionGates=[{"name": "orchestrator"}], status={"preemptionGates": states})
    assert inbound(obj, on(MultiKueueOrchestratedPreemption=True)).closed_gates is closed
    assert not inbound(obj).closed_gates


def test_a_boost_counts_into_the_priority_when_its_gate_is_on() -> None:
    obj = workload(annotations={"kueue.x-k8s.io/priority-boost": "5"}, priority=10)
    assert (inbound(obj).priority, inbound(obj).boost) == (10, 0)
    boosted = inbound(obj, on(PriorityBoost=True))
    assert (boosted.priority, boosted.boost) == (15, 5)


def test_the_states_of_its_checks_are_known_by_name() -> None:
    obj = workload(status={"admissionChecks": [check("budget", "Ready"), check("prov", "Retry")]})
    assert inbound(obj).checks == {"budget": "Ready", "prov": "Retry"}


class TestClass:
    """Workloads of one class fare alike."""

    def alike(self, some: Any, other: Any, **gates: bool) -> bool:
        a, b = (
            inbound(some, on(**gates)).scheduling_hash,
            inbound(other, on(**gates)).scheduling_hash,
        )
        assert a
        assert b
        return a == b

    def test_name_queue_and_age_make_no_difference(self) -> None:
        some = workload("a", pod_set(gpu="1"), queueName="vision")
        assert self.alike(some, workload("b", pod_set(gpu="1"), queueName="speech", created=9))

    @pytest.mark.parametrize(
        "other",
        [
            pytest.param(workload("a", pod_set(gpu="2")), id="requests"),
            pytest.param(workload("a", pod_set(count=2, gpu="1")), id="count"),
            pytest.param(workload("a", pod_set("other", gpu="1")), id="name of the pod set"),
            pytest.param(workload("a", pod_set(gpu="1"), priority=1), id="priority"),
            pytest.param(workload("a", pod_set(gpu="1") | {"minCount": 1}), id="minimum"),
            pytest.param(
                workload("a", pod_set(gpu="1") | {"topologyRequest": {"required": "rack"}}),
                id="topology",
            ),
        ],
    )
    def test_what_the_scheduler_looks_at_does(self, other: Workload) -> None:
        assert not self.alike(workload("a", pod_set(gpu="1")), other)

    def test_limits_labels_and_images_do_not(self) -> None:
        asked = pod_set(gpu="1")
        asked["template"]["metadata"] = {"labels": {"app": "x"}}
        asked["template"]["spec"]["containers"][0]["resources"]["limits"] = {"gpu": "1"}
        asked["template"]["spec"]["containers"][0]["image"] = "torch"
        assert self.alike(workload("a", pod_set(gpu="1")), workload("a", asked))

    def test_allowed_flavors_do_with_concurrent_admission(self) -> None:
        some, other = (
            workload("a", annotations={"kueue.x-k8s.io/workload-allowed-resource-flavors": flavor})
            for flavor in ("a100", "h100")
        )
        assert self.alike(some, other)
        assert not self.alike(some, other, ConcurrentAdmission=True)

    def test_without_its_gate_no_workload_has_a_class(self) -> None:
        assert inbound(workload(), on(SchedulingEquivalenceHashing=False)).scheduling_hash == ""


@pytest.mark.parametrize(
    "other",
    [
        workload("other", pod_set(count=2, gpu="1")),
        workload("other", pod_set(count=2, gpu="1"), priority=7),
        workload("other", pod_set(count=2, gpu="2")),
        workload("other", pod_set(count=3, gpu="1")),
        workload(
            "other",
            pod_set(count=2, gpu="1"),
            status={"reclaimablePods": [{"name": "main", "count": 1}]},
        ),
    ],
)
def test_what_was_counted_before_makes_no_difference(other: Workload) -> None:
    """Pod sets are counted once for all Workloads that have the same."""
    accounting = AccountingContext()
    inbound(workload("train", pod_set(count=2, gpu="1")), accounting)
    assert inbound(other, accounting) == inbound(other, AccountingContext())


def test_pod_sets_alike_are_counted_apart_where_namespaces_set_limits() -> None:
    defaults = {"spec": {"limits": [{"type": "Container", "defaultRequest": {"memory": "1Ki"}}]}}
    accounting = AccountingContext(limit_ranges={"other": [convert(defaults, LimitRange)]})
    one = workload("train", pod_set(gpu="1"))
    two = msgspec.structs.replace(
        one, metadata=msgspec.structs.replace(one.metadata, namespace="other")
    )
    assert requests(inbound(one, accounting)) == [{"gpu": 1}]
    assert requests(inbound(two, accounting)) == [{"gpu": 1, "memory": 1024}]
