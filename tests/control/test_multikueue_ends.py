# SPDX-License-Identifier: Apache-2.0
"""The rules of MultiKueue about copies that have finished."""

from __future__ import annotations

import pytest

from control.multikueue_groups import (
    EARLIER,
    EMPTY,
    T,
    check_after,
    deleted,
    job,
    local,
    plan,
    remote,
    remote_job,
    status_after,
    true,
)
from kuota.api.base import Json
from kuota.bridge.effects import Event, StatusPatch
from kuota.control.checks.multikueue.identity import RESERVATION


def test_the_end_of_a_copy_ends_the_workload_after_the_status_of_the_job() -> None:
    stored = local(true("Admitted"), check="Ready", clusterName="a")
    over = [{"type": "Complete", "status": "True"}]
    there = remote(true("Finished", "Succeeded"), job=remote_job(succeeded=1, conditions=over))
    fields: Json = {"jobs": (job(suspend=False),), "remotes": {"a": there}}
    unsure = plan(stored, **fields)
    assert (unsure.confirm, unsure.first) == ("a", ())
    found = plan(stored, **fields, confirmed="a")
    kinds = [each.kind for each in found.first if isinstance(each, StatusPatch)]
    assert kinds == ["Job.batch", "Workload"]
    finished = status_after(found, stored)["conditions"][-1]
    assert (finished["type"], finished["reason"]) == ("Finished", "Succeeded")


def test_the_end_of_another_copy_changes_nothing() -> None:
    stored = local(true("Admitted"), check="Ready", clusterName="a")
    failed = remote(true("Finished", "Failed", at=EARLIER), job=remote_job())
    remotes = {"a": remote(true("Admitted"), job=remote_job()), "b": failed}
    found = plan(stored, remotes=remotes, confirmed="b")
    assert check_after(found, stored) == "Ready"
    assert deleted(found, "b") == ["Job.batch", "Workload"]
    assert found.confirm == ""


@pytest.mark.parametrize("reason", ["OutOfSync", "OwnerNotFound"])
def test_a_copy_that_lost_its_job_is_dispatched_again(reason: str) -> None:
    stored = local(true("Admitted"), check="Ready", clusterName="a")
    found = plan(stored, remotes={"a": remote(true("Finished", reason))})
    assert check_after(found, stored) == "Retry"
    assert any(isinstance(each, Event) and each.warning for each in found.first)
    # The next pass, while the Workload is being evicted, lets its quota go.
    evicted = local(true("Evicted"))
    running = (job(active=1),)
    found = plan(evicted, jobs=running, remotes={"a": remote(true("Finished", reason))})
    patched = [each for each in found.first if isinstance(each, StatusPatch)]
    assert [(each.kind, each.status) for each in patched] == [("Job.batch", {"active": None})]


def test_a_finished_copy_without_its_job_does_not_end_the_workload() -> None:
    over = remote(true("Finished", "Succeeded"))
    stored = local(nominatedClusterNames=["a", "b"])
    left = plan(stored, remotes={"a": over, "b": EMPTY}, confirmed="a")
    assert deleted(left, "a") == ["Workload"], "the rest of an earlier dispatch"
    assert left.dispatched == ("a", "b")
    running = local(true("Admitted"), check="Ready", clusterName="a")
    found = plan(running, remotes={"a": over, "b": EMPTY}, confirmed="a")
    assert check_after(found, running) == "Retry"
    assert not [each for each in status_after(found, running)["conditions"] if _is_end(each)]


def _is_end(condition: Json) -> bool:
    return bool(condition["type"] == "Finished")


def test_a_failed_copy_of_an_earlier_dispatch_is_replaced() -> None:
    stored = local(nominatedClusterNames=["a", "b"])
    earlier = {"metadata": {"annotations": {RESERVATION: EARLIER}}}
    failed = remote(true("Finished", "Failed"), job=remote_job(), **earlier)
    found = plan(stored, remotes={"a": failed, "b": EMPTY})
    assert deleted(found, "a") == ["Job.batch", "Workload"]
    assert found.dispatched == ("a", "b")
    assert not found.confirm


@pytest.mark.parametrize("notes", [{}, {RESERVATION: T}], ids=["Kueue's", "current"])
def test_a_failed_copy_of_the_current_dispatch_ends_the_job(notes: Json) -> None:
    stored = local(nominatedClusterNames=["a", "b"])
    failed = remote(true("Finished", "Failed"), job=remote_job(), metadata={"annotations": notes})
    assert plan(stored, remotes={"a": failed, "b": EMPTY}).confirm == "a"


def test_a_completed_copy_of_an_earlier_dispatch_ends_the_job() -> None:
    stored = local(nominatedClusterNames=["a", "b"])
    earlier = {"metadata": {"annotations": {RESERVATION: EARLIER}}}
    completed = remote(true("Finished", "Succeeded"), job=remote_job(), **earlier)
    assert plan(stored, remotes={"a": completed, "b": EMPTY}).confirm == "a"


def test_a_copy_without_its_job_does_not_keep_other_clusters_from_winning() -> None:
    stored = local(nominatedClusterNames=["a", "b"])
    remotes = {"a": remote(true("Finished", "OutOfSync")), "b": remote(true("Admitted"))}
    found = plan(stored, remotes=remotes)
    assert status_after(found, stored)["clusterName"] == "b"
    assert deleted(plan(local(clusterName="b"), remotes=remotes), "a") == ["Workload"]
