# SPDX-License-Identifier: Apache-2.0
"""The writes of one pass over a parent and its variants."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.objects import NOON, admission, at, condition, events, pod_set
from kuota.api.base import Json, Key
from kuota.api.gates import Gates
from kuota.api.merge_patch import merged
from kuota.bridge.draft import PassResult, StoredWorkload
from kuota.bridge.effects import Create, Delete, Patch, StatusPatch
from kuota.bridge.lifecycle_variants import reconcile_variants
from kuota.bridge.lifecycle_view import LifecycleConfig, VariantsPassInput
from kuota.engine.model import ClusterQueue, ConcurrentAdmission, ResourceGroup

PARENT = "kueue.x-k8s.io/concurrent-admission-parent"
ALLOWED = "kueue.x-k8s.io/workload-allowed-resource-flavors"
GATED_BY = "kueue.x-k8s.io/admission-gated-by"
GATE = "kueue.x-k8s.io/concurrent-admission"
ADMITTED = (
    condition("QuotaReserved", reason="QuotaReserved"),
    condition("Admitted", reason="Admitted"),
)
BLOCKED = (
    condition("QuotaReserved", False, "AdmissionGated"),
    condition("BlockedOnPreemptionGates"),
)


def _queue(mode: str = "TryPreferredFlavors", last: str = "") -> ClusterQueue:
    """Flavors a, b and c, preferred in this order."""
    policy = ConcurrentAdmission(mode=mode, last_acceptable_flavor=last)
    group = ResourceGroup(resources=("gpu",), flavors=tuple("abc"), quotas={})
    return ClusterQueue(name="gpus", groups=(group,), concurrent_admission=policy)


def _workload(name: str, *conditions: Json, flavor: str = "", **more: Any) -> Json:
    """A Workload; with a flavor, one that holds quota on it as far as its conditions say so."""
    held = any(each["type"] == "QuotaReserved" and each["status"] == "True" for each in conditions)
    status: Json = {"conditions": [*conditions], **more.pop("status", {})}
    if held:
        status["admission"] = admission(gpu=flavor)
    meta: Json = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "resourceVersion": "7"}
    spec: Json = {"podSets": [pod_set(gpu="4")], "queueName": "main"} | more.pop("spec", {})
    return {"metadata": meta | more, "spec": spec, "status": status}


def _parent(*conditions: Json, on: str = "a", **more: Any) -> Json:
    return _workload("job-p-1a2b3", *conditions, flavor=on, labels={PARENT: "true"}, **more)


def _variant(flavor: str, *conditions: Json, uid: str = "uid-job-p-1a2b3", **more: Any) -> Json:
    owner = {"kind": "Workload", "name": "job-p-1a2b3", "uid": uid, "controller": True}
    notes = {ALLOWED: flavor} | more.pop("annotations", {})
    made = _workload(
        f"v-{flavor}",
        *conditions,
        flavor=flavor,
        ownerReferences=[owner],
        annotations=notes,
        **more,
    )
    made["spec"]["preemptionGates"] = [{"name": GATE}]
    return made


class VariantResult:
    """A pass over a parent and its variants, and these as they are after it, by name."""

    def __init__(self, view: VariantsPassInput, now: float) -> None:
        self.result: PassResult = reconcile_variants(view, now)
        stored = [*view.variants, *([view.parent] if view.parent is not None else [])]
        self.after = {each.key: each.json for each in stored}
        self.made: dict[str, Json] = {}
        self.deleted: list[str] = []
        for effect in self.result.effects:
            match effect:
                case StatusPatch():
                    self._merge(effect.key, {"status": effect.status})
                case Patch():
                    self._merge(effect.key, effect.body)
                case Create():
                    meta = effect.object["metadata"]
                    self.made[meta["annotations"][ALLOWED]] = effect.object
                case Delete():
                    self.deleted.append(effect.key.name)
                case _:
                    pass

    def _merge(self, key: Key, body: Json) -> None:
        self.after[key] = merged(self.after[key], body)

    def __getitem__(self, name: str) -> Json:
        return self.after[Key("ml", "job-p-1a2b3" if name == "parent" else f"v-{name}")]

    def says(self, name: str) -> dict[str, str]:
        """Conditions by type, as `True/Reason`."""
        listed = self[name]["status"].get("conditions") or ()
        return {each["type"]: f"{each['status']}/{each['reason']}" for each in listed}

    @property
    def active(self) -> str:
        return "".join(f for f in "abc" if self[f]["spec"].get("active") is not False)

    @property
    def events(self) -> list[str]:
        return events(list(self.result.effects))


def _passed(
    parent: Json | None,
    *variants: Json,
    queue: ClusterQueue | None = None,
    now: float = NOON,
    gates: dict[str, bool] | None = None,
    **view: Any,
) -> VariantResult:
    stored = StoredWorkload.of(parent) if parent is not None else None
    config = LifecycleConfig(gates=Gates.of({"ConcurrentAdmission": True, **(gates or {})}))
    known: dict[str, Any] = {"queue": queue or _queue(), **view}
    relatives = tuple(StoredWorkload.of(each) for each in variants)
    return VariantResult(
        VariantsPassInput(parent=stored, variants=relatives, config=config, **known), now
    )


def test_variants_are_made_as_their_parent_is_but_bound_and_gated() -> None:
    notes = {"example.com/note": "n", GATED_BY: "example.com/x"}
    given = _parent(spec={"priority": 7}, annotations=notes)
    given["metadata"]["labels"]["team"] = "ml"
    found = _passed(given, _variant("b", spec={"priority": 7}, annotations=notes))
    assert ["a", "c"] == list(found.made)
    made = found.made["a"]
    assert made["metadata"]["name"].startswith("job-p-variant-a-")
    assert {"team": "ml"} == made["metadata"]["labels"]
    assert notes | {ALLOWED: "a"} == made["metadata"]["annotations"]
    assert "finalizers" not in made["metadata"]
    assert given["spec"] | {"preemptionGates": [{"name": GATE}]} == made["spec"]
    assert "status" not in made
    assert ["job-p-1a2b3: CreatedVariant"] * 2 == found.events


def test_variants_end_with_their_own_parent_and_not_with_one_of_its_name() -> None:
    assert ["v-a", "v-b"] == _passed(None, _variant("a"), _variant("b")).deleted
    found = _passed(_parent(), _variant("a", uid="another"), _variant("b"), _variant("c"))
    assert ["v-a"] == found.deleted
    assert ["a"] == list(found.made)


def test_a_parent_that_is_being_deleted_keeps_its_variants_until_its_pods_are_gone() -> None:
    given = _parent(*ADMITTED, deletionTimestamp=at(0), finalizers=["f"])
    found = _passed(given, _variant("a", *ADMITTED), _variant("b"))
    assert () == found.result.effects


def test_variants_finish_as_their_parent_does() -> None:
    end = condition("Finished", reason="Succeeded", message="well done")
    found = _passed(_parent(end), _variant("a", *ADMITTED), _variant("b"))
    assert "True/Succeeded" == found.says("a")["Finished"]
    assert "True/Succeeded" == found.says("b")["Finished"]
    assert {} == found.made
    again = _passed(_parent(end), found["a"], found["b"])
    assert () == again.result.effects


def test_in_a_queue_that_is_not_there_nothing_is_done() -> None:
    view = VariantsPassInput(
        parent=StoredWorkload.of(_parent()), variants=(StoredWorkload.of(_variant("a")),)
    )
    assert () == reconcile_variants(view, NOON).effects


def test_variants_follow_what_their_parent_asks_for() -> None:
    wanted = {"podSets": [pod_set(gpu="2")], "priority": 5}
    waiting = condition("QuotaReserved", False, "WaitingForQuota")
    gated = _variant("b", waiting, annotations={GATED_BY: "example.com/x"})
    found = _passed(_parent(spec=wanted), _variant("a", *ADMITTED[:1]), gated, _variant("c"))
    # Quota that is held for something else cannot be changed: that one is made anew.
    assert ["v-a"] == found.deleted
    for name in "bc":
        assert wanted["podSets"] == found[name]["spec"]["podSets"]
        assert 5 == found[name]["spec"]["priority"]
        assert GATED_BY not in found[name]["metadata"]["annotations"]


def test_a_priority_is_followed_by_one_that_holds_quota() -> None:
    running = _variant("a", *ADMITTED)
    found = _passed(_parent(*ADMITTED, spec={"priority": 5}), running, _variant("b"))
    assert [] == found.deleted
    assert 5 == found["a"]["spec"]["priority"]


def test_the_parent_is_admitted_as_the_winner_is() -> None:
    waiting = condition("QuotaReserved", False, "PendingEvaluation")
    before = condition("Evicted", reason="VariantEvicted")
    found = _passed(_parent(waiting, before), _variant("a"), _variant("b", *ADMITTED))
    assert admission(gpu="b") == found["parent"]["status"]["admission"]
    assert {
        "QuotaReserved": "True/QuotaReserved",
        "Admitted": "True/Admitted",
        "Evicted": "False/QuotaReserved",
    } == found.says("parent")
    assert "job-p-1a2b3: Admitted" in found.events


def test_quota_alone_does_not_win() -> None:
    found = _passed(_parent(), _variant("a", *ADMITTED[:1]), _variant("b"))
    assert "admission" not in found["parent"]["status"]
    assert "abc" == _passed(_parent(), *map(_variant, "abc")).active


@pytest.mark.parametrize(
    "mark",
    [
        condition("Requeued", False, "PodsReadyTimeout"),
        condition("Requeued", False, "LocalQueueStopped"),
    ],
)
def test_a_parent_that_is_set_aside_is_not_admitted(mark: Json) -> None:
    found = _passed(_parent(mark), _variant("a", *ADMITTED))
    assert "admission" not in found["parent"]["status"]


@pytest.mark.parametrize(
    ("winner", "queue", "active"),
    [
        ("a", _queue(), "a"),
        ("b", _queue(), "ab"),
        ("c", _queue(), "abc"),
        ("c", _queue(last="a"), "ac"),
        ("c", _queue(last="b"), "abc"),
        ("b", _queue("RetainFirstAdmission"), "b"),
    ],
)
def test_who_cannot_win_any_more_is_deactivated(
    winner: str, queue: ClusterQueue, active: str
) -> None:
    variants = [_variant(each, *(ADMITTED if each == winner else ())) for each in "abc"]
    found = _passed(_parent(*ADMITTED, on=winner), *variants, queue=queue)
    assert active == found.active
    deactivated = [each for each in found.events if each.endswith(": DeactivatedVariant")]
    assert 3 - len(active) == len(deactivated)


def test_all_variants_of_an_active_parent_are_active_until_one_is_admitted() -> None:
    idle = [_variant(each, spec={"active": False}) for each in "abc"]
    woken = _passed(_parent(), *idle)
    assert "abc" == woken.active
    assert "v-a: ActivatedVariant" in woken.events
    stopped = _passed(_parent(spec={"active": False}), *map(_variant, "abc"))
    assert "" == stopped.active


def test_the_parent_goes_first_when_its_variant_has_to_go() -> None:
    evicted = condition("Evicted", reason="Preempted", message="for somebody else")
    runs = _passed(_parent(*ADMITTED), _variant("a", *ADMITTED, evicted))
    assert "True/VariantEvicted" == runs.says("parent")["Evicted"]
    assert "True/QuotaReserved" == runs.says("a")["QuotaReserved"]
    assert "job-p-1a2b3: EvictedDueToVariantEvicted" in runs.events
    waits = _passed(runs["parent"], runs["a"])
    assert "True/QuotaReserved" == waits.says("a")["QuotaReserved"]
    gone = _passed(_parent(), runs["a"])
    assert "False/PendingEvaluation" == gone.says("a")["QuotaReserved"]
    assert "True/Preempted" == gone.says("a")["Requeued"]
    assert "admission" not in gone["a"]["status"]


def test_quota_that_the_parent_does_not_run_on_is_free_at_once() -> None:
    evicted = condition("Evicted", reason="Deactivated")
    given = _parent(*ADMITTED, on="b")
    found = _passed(given, _variant("a", *ADMITTED[:1], evicted), _variant("b", *ADMITTED))
    assert "Evicted" not in found.says("parent")
    assert "False/PendingEvaluation" == found.says("a")["QuotaReserved"]


@pytest.mark.parametrize("others", [[], [_variant("b", *ADMITTED)]], ids=["nobody", "another"])
def test_a_parent_does_not_run_on_a_flavor_whose_variant_is_gone(others: list[Json]) -> None:
    found = _passed(_parent(*ADMITTED), *others)
    assert "True/ConcurrentAdmission" == found.says("parent")["Evicted"]


def test_pods_that_are_late_cost_the_variant_its_quota_too() -> None:
    late = condition("Evicted", reason="PodsReadyTimeout", message="late", since=60)
    delay = {"requeueState": {"count": 1, "requeueAt": at(120)}}
    given = _parent(*ADMITTED, late, status=delay)
    found = _passed(given, _variant("a", *ADMITTED), now=NOON + 60)
    assert "True/PodsReadyTimeout" == found.says("a")["Evicted"]
    assert delay["requeueState"] == found["a"]["status"]["requeueState"]
    # One that got its quota after that has nothing to do with it.
    again = [condition(each["type"], reason=each["reason"], since=90) for each in ADMITTED]
    aside = condition("Requeued", False, "PodsReadyTimeout", since=61)
    spared = _passed(_parent(late, aside), _variant("a", *again), now=NOON + 100)
    assert "Evicted" not in spared.says("a")
    assert "admission" not in spared["parent"]["status"]


def test_a_variant_set_aside_for_a_migration_returns_once_nothing_waits_for_its_quota() -> None:
    aside = condition("Requeued", False, "FlavorMigration")
    waiting = condition("QuotaReserved", False, "WaitingForPreemptedWorkloads")
    pending = _variant("b", condition("QuotaReserved", False, "PendingEvaluation"), aside)
    assert "False/FlavorMigration" == _passed(_parent(), _variant("a", waiting), pending).says(
        "b"
    ).get("Requeued")
    refused = _variant("a", condition("QuotaReserved", False, "WaitingForQuota"))
    found = _passed(_parent(), refused, pending)
    assert "True/Reactivated" == found.says("b")["Requeued"]
    moved = _passed(_parent(), _variant("a", *ADMITTED), pending)
    assert "False/FlavorMigration" == moved.says("b")["Requeued"]


def test_the_variant_that_runs_knows_of_its_pods() -> None:
    ready = condition("PodsReady", reason="Started")
    reclaimed = {"reclaimablePods": [{"name": "main", "count": 1}]}
    given = _parent(*ADMITTED, ready, status=reclaimed)
    found = _passed(given, _variant("a", *ADMITTED), _variant("b"))
    assert "True/Started" == found.says("a")["PodsReady"]
    assert reclaimed["reclaimablePods"] == found["a"]["status"]["reclaimablePods"]
    assert "PodsReady" not in found.says("b")
    evicted = condition("Evicted", reason="Preempted")
    gone = _passed(_parent(), _variant("a", *ADMITTED, ready, evicted))
    assert "PodsReady" not in gone.says("a")


def _opened(found: VariantResult) -> str:
    return "".join(
        name
        for name in "abc"
        for each in found[name]["status"].get("preemptionGates") or ()
        if each["position"] == "Open"
    )


def _open(since: float) -> Json:
    gate = {"name": GATE, "position": "Open", "lastTransitionTime": at(since)}
    return {"preemptionGates": [gate]}


class TestGates:
    def test_the_most_preferred_that_needs_to_preempt_may(self) -> None:
        fits_nowhere = condition("QuotaReserved", False, "NoMatchingFlavor")
        others = _variant("b", *BLOCKED), _variant("c", *BLOCKED)
        found = _passed(_parent(), _variant("a", fits_nowhere), *others)
        assert "b" == _opened(found)
        assert "v-b: PreemptionUngatedVariant" in found.events
        assert 300 == found.result.requeue_after_s

    def test_no_variant_may_preempt_before_a_preferred_one_was_evaluated(self) -> None:
        found = _passed(_parent(), _variant("a"), _variant("b", *BLOCKED), _variant("c"))
        assert "" == _opened(found)

    def test_the_next_one_may_five_minutes_after_the_last(self) -> None:
        others = (_variant(each, *BLOCKED) for each in "bc")
        variants = [_variant("a", *BLOCKED, status=_open(0)), *others]
        soon = _passed(_parent(), *variants, now=NOON + 299)
        assert "a" == _opened(soon)
        assert 1 == soon.result.requeue_after_s
        assert "ab" == _opened(_passed(_parent(), *variants, now=NOON + 300))

    @pytest.mark.parametrize(
        "held",
        [
            {"annotations": {GATED_BY: "example.com/x"}},
            {"status": {"conditions": [condition("QuotaReserved", False, "OnHold"), BLOCKED[1]]}},
        ],
        ids=["gated", "on hold"],
    )
    def test_who_does_not_wait_for_room_has_no_turn(self, held: Json) -> None:
        notes = held.get("annotations") or {}
        variants = [_variant("a", *BLOCKED, **held), _variant("b"), _variant("c")]
        assert "" == _opened(_passed(_parent(annotations=notes), *variants))


def test_another_pass_over_unchanged_variants_writes_nothing() -> None:
    variants = [_variant("a"), _variant("b", *ADMITTED), _variant("c", spec={"active": False})]
    assert () == _passed(_parent(*ADMITTED, on="b"), *variants).result.effects


def test_a_workload_that_is_no_parent_yet_is_left_alone() -> None:
    assert () == _passed(_workload("w")).result.effects
