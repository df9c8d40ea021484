# SPDX-License-Identifier: Apache-2.0
"""Complete scheduling cycles: objects in, and objects, queues and events out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from conformance import world
from conformance.case import Difference, Json, Run, check, same
from conformance.cluster import Cluster
from conformance.recorder import whole
from conformance.registry import Exercise, suite

_IGNORED_META = ("resourceVersion",)


@suite(
    "scheduler/TestSchedule",
    "scheduler/TestScheduleForFairSharing",
    "scheduler/TestScheduleConcurrentAdmission",
    "scheduler/TestScheduleRecomputePreemptionTargets",
    "scheduler/TestSchedulerWhenWorkloadModifiedConcurrently",
    exercises=Exercise.PATH,
    ignores={
        "config.workloadListUnordered": "workloads are always compared by name",
        "expected.eventCmpOpts": "how events are compared: in which order, and never by message",
    },
)
def whole_cycles(run: Run) -> None:
    cluster = Cluster(run)
    for _ in range(int(run.config.get("cycles") or 1)):
        cluster.cycle()
    expected = run.expected
    same_workloads(expected.get("wantWorkloads"), cluster.workloads())
    if "wantAssignments" in expected:
        same(expected["wantAssignments"], cluster.assignments(), "assignments")
        same_sets(expected["wantLeft"], cluster.left(), "left")
        same_sets(expected["wantInadmissibleLeft"], cluster.inadmissible(), "inadmissible")
    same_counts(expected.get("wantSkippedPreemptions"), cluster.skipped, "skipped")
    for queue, counts in (expected.get("wantPreemptionTargetRecomputations") or {}).items():
        got = {result: n for (name, result), n in cluster.recomputed.items() if name == queue}
        same(counts, got, f"recomputed.{queue}")
    options = whole(expected.get("eventCmpOpts")) or {}
    if expected.get("wantEvents"):
        same_events(expected["wantEvents"], cluster.events, options)


@suite(
    "scheduler/TestScheduleForAFS",
    exercises=Exercise.PATH,
    ignores={
        "inputs.deleteQueue": (
            "deleted in the API server just before the cycle: neither the caches of Kueue nor the "
            "engine have heard of it"
        )
    },
)
def by_usage(run: Run) -> None:
    cluster = Cluster(run)
    for _ in range(int(run.config.get("cycles") or 1)):
        cluster.cycle()
    same_workloads(run.expected.get("wantWorkloads"), cluster.workloads())


@suite(
    "scheduler/TestLastSchedulingContext",
    exercises=Exercise.PATH,
    ignores={"config.cycles": "the sequence of the test in words, which this adapter follows"},
)
def second_chances(run: Run) -> None:
    cluster = Cluster(run)
    cluster.cycle()
    same_workloads(run.expected.get("wantWorkloads"), cluster.workloads())
    for gone in world.each(run, "deleteWorkloads"):
        cluster.delete(gone["namespace"], gone["name"])
    cluster.cycle()
    same(run.expected["wantAdmissionsOnSecondSchedule"], cluster.assignments(), "admissions")


def same_workloads(expected: Iterable[Json] | None, actual: Iterable[Json]) -> None:
    """Compare objects by name, without versions, message texts, or the order of conditions."""
    want = {_name(obj): _comparable(obj) for obj in expected or ()}
    got = {_name(obj): _comparable(obj) for obj in actual}
    same(want, got, "workloads")


def _name(obj: Json) -> str:
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"


def _comparable(obj: Json) -> Json:
    obj = whole(obj)
    meta = {k: v for k, v in obj["metadata"].items() if k not in _IGNORED_META}
    status = dict(obj.get("status") or {})
    status["conditions"] = {
        each["type"]: {k: v for k, v in each.items() if k != "message"}
        for each in status.get("conditions") or ()
    }
    status["admissionChecks"] = {
        each["name"]: {k: v for k, v in each.items() if k not in ("message", "lastTransitionTime")}
        for each in status.get("admissionChecks") or ()
    }
    return obj | {"metadata": meta, "status": status}


def same_sets(expected: Any, actual: dict[str, list[str]], at: str) -> None:
    want = {queue: sorted(keys) for queue, keys in (expected or {}).items() if keys}
    same(want, {queue: sorted(keys) for queue, keys in actual.items() if keys}, at)


def same_counts(expected: Any, actual: dict[str, int], at: str) -> None:
    for queue, count in (expected or {}).items():
        check(count == actual.get(queue, 0), f"{at}: want {queue}={count}, got {actual}")


def same_events(expected: list[Json], actual: list[Json], options: Json) -> None:
    """Texts are ours, so they never count; the order does unless the case says otherwise."""

    def bare(events: list[Json]) -> list[tuple[str, ...]]:
        fields = ("namespace", "name", "reason", "type")
        return [tuple(event[field] for field in fields) for event in events]

    want, got = bare(expected), bare(actual)
    if options.get("ignoreOrder"):
        want, got = sorted(want), sorted(got)
    if want != got:
        raise Difference(f"events: want {want}, got {got}")
