# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from kuota.api.base import Json, Key
from kuota.api.gates import Gates
from kuota.bridge.jobs.ancestor import (
    DEEPEST,
    JOB,
    GroupKind,
    NestingError,
    NestingTooDeep,
    OwnerNotFound,
    Owners,
    ancestor,
    owners_of,
)
from kuota.bridge.jobs.job_webhook import waits_for_quota
from kuota.bridge.jobs.registry import JOB as JOB_KIND
from kuota.bridge.lifecycle_view import LifecycleConfig

QUEUED = {"kueue.x-k8s.io/queue-name": "main"}


def _job(name: str, owner: str = "", labels: dict[str, str] | None = None, **meta: object) -> Json:
    """A job whose owner, if any, is the job of that name. Uids are names."""
    ref = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": owner, "controller": True}
    owners = [ref] if owner else []
    return {
        "metadata": {"name": name, "uid": name, "labels": labels, "ownerReferences": owners, **meta}
    }


class _Jobs:
    def __init__(self, *jobs: Json) -> None:
        self._jobs = {each["metadata"]["name"]: each for each in jobs}

    def __call__(self, kind: tuple[str, str], key: Key) -> Json | None:
        return self._jobs.get(key.name)


def _name(found: tuple[GroupKind, Json] | None) -> str:
    return str(found[1]["metadata"]["name"]) if found is not None else ""


def test_the_topmost_owner_with_a_queue_is_the_one() -> None:
    jobs = _Jobs(_job("top", labels=QUEUED), _job("middle", "top", QUEUED))
    found = ancestor(_job("child", "middle"), Owners(), jobs, manage_all=False)
    assert "top" == _name(found)


def test_owners_without_a_queue_count_only_when_all_jobs_are_managed() -> None:
    jobs = _Jobs(_job("top"), _job("middle", "top", QUEUED))
    child = _job("child", "middle")
    found = [_name(ancestor(child, Owners(), jobs, manage_all=each)) for each in (False, True)]
    assert ["middle", "top"] == found


def test_kinds_that_are_switched_off_are_followed_but_not_chosen() -> None:
    owners = owners_of(["jobset.x-k8s.io/jobset"])
    jobs = _Jobs(_job("top", labels=QUEUED))
    assert ancestor(_job("child", "top"), owners, jobs, manage_all=True) is None


def test_kinds_that_cannot_be_looked_up_end_the_way_up() -> None:
    owners = owners_of(["batch/job"]).following([])
    assert ancestor(_job("child", "missing"), owners, _Jobs(), manage_all=True) is None


def test_an_owner_of_another_uid_is_no_owner() -> None:
    imposter = _job("top", labels=QUEUED)
    imposter["metadata"]["uid"] = "another"
    assert ancestor(_job("child", "top"), Owners(), _Jobs(imposter), manage_all=True) is None


def test_an_owner_that_is_missing_is_an_error() -> None:
    with pytest.raises(OwnerNotFound):
        ancestor(_job("child", "gone"), Owners(), _Jobs(), manage_all=False)


def test_owners_that_own_each_other_are_an_error() -> None:
    with pytest.raises(NestingError):
        ancestor(_job("a", "b"), Owners(), _Jobs(_job("a", "b"), _job("b", "a")), manage_all=False)


@pytest.mark.parametrize("depth", [DEEPEST, DEEPEST + 1])
def test_ten_owners_are_followed_and_no_more(depth: int) -> None:
    chain = [_job("0", labels=QUEUED), *(_job(str(n), str(n - 1)) for n in range(1, depth))]
    child = _job("child", str(depth - 1))
    if depth > DEEPEST:
        with pytest.raises(NestingTooDeep):
            ancestor(child, Owners(), _Jobs(*chain), manage_all=False)
    else:
        assert "0" == _name(ancestor(child, Owners(), _Jobs(*chain), manage_all=False))


def test_external_kinds_may_own_jobs_too() -> None:
    owners = owners_of(["batch/job"], ["CronJob.v1.batch", "nonsense"])
    assert ("batch", "CronJob") in owners.followed & owners.managed
    assert JOB in owners.managed


def test_a_job_that_is_being_deleted_may_have_outlived_its_owner() -> None:
    leaving = _job("child", "gone", QUEUED, deletionTimestamp="2026-01-02T12:00:00Z")
    assert not waits_for_quota(JOB_KIND, leaving, _Jobs(), LifecycleConfig())
    gates = Gates.of({"SkipAncestorCheckForDeletedWorkloads": False}, check=False)
    with pytest.raises(OwnerNotFound):
        waits_for_quota(JOB_KIND, leaving, _Jobs(), LifecycleConfig(gates=gates))


def test_a_job_that_is_being_deleted_is_not_suspended() -> None:
    leaving = _job("child", "top", QUEUED, deletionTimestamp="2026-01-02T12:00:00Z")
    assert not waits_for_quota(JOB_KIND, leaving, _Jobs(_job("top")), LifecycleConfig())
