# SPDX-License-Identifier: Apache-2.0
"""Which pods a Deployment or StatefulSet creates and deletes."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from kuota.api.base import Json
from kuota.runner.deployment_rules import deployment_step
from kuota.runner.replicas import ReplicaStep, Revision, template_hash
from kuota.runner.stateful_set_rules import stateful_set_step

NOW = 1_800_000_000.0
_serial = count()


def made(kind: str, replicas: int, image: str = "one", **spec: Any) -> Json:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "n", "uid": "u", "generation": 3},
        "spec": {"replicas": replicas, "template": template, **spec},
    }


def deployment(replicas: int, image: str = "one", **rolling: Any) -> Json:
    limits = {"maxSurge": 1, "maxUnavailable": 0} | rolling
    return made("Deployment", replicas, image, strategy={"rollingUpdate": limits})


def pods_of(step: ReplicaStep, **state: Any) -> list[Json]:
    return [stored(each, **state) for each in step.create]


def stored(pod: Json, *, ready: bool = True, gated: bool = False, phase: str = "Running") -> Json:
    meta = {"name": f"p-{next(_serial)}", "creationTimestamp": "2027-01-01T00:00:00Z"}
    spec = pod["spec"] | ({"schedulingGates": [{"name": "g"}]} if gated else {})
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]}
    return pod | {"metadata": meta | pod["metadata"], "spec": spec, "status": status}


def deleting(pod: Json) -> Json:
    return pod | {"metadata": pod["metadata"] | {"deletionTimestamp": "2027-01-01T00:00:00Z"}}


def test_a_deployment_creates_its_pods_and_reports_them() -> None:
    step = deployment_step(deployment(2), [], NOW)
    assert 2 == len(step.create)
    pod = step.create[0]["metadata"]
    assert {"app", "pod-template-hash"} == set(pod["labels"])
    assert ("Deployment", True) == (
        pod["ownerReferences"][0]["kind"],
        pod["ownerReferences"][0]["controller"],
    )
    done = deployment_step(deployment(2), pods_of(step), NOW)
    assert ([], []) == (done.create, done.delete)
    status = done.status
    assert (3, 2, 2, 2) == (
        status["observedGeneration"],
        status["updatedReplicas"],
        status["availableReplicas"],
        status["replicas"],
    )
    assert ["True", "True"] == [each["status"] for each in status["conditions"]]


def test_a_smaller_deployment_gives_up_waiting_pods_first() -> None:
    running, waiting = (
        pods_of(deployment_step(deployment(1), [], NOW), gated=gated, ready=not gated)[0]
        for gated in (False, True)
    )
    step = deployment_step(deployment(1), [running, waiting], NOW)
    assert [waiting["metadata"]["name"]] == [each.name for each in step.delete]


def test_an_update_keeps_as_many_pods_available_as_it_must() -> None:
    old = pods_of(deployment_step(deployment(3), [], NOW))
    first = deployment_step(deployment(3, "two"), old, NOW)
    assert (1, 0) == (len(first.create), len(first.delete))
    starting = pods_of(first, ready=False)
    assert [] == deployment_step(deployment(3, "two"), old + starting, NOW).delete
    ready = pods_of(first)
    assert 1 == len(deployment_step(deployment(3, "two"), old + ready, NOW).delete)


def test_an_update_gives_the_quota_of_an_old_pod_to_a_new_one_that_waits_for_it() -> None:
    old = pods_of(deployment_step(deployment(1), [], NOW))
    new = pods_of(deployment_step(deployment(1, "two"), old, NOW), ready=False, gated=True)
    step = deployment_step(deployment(1, "two"), old + new, NOW)
    assert [old[0]["metadata"]["name"]] == [each.name for each in step.delete]
    again = deployment_step(deployment(1, "two"), [deleting(old[0]), *new], NOW)
    assert ([], []) == (again.create, again.delete)


def test_recreate_waits_until_the_old_pods_are_gone() -> None:
    obj = made("Deployment", 2, strategy={"type": "Recreate"})
    changed = made("Deployment", 2, "two", strategy={"type": "Recreate"})
    old = pods_of(deployment_step(obj, [], NOW))
    step = deployment_step(changed, old, NOW)
    assert (2, 0) == (len(step.delete), len(step.create))
    assert [] == deployment_step(changed, [deleting(each) for each in old], NOW).create
    assert 2 == len(deployment_step(changed, [], NOW).create)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_pod_that_ended_is_replaced_after_a_pause(kind: str) -> None:
    rules = deployment_step if kind == "Deployment" else stateful_set_step
    obj = made(kind, 1)
    (pod,) = pods_of(rules(obj, [], NOW), phase="Failed")
    ended = {"terminated": {"finishedAt": "2027-01-15T08:00:00Z"}}
    pod["status"]["containerStatuses"] = [{"name": "c", "state": ended}]
    soon = rules(obj, [pod], NOW + 1)
    assert ([], [], NOW + 10) == (soon.create, soon.delete, soon.retry_at)
    later = rules(obj, [pod], NOW + 11)
    assert 1 == len(later.delete)


def test_a_deployment_that_was_never_rolled_out_is_left_alone_while_it_is_paused() -> None:
    step = deployment_step(made("Deployment", 2, paused=True), [], NOW)
    assert ([], []) == (step.create, step.delete)


def recorded(*revisions: tuple[str, int]) -> dict[str, Revision]:
    """The revisions with these images, oldest first, and the numbers of their pods."""
    found = {}
    for at, (image, pods) in enumerate(revisions):
        obj = deployment(1, image)
        template = obj["spec"]["template"]
        found[f"web-{template_hash(obj)}"] = Revision(template=template, number=at, pods=pods)
    return found


def images(pods: list[Json]) -> list[str]:
    return sorted(each["spec"]["containers"][0]["image"] for each in pods)


def running(*wanted: str) -> list[Json]:
    """Pods with these images."""
    return [pods_of(deployment_step(deployment(1, each), [], NOW))[0] for each in wanted]


@pytest.mark.parametrize(
    ("replicas", "revisions", "pods", "created", "deleted"),
    [
        (2, [("one", 2)], ["one"], ["one"], []),
        (2, [("one", 2)], ["one", "one"], [], []),
        (3, [("one", 2)], ["one", "one"], ["one"], []),
        (1, [("one", 2)], ["one", "one"], [], ["one"]),
        (0, [("one", 2)], ["one", "one"], [], ["one", "one"]),
        (2, [("one", 2), ("two", 1)], ["one", "two"], ["one"], []),
        (2, [("one", 1), ("two", 1)], ["one"], ["two"], []),
        (4, [("one", 1), ("two", 2)], ["one", "two", "two"], ["two"], []),
        (1, [("one", 2), ("two", 1)], ["one", "one", "two"], [], ["one"]),
        (2, [("one", 0)], [], ["one", "one"], []),
        (2, [("one", 0), ("two", 2)], ["two"], ["two"], []),
    ],
)
def test_a_paused_deployment_keeps_the_pods_of_its_revisions(
    replicas: int,
    revisions: list[tuple[str, int]],
    pods: list[str],
    created: list[str],
    deleted: list[str],
) -> None:
    obj = deployment(replicas, "three")
    obj["spec"]["paused"] = True
    step = deployment_step(obj, running(*pods), NOW, recorded(*revisions))
    assert (created, deleted) == (images(step.create), images([each.pod for each in step.delete]))
    hashes = {name.rpartition("-")[2] for name in recorded(*revisions)}
    assert {each["metadata"]["labels"]["pod-template-hash"] for each in step.create} <= hashes


def set_names(step: ReplicaStep) -> list[str]:
    return [each["metadata"]["name"] for each in step.create]


def test_the_pods_of_a_stateful_set_start_in_order() -> None:
    obj = made("StatefulSet", 2, serviceName="db")
    first = stateful_set_step(obj, [], NOW)
    assert ["web-0"] == set_names(first)
    spec, labels = first.create[0]["spec"], first.create[0]["metadata"]["labels"]
    assert ("web-0", "db", "0") == (
        spec["hostname"],
        spec["subdomain"],
        labels["apps.kubernetes.io/pod-index"],
    )
    assert [] == set_names(stateful_set_step(obj, pods_of(first, ready=False), NOW))
    assert ["web-1"] == set_names(stateful_set_step(obj, pods_of(first), NOW))
    parallel = made("StatefulSet", 2, podManagementPolicy="Parallel", ordinals={"start": 4})
    assert ["web-4", "web-5"] == set_names(stateful_set_step(parallel, [], NOW))


def complete(obj: Json) -> list[Json]:
    pods: list[Json] = []
    while made_now := pods_of(stateful_set_step(obj, pods, NOW)):
        pods += made_now
    return pods


def test_the_last_pod_of_a_stateful_set_goes_first() -> None:
    pods = complete(made("StatefulSet", 3))
    step = stateful_set_step(made("StatefulSet", 1), pods, NOW)
    assert ["web-2"] == [each.name for each in step.delete]
    going = [*pods[:2], deleting(pods[2])]
    assert [] == stateful_set_step(made("StatefulSet", 1), going, NOW).delete


def test_a_stateful_set_is_updated_pod_by_pod_from_the_last() -> None:
    pods = complete(made("StatefulSet", 2))
    changed = made("StatefulSet", 2, "two")
    step = stateful_set_step(changed, pods, NOW)
    assert ["web-1"] == [each.name for each in step.delete]
    assert step.status["currentRevision"] != "" != step.status["updateRevision"]
    fresh = pods_of(stateful_set_step(changed, pods[:1], NOW))
    assert ["web-0"] == [
        each.name for each in stateful_set_step(changed, pods[:1] + fresh, NOW).delete
    ]
    by_hand = made("StatefulSet", 2, "two", updateStrategy={"type": "OnDelete"})
    assert [] == stateful_set_step(by_hand, pods, NOW).delete
    rolling = {"rollingUpdate": {"partition": 2}}
    assert (
        []
        == stateful_set_step(
            made("StatefulSet", 2, "two", updateStrategy=rolling), pods, NOW
        ).delete
    )


def test_pods_below_the_partition_keep_the_template_of_the_current_revision() -> None:
    before = made("StatefulSet", 3, ordinals={"start": 5})
    pods = complete(before)
    current = stateful_set_step(before, pods, NOW).status["currentRevision"]
    rolling = {"rollingUpdate": {"partition": 1}}
    changed = made("StatefulSet", 3, "two", ordinals={"start": 5}, updateStrategy=rolling)
    changed["status"] = {"currentRevision": current}
    revisions = {current: Revision(template=before["spec"]["template"])}
    for gone, image in ((0, "one"), (1, "two")):
        left = [each for at, each in enumerate(pods) if at != gone]
        (pod,) = stateful_set_step(changed, left, NOW, revisions).create
        assert image == pod["spec"]["containers"][0]["image"]
        revision = pod["metadata"]["labels"]["controller-revision-hash"]
        assert (image == "one") == (revision == current)
    updated = [pods[0]]
    for name in ("web-6", "web-7"):
        fresh = stateful_set_step(changed, updated, NOW, revisions)
        updated += pods_of(fresh)
        assert [name] == [each["metadata"]["name"] for each in fresh.create]
    assert [] == stateful_set_step(changed, updated, NOW, revisions).delete
