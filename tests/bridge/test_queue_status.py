# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from bridge.objects import NOON, at
from build import job, running
from kuota.api import kueue
from kuota.api.base import Json, Key
from kuota.api.merge_patch import merged
from kuota.bridge import inbound
from kuota.bridge.queue_status import (
    cluster_queue_patch,
    cohort_patch,
    local_queue_patch,
    wanted_finalizers,
)
from kuota.engine.charged import ChargedWorkloads
from kuota.engine.engine import Engine
from kuota.engine.facts import ObjectStored
from kuota.engine.policy import AdmissionFairSharing, Policy

HELD = "kueue.x-k8s.io/resource-in-use"
HISTORY = AdmissionFairSharing(half_life_s=600.0, sampling_s=300.0)


def _queue(**spec: Any) -> kueue.ClusterQueue:
    flavors = [{"name": "a100", "resources": [{"name": "gpu", "nominalQuota": "8"}]}]
    groups = [{"coveredResources": ["gpu"], "flavors": flavors}]
    record = {
        "metadata": {"name": "cq", "generation": 2},
        "spec": {"resourceGroups": groups, **spec},
    }
    return msgspec.convert(record, kueue.ClusterQueue)


def _local(status: Json | None = None, **spec: Any) -> kueue.LocalQueue:
    meta = {"name": "main", "namespace": "ml", "generation": 1}
    record = {"metadata": meta, "spec": {"clusterQueue": "cq", **spec}, "status": status or {}}
    return msgspec.convert(record, kueue.LocalQueue)


def _engine(policy: Policy | None, *objects: Any) -> Engine:
    engine = Engine(policy or Policy())
    read: dict[type[Any], Any] = {
        kueue.ClusterQueue: inbound.cluster_queue,
        kueue.LocalQueue: inbound.local_queue,
        kueue.Cohort: inbound.cohort,
        kueue.ResourceFlavor: inbound.flavor,
    }
    for each in objects:
        engine.apply(ObjectStored(value=read[type(each)](each)), NOON)
    return engine


FLAVOR = msgspec.convert({"metadata": {"name": "a100"}}, kueue.ResourceFlavor)


def test_a_new_queue_says_everything_and_then_nothing() -> None:
    queue = _queue()
    engine = _engine(None, FLAVOR, queue)
    status = cluster_queue_patch(engine, queue, {}, NOON)
    assert 0 == status["pendingWorkloads"]
    assert [("Active", "True", "Ready")] == _claims(status)
    again = msgspec.convert(msgspec.to_builtins(queue) | {"status": status}, kueue.ClusterQueue)
    assert {} == cluster_queue_patch(engine, again, status, NOON + 60)


def test_a_queue_without_its_flavor_is_not_active() -> None:
    queue = _queue()
    status = cluster_queue_patch(_engine(None, queue), queue, {}, NOON)
    assert [("Active", "False", "FlavorNotFound")] == _claims(status)


def test_a_queue_that_matches_no_namespace_says_so_and_stays_active_as_in_kueue() -> None:
    queue, local = _queue(), _local()
    engine = _engine(None, FLAVOR, queue, local)
    for status in (
        cluster_queue_patch(engine, queue, {}, NOON),
        local_queue_patch(engine, local, {}, NOON),
    ):
        assert [("Active", "True", "Ready")] == _claims(status)
        assert "namespaceSelector of the ClusterQueue is not set" in _message(status)
    everything = _queue(namespaceSelector={})
    status = cluster_queue_patch(_engine(None, FLAVOR, everything), everything, {}, NOON)
    assert "Can admit new workloads" == _message(status)


def _message(status: Json) -> str:
    return str(status["conditions"][0]["message"])


def _claims(status: Json) -> list[tuple[str, str, str]]:
    return [(each["type"], each["status"], each["reason"]) for each in status["conditions"]]


def test_a_local_queue_follows_its_cluster_queue() -> None:
    local = _local()
    status = local_queue_patch(_engine(None, local), local, {}, NOON)
    assert [("Active", "False", "ClusterQueueDoesNotExist")] == _claims(status)
    status = local_queue_patch(_engine(None, local, _queue()), local, {}, NOON)
    assert [("Active", "False", "ClusterQueueIsInactive")] == _claims(status)
    stopped = _local(stopPolicy="Hold")
    status = local_queue_patch(_engine(None, stopped, FLAVOR, _queue()), stopped, {}, NOON)
    assert [("Active", "False", "Stopped")] == _claims(status)


def test_a_local_queue_whose_cluster_queue_is_gone_uses_nothing() -> None:
    local = _local()
    here = _engine(None, FLAVOR, _queue(), local)
    stored = merged(
        local_queue_patch(here, local, {}, NOON), {"reservingWorkloads": 2, "admittedWorkloads": 1}
    )
    gone = _engine(None, FLAVOR, local)
    found = merged(stored, local_queue_patch(gone, local, stored, NOON))
    counts = {name: found.get(name) for name in stored if name != "conditions"}
    assert {
        "pendingWorkloads": 0,
        "reservingWorkloads": 0,
        "admittedWorkloads": 0,
        "flavorsReservation": None,
        "flavorsUsage": None,
    } == counts
    assert {} == local_queue_patch(gone, _local(found), found, NOON)


class _Uncounted(ChargedWorkloads):
    """A roster that may be asked for totals and not for every workload."""

    def values(self) -> Any:
        raise AssertionError("looks at every workload that runs")

    items = __iter__ = values


def test_the_pass_over_a_queue_does_not_look_at_what_runs_in_it() -> None:
    queue, local = _queue(), _local()
    engine = _engine(None, FLAVOR, queue, local)
    for number in range(3):
        waits = replace(job(f"w{number}", queue="main", gpu=2), key=Key("ml", f"w{number}"))
        given = running(waits, "cq", NOON, "a100")
        engine.apply(ObjectStored(value=given), NOON)
    known = engine.state.queues["cq"]
    uncounted = _Uncounted()
    for key in list(known.running):
        uncounted[key] = known.running[key]
    known.running = uncounted
    for patch in (
        local_queue_patch(engine, local, {}, NOON),
        cluster_queue_patch(engine, queue, {}, NOON),
    ):
        assert (3, 3) == (patch["reservingWorkloads"], patch["admittedWorkloads"])
        (used,) = patch["flavorsUsage"][0]["resources"]
        assert "6" == used["total"]


def test_use_is_written_when_it_is_sampled_and_only_then() -> None:
    local = _local()
    engine = _engine(Policy(admission_fair_sharing=HISTORY), FLAVOR, _queue(), local)
    assert "fairSharing" not in local_queue_patch(engine, local, {}, NOON)
    engine.sample(NOON)
    status = merged({}, local_queue_patch(engine, local, {}, NOON))
    history = status["fairSharing"]["admissionFairSharingStatus"]
    assert {"consumedResources": {"gpu": "0"}, "lastUpdate": at(0)} == history
    engine.sample(NOON + 300)
    assert {} == local_queue_patch(engine, _local(status), status, NOON + 300)
    usage = engine.usage_tracker.consumed_usage
    assert usage is not None
    usage.push(local.key, Key("ml", "w"), {"gpu": 4})
    usage.apply_penalty(local.key, Key("ml", "w"), {}, NOON + 300)
    assert {} == local_queue_patch(engine, _local(status), status, NOON + 300)
    engine.sample(NOON + 600)
    patch = local_queue_patch(engine, _local(status), status, NOON + 600)
    changed = patch["fairSharing"]["admissionFairSharingStatus"]
    assert {"consumedResources": {"gpu": "828427124n"}, "lastUpdate": at(600)} == changed


@pytest.mark.parametrize(
    ("local", "others"),
    [
        (_local(), (FLAVOR,)),
        (_local(), (_queue(),)),
        (_local(stopPolicy="Hold"), (FLAVOR, _queue())),
    ],
)
def test_the_use_of_an_inactive_queue_is_not_sampled(
    local: kueue.LocalQueue, others: tuple[Any, ...]
) -> None:
    engine = _engine(Policy(admission_fair_sharing=HISTORY), *others, local)
    assert 300 == engine.sample(NOON)
    assert "fairSharing" not in local_queue_patch(engine, local, {}, NOON)


def test_use_that_was_written_down_is_taken_up_once() -> None:
    sampled = {"consumedResources": {"gpu": "2"}, "lastUpdate": at(-600)}
    status = {"fairSharing": {"weightedShare": 0, "admissionFairSharingStatus": sampled}}
    local = _local(status)
    engine = _engine(Policy(admission_fair_sharing=HISTORY), FLAVOR, _queue(), local, local)
    assert 2.0 == engine.usage_tracker.usage(local.key)
    assert "fairSharing" not in local_queue_patch(engine, local, status, NOON)


def test_without_fair_sharing_nothing_is_said_of_it() -> None:
    local = _local()
    engine = _engine(None, FLAVOR, _queue(cohortName="all"), local)
    assert "fairSharing" not in local_queue_patch(engine, local, {}, NOON)
    assert {} == cohort_patch(engine, "all", {})


def test_a_cohort_says_its_share_where_shares_count() -> None:
    engine = _engine(Policy(fair_sharing=()), FLAVOR, _queue(cohortName="all"))
    patch = cohort_patch(engine, "all", {})
    assert {"fairSharing": {"weightedShare": 0}} == patch
    assert {} == cohort_patch(engine, "all", patch)


def test_a_finalizer_is_added_once_and_removed_when_the_object_is_unused() -> None:
    assert ["x", HELD] == wanted_finalizers(["x"], deleting=False, in_use=False)
    assert wanted_finalizers([HELD], deleting=False, in_use=False) is None
    assert wanted_finalizers([HELD], deleting=True, in_use=True) is None
    assert ["x"] == wanted_finalizers(["x", HELD], deleting=True, in_use=False)
    assert wanted_finalizers([], deleting=True, in_use=False) is None
