# SPDX-License-Identifier: Apache-2.0
"""StatefulSets and LeaderWorkerSets: Workloads before Pods, scaling, rollouts."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.jobs.pods import GATE, NOON, PREFIX
from kuota.api.base import Json, Key
from kuota.api.merge_patch import merged
from kuota.api.rules import pod_faults
from kuota.bridge.draft import PassResult, StoredWorkload
from kuota.bridge.effects import Create, Delete, Patch, StatusPatch
from kuota.bridge.jobs.leader_worker_set import LeaderWorkerSet
from kuota.bridge.jobs.pod_parent import ParentView, controller_name
from kuota.bridge.jobs.stateful_set import StatefulSet

SETS, REPLICAS = StatefulSet(), LeaderWorkerSet()
TEMPLATE: Json = {
    "metadata": {"annotations": {f"{PREFIX}pod-suspending-parent": "statefulset"}},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
}


def stateful_set(replicas: int, **status: Any) -> Json:
    labels = {f"{PREFIX}queue-name": "main"}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "ml", "uid": "u", "labels": labels},
        "spec": {"replicas": replicas, "template": TEMPLATE},
        "status": status,
    }


def pod(name: str, parent: str = "statefulset", revision: str = "one", **labels: str) -> Json:
    kind = "StatefulSet"
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "db", "uid": "u", "controller": True}
    meta = {
        "name": name,
        "namespace": "ml",
        "uid": name,
        "annotations": {f"{PREFIX}pod-suspending-parent": parent},
        "labels": {"controller-revision-hash": revision} | labels,
        "ownerReferences": [owner],
    }
    spec = {"schedulingGates": [GATE, {"name": f"{PREFIX}topology"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {}}


def passed(
    obj: Json | None, *pods: Json, workloads: tuple[Json, ...] = (), **more: Any
) -> PassResult:
    kind = REPLICAS if more.pop("replicas", False) else SETS
    view = ParentView(
        key=Key("ml", "db"),
        obj=obj,
        pods=pods,
        workloads=tuple(map(StoredWorkload.of, workloads)),
        **more,
    )
    return kind.reconcile(view, NOON)


def made(result: PassResult) -> Json:
    return next(each.object for each in result.effects if isinstance(each, Create))


def after(obj: Json, result: PassResult) -> Json:
    """The object after the effects of a pass."""
    name = obj["metadata"]["name"]
    for each in result.effects:
        if isinstance(each, Patch) and each.key.name == name:
            obj = merged(obj, each.body)
        elif isinstance(each, StatusPatch) and each.key.name == name:
            obj = merged(obj, {"status": each.status})
    return obj


def reserved(obj: Json) -> Json:
    condition = {"type": "QuotaReserved", "status": "True", "reason": "R", "message": ""}
    return obj | {"status": {"conditions": [condition]}}


def reason(obj: Json) -> str:
    found = {each["type"]: each["reason"] for each in obj["status"]["conditions"]}
    return str(found["QuotaReserved"])


def test_scaling_to_zero_puts_the_workload_on_hold_and_back_with_its_new_size() -> None:
    workload = reserved(made(passed(stateful_set(3))))
    held = after(workload, passed(stateful_set(0), workloads=(workload,)))
    assert "OnHold" == reason(held)
    again = after(held, passed(stateful_set(5), workloads=(held,)))
    assert "PendingEvaluation" == reason(again)
    assert 5 == again["spec"]["podSets"][0]["count"]


def test_no_pass_changes_a_workload_that_is_up_to_date() -> None:
    workload = made(passed(stateful_set(3)))
    assert () == passed(stateful_set(3), workloads=(workload,)).effects


def test_pods_join_the_group_of_the_workload_once() -> None:
    before = pod("db-0")
    joined = after(before, passed(stateful_set(3), before))
    annotations = joined["metadata"]["annotations"]
    name = made(passed(stateful_set(3)))["metadata"]["name"]
    assert name == annotations[f"{PREFIX}pod-group-name"]
    assert ("3", "main") == (
        annotations[f"{PREFIX}pod-group-total-count"],
        annotations[f"{PREFIX}role-hash"],
    )
    workload = made(passed(stateful_set(3)))
    assert () == passed(stateful_set(3), joined, workloads=(workload,)).effects


def test_pods_of_the_old_revision_start_without_admission_during_a_rollout() -> None:
    rolling = stateful_set(3, currentRevision="one", updateRevision="two")
    old = after(pod("db-0"), passed(rolling, pod("db-0")))
    new = after(pod("db-1", revision="two"), passed(rolling, pod("db-1", revision="two")))
    assert not old["spec"].get("schedulingGates")
    assert new["spec"]["schedulingGates"]


def test_the_webhook_accepts_every_write_to_a_pod_of_the_old_revision() -> None:
    """It rejects a new queue name of a Pod that has no gates any more."""
    rolling = stateful_set(1, currentRevision="one", updateRevision="two")
    name = made(passed(rolling))["metadata"]["name"]
    before = pod("db-0", **{f"{PREFIX}pod-group-name": name})
    before["metadata"]["annotations"][f"{PREFIX}pod-group-total-count"] = "1"
    written = [each for each in passed(rolling, before).effects if isinstance(each, Patch)]
    assert 2 == len(written)
    for each in written:
        changed = merged(before, each.body)
        assert [] == pod_faults(changed, before)
        before = changed
    assert "main" == before["metadata"]["labels"][f"{PREFIX}queue-name"]
    assert not before["spec"].get("schedulingGates")


def test_an_unmanaged_stateful_set_is_left_alone() -> None:
    assert () == passed(stateful_set(3), pod("db-0"), managed=False).effects


def leader_worker_set(count: int, *, size: int = 3, **status: Any) -> Json:
    labels = {f"{PREFIX}queue-name": "main"}
    templates = {"size": size, "leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE}
    rolling = {"rollingUpdateConfiguration": {"maxSurge": 1}}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "db", "namespace": "ml", "uid": "u", "labels": labels},
        "spec": {
            "replicas": count,
            "leaderWorkerTemplate": templates,
            "rolloutStrategy": rolling,
        },
        "status": status,
    }


def workloads(replicas: int) -> tuple[Json, ...]:
    effects = passed(leader_worker_set(replicas), replicas=True).effects
    return tuple(each.object for each in effects if isinstance(each, Create))


def test_each_replica_has_a_workload_with_a_leader_and_its_workers() -> None:
    found = workloads(2)
    assert [[("leader", 1), ("worker", 2)]] * 2 == [
        [(each["name"], each["count"]) for each in workload["spec"]["podSets"]]
        for workload in found
    ]
    index = f"{PREFIX}component-workload-index"
    assert ["0", "1"] == [each["metadata"]["annotations"][index] for each in found]


def test_a_pass_creates_a_limited_number_of_workloads_and_the_next_one_continues() -> None:
    first = workloads(1_000_000)
    assert 100 == len(first)
    surplus = workloads(3)[2] | {"metadata": {"name": "surplus", "namespace": "ml", "uid": "w"}}
    result = passed(leader_worker_set(150), replicas=True, workloads=(*first, surplus))
    created = [each for each in result.effects if isinstance(each, Create)]
    gone = [each.key.name for each in result.effects if isinstance(each, Delete)]
    assert (50, ["surplus"]) == (len(created), gone)


def test_a_stored_set_beyond_the_limit_has_workloads_for_the_first_replicas_only() -> None:
    huge = leader_worker_set(1_000_000)
    effects = passed(huge, replicas=True, max_replicas=3).effects
    assert 3 == len([each for each in effects if isinstance(each, Create)])
    # An older version created more. They are deleted in steps.
    result = passed(huge, replicas=True, workloads=many(150), max_replicas=3)
    gone = [each.key.name for each in result.effects if isinstance(each, Delete)]
    assert 100 == len(gone)
    assert not any(each["metadata"]["name"] in gone for each in workloads(3))


def many(count: int) -> tuple[Json, ...]:
    """The Workloads of so many replicas, which several passes create."""
    found = workloads(count)
    while len(found) < count:
        result = passed(leader_worker_set(count), replicas=True, workloads=found)
        found += tuple(each.object for each in result.effects if isinstance(each, Create))
    return found


def test_scaling_down_deletes_the_workloads_of_the_last_replicas() -> None:
    given = workloads(3)
    result = passed(leader_worker_set(1), replicas=True, workloads=given)
    gone = {each.key.name for each in result.effects if isinstance(each, Delete)}
    assert {each["metadata"]["name"] for each in given[1:]} == gone


@pytest.mark.parametrize(("updated", "count"), [(1, 1), (2, 0)])
def test_surplus_replicas_have_workloads_only_during_a_rollout(updated: int, count: int) -> None:
    rolling = leader_worker_set(2, replicas=3, updatedReplicas=updated)
    result = passed(rolling, replicas=True, workloads=workloads(2))
    assert count == sum(isinstance(each, Create) for each in result.effects)


def test_the_pods_of_a_set_that_is_gone_are_started_so_that_they_terminate() -> None:
    before = pod("db-0", "leaderworkerset.x-k8s.io/leaderworkerset")
    assert not after(before, passed(None, before, replicas=True))["spec"].get("schedulingGates")


def test_a_pod_that_names_a_missing_set_does_not_evade_quota_where_all_pods_need_it() -> None:
    before = pod("db-0", "leaderworkerset.x-k8s.io/leaderworkerset")
    assert () == passed(None, before, replicas=True, manages_all=True).effects


def test_a_pod_whose_stateful_set_is_not_known_yet_stays_gated() -> None:
    index = {"leaderworkerset.sigs.k8s.io/group-index": "0"}
    before = pod("db-0", "leaderworkerset.x-k8s.io/leaderworkerset", **index)
    result = passed(leader_worker_set(1), before, replicas=True, workloads=workloads(1))
    assert before == after(before, result)


def test_pods_wait_until_their_replica_is_known() -> None:
    related = (stateful_set(3, currentRevision="one", updateRevision="one"),)
    unknown = pod("db-0", "leaderworkerset.x-k8s.io/leaderworkerset")
    index = {"leaderworkerset.sigs.k8s.io/group-index": "1"}
    known = pod("db-1", "leaderworkerset.x-k8s.io/leaderworkerset", **index)
    obj, given = leader_worker_set(2), workloads(2)
    result = passed(obj, unknown, known, replicas=True, related=related, workloads=given)
    assert unknown == after(unknown, result)
    annotations = after(known, result)["metadata"]["annotations"]
    assert given[1]["metadata"]["name"] == annotations[f"{PREFIX}pod-group-name"]
    assert "leader" == annotations[f"{PREFIX}role-hash"]


def test_malformed_owners_are_no_controllers() -> None:
    obj = {"metadata": {"ownerReferences": 1}}
    assert "" == controller_name(obj, ("apps", "StatefulSet"))


@pytest.mark.parametrize("replicas", [False, True])
def test_duplicate_variables_do_not_prevent_the_workload(replicas: bool) -> None:
    variables = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    container = TEMPLATE["spec"]["containers"][0] | {"env": variables}
    template = TEMPLATE | {"spec": {"containers": [container], "initContainers": [container]}}
    obj = stateful_set(1)
    obj["spec"]["template"] = template
    if replicas:
        obj = leader_worker_set(1)
        templates = {"leaderTemplate": template, "workerTemplate": template}
        obj["spec"]["leaderWorkerTemplate"] |= templates
    for pod_set in made(passed(obj, replicas=replicas))["spec"]["podSets"]:
        for each in ("containers", "initContainers"):
            (found,) = pod_set["template"]["spec"][each]
            assert [{"name": "A", "value": "2"}] == found["env"]
