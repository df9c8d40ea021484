# SPDX-License-Identifier: Apache-2.0
"""Which queues and cohorts have to be published again after a fact."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from build import cohort, flavor, job, key, local_queue, queue, running
from kuota.engine.affected import ChangeTracker
from kuota.engine.engine import Engine
from kuota.engine.facts import AdmissionFailed, EngineObject, Fact, ObjectDeleted, ObjectStored
from kuota.engine.model import ClusterQueue, LocalQueue, ResourceFlavor, Workload
from kuota.engine.policy import Policy

NOW = 1000.0


class Names(NamedTuple):
    """What a fact concerns, by name, each sorted."""

    cluster_queues: str = ""
    local_queues: str = ""
    cohorts: str = ""


class TrackedEngine:
    """An engine that was told of two queues of one cohort, and of one that stands alone."""

    def __init__(self, *, shares: bool = False) -> None:
        self.engine = Engine(Policy(fair_sharing=() if shares else None))
        self._tracker = ChangeTracker(self.engine)
        objects: list[EngineObject] = [flavor(), cohort("eng"), queue("lone", gpu=4)]
        objects += [queue(name, gpu=4, cohort="eng") for name in ("a", "b")]
        objects += [local_queue(name) for name in ("a", "b", "lone")]
        for each in objects:
            self.stored(each)

    def stored(self, value: EngineObject) -> Names:
        return self.apply(ObjectStored(value=value))

    def apply(self, fact: Fact) -> Names:
        found = self._tracker.apply(fact, NOW)
        return Names(
            " ".join(sorted(found.cluster_queues)),
            " ".join(sorted(each.name for each in found.local_queues)),
            " ".join(sorted(found.cohorts)),
        )


def test_a_new_workload_concerns_the_queues_it_waits_in() -> None:
    assert TrackedEngine().stored(job("j", queue="a", gpu=1)) == Names("a", "a")


def test_a_workload_that_moves_concerns_the_queues_it_leaves_and_those_it_joins() -> None:
    tracked = TrackedEngine()
    tracked.stored(job("j", queue="a", gpu=1))
    assert tracked.stored(job("j", queue="lone", gpu=1)) == Names("a lone", "a lone")


def test_a_workload_that_starts_concerns_the_queue_that_it_runs_in() -> None:
    tracked = TrackedEngine()
    waiting = job("j", queue="a", gpu=1)
    tracked.stored(waiting)
    assert tracked.stored(running(waiting, "a", NOW)) == Names("a", "a")


def test_usage_changes_the_shares_of_the_cohorts_above_only_with_fair_sharing() -> None:
    started = running(job("j", queue="a", gpu=1), "a", NOW)
    assert TrackedEngine(shares=True).stored(started) == Names("a", "a", "eng")
    assert TrackedEngine().stored(started) == Names("a", "a")


def test_a_workload_that_ends_concerns_where_it_was() -> None:
    tracked = TrackedEngine()
    started = running(job("j", queue="a", gpu=1), "a", NOW)
    tracked.stored(started)
    assert tracked.stored(replace(started, finished=True)) == Names("a", "a")


def test_a_finished_workload_concerns_no_local_queue() -> None:
    over = replace(job("j", queue="a", gpu=1), finished=True)
    assert TrackedEngine().stored(over) == Names()


def test_a_workload_that_is_deleted_or_not_admitted_concerns_where_it_waits() -> None:
    tracked = TrackedEngine()
    waiting = job("j", queue="a", gpu=1)
    tracked.stored(waiting)
    assert tracked.apply(AdmissionFailed(key=waiting.key)) == Names("a", "a")
    assert tracked.apply(ObjectDeleted(kind=Workload, key=waiting.key)) == Names("a", "a")


def test_a_local_queue_concerns_its_cluster_queue_before_and_after() -> None:
    tracked = TrackedEngine()
    assert tracked.stored(local_queue("new", "a")) == Names("a", "new")
    assert tracked.stored(local_queue("new", "b")) == Names("a b", "new")
    assert tracked.apply(ObjectDeleted(kind=LocalQueue, key=key("new"))) == Names("b", "new")


def test_a_cluster_queue_concerns_its_local_queues() -> None:
    tracked = TrackedEngine()
    assert tracked.stored(queue("a", gpu=5, cohort="eng")) == Names("a", "a")
    gone = ObjectDeleted(kind=ClusterQueue, key=key("lone", ""))
    assert tracked.apply(gone) == Names("lone", "lone")


def test_quota_changes_the_shares_of_the_whole_tree_with_fair_sharing() -> None:
    tracked = TrackedEngine(shares=True)
    assert tracked.stored(queue("a", gpu=5, cohort="eng")) == Names("a b", "a", "eng")
    assert tracked.stored(cohort("eng", gpu=2)) == Names("a b", "", "eng")
    assert tracked.stored(queue("lone", gpu=5)) == Names("lone", "lone")


def test_a_cohort_concerns_itself() -> None:
    assert TrackedEngine().stored(cohort("eng", gpu=2)) == Names("", "", "eng")


def test_a_flavor_concerns_the_queues_that_name_it() -> None:
    tracked = TrackedEngine()
    assert tracked.stored(flavor(labels={"gpu": "h100"})) == Names("a b lone", "a b lone")
    gone = ObjectDeleted(kind=ResourceFlavor, key=key("default", ""))
    assert tracked.apply(gone) == Names("a b lone", "a b lone")
    assert tracked.stored(flavor("other")) == Names()


def test_an_unchanged_object_affects_no_queue() -> None:
    tracked = TrackedEngine(shares=True)
    assert tracked.stored(queue("a", gpu=4, cohort="eng")) == Names()
    assert tracked.stored(local_queue("a")) == Names()
    assert tracked.stored(cohort("eng")) == Names()
    assert tracked.stored(flavor()) == Names()


def test_an_unchanged_pending_workload_affects_no_queue() -> None:
    tracked = TrackedEngine()
    tracked.stored(job("j", queue="a", gpu=9))
    assert tracked.stored(job("j", queue="a", gpu=9)) == Names()
    assert tracked.stored(job("j", queue="a", gpu=9, priority=1)) == Names("a", "a")


def test_every_step_of_a_workload_concerns_the_queues_that_count_it() -> None:
    tracked = TrackedEngine()
    waits = job("j", queue="a", gpu=1)
    holds = running(waits, "a", NOW)
    for step in (waits, replace(holds, admitted=False), holds, replace(holds, finished=True)):
        assert tracked.stored(step) == Names("a", "a")
