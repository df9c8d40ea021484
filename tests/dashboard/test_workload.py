# SPDX-License-Identifier: Apache-2.0
"""Rows, timelines and details of workloads, from the objects of a running system."""

from __future__ import annotations

import msgspec

from control.objects import flavor, job, local_queue, queue, workload_class
from control.stage import Stage, run_scene
from dashboard.observed import observed_of, rows_of
from kuota.api import workload as api
from kuota.api.base import Json, Key
from kuota.api.core import AUTHOR
from kuota.dashboard.models.rows import workload_row
from kuota.dashboard.models.timeline import timeline
from kuota.dashboard.models.workload import workload_model
from kuota.dashboard.shapes import ActionName, Ref, TimelineStep, WorkloadModel, WorkloadRow
from kuota.history.job_rows import JobRow, RunRow, detailed_row
from kuota.history.records import JobRecord, recorded
from kuota.kube.resources import CORE_EVENTS
from kuota.view.observed import ObservedState
from kuota.view.plan import WhyRow
from kuota.view.workload_state import LiveState

HIGH = {"kueue.x-k8s.io/priority-class": "high"}


def _row(stage: Stage, name: str) -> WorkloadRow:
    return workload_row(stage.workload(name), observed_of(stage.api))


def _model(stage: Stage, name: str, record: JobRecord | None = None) -> WorkloadModel:
    events = stage.api.all(CORE_EVENTS)
    observed = observed_of(stage.api)
    past = None if record is None else detailed_row(record, stage.clock.now().timestamp())
    return workload_model(stage.workload(name), observed, events=events, past=past)


def _recorded(stage: Stage, name: str, known: JobRecord | None = None) -> JobRecord:
    typed = msgspec.convert(stage.workload(name), api.Workload)
    return recorded(known, typed, stage.clock.now().timestamp())


async def _preempting(stage: Stage) -> None:
    """One queue in which higher priorities preempt, and a job that holds all of it."""
    await stage.furnish(cpu=2)
    await stage.edit_queue({"preemption": {"withinClusterQueue": "LowerPriority"}})
    await stage.api.apply(workload_class("high", 100), job("low", "2"))
    await stage.rest(10)


def test_a_row_says_who_runs_where_and_since_when() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=2)
        await stage.api.apply(job("train", "2", annotations={AUTHOR: "ann"}))
        await stage.rest()
        row = _row(stage, "train")
        created = stage.workload("train")["metadata"]["creationTimestamp"]
        assert (LiveState.ADMITTED, "Job", "train", "main", "cq") == (
            *(row.state, row.kind, row.job, row.queue),
            row.cluster_queue,
        )
        assert ("2 cpu on default", ["default"], 1, 0.0) == (
            *(row.gets, row.flavors, row.pods),
            row.devices,
        )
        assert (created, "", False, "") == (row.created, row.finished, row.held, row.order)
        assert row.since == row.admitted != ""

    run_scene(scene)


def test_a_waiting_row_gives_the_reason_and_its_order() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=1)
        await stage.api.apply(job("runs"), job("waits"), job("never", "3"))
        await stage.rest()
        row = _row(stage, "waits")
        assert (LiveState.PENDING, "cq", "1 cpu") == (row.state, row.cluster_queue, row.requests)
        assert row.why
        assert row.order
        assert _row(stage, "never").way_out.startswith("request less")
        lost = job("lost", queue="absent")
        await stage.api.apply(lost)
        await stage.rest()
        assert ("", "") == (_row(stage, "lost").cluster_queue, _row(stage, "lost").order)

    run_scene(scene)


def test_an_encoded_row_omits_what_is_empty() -> None:
    row = WorkloadRow(key="a/b", namespace="a", name="b", state=LiveState.PENDING)
    assert {"key": "a/b", "namespace": "a", "name": "b", "state": "PENDING"} == (
        msgspec.to_builtins(row)
    )


def test_a_preempted_workload_refers_to_its_preemptor_and_resumes() -> None:
    async def scene(stage: Stage) -> None:
        await _preempting(stage)
        record = _recorded(stage, "low")
        await stage.api.apply(job("urgent", "2", labels=HIGH))
        await stage.rest(10)
        record = _recorded(stage, "low", record)
        urgent = stage.workload("urgent")["metadata"]["name"]
        by = Ref(kind="Workload", name=urgent, namespace="team")
        row = _row(stage, "low")
        assert (LiveState.PREEMPTED, by, "InClusterQueue") == (
            *(row.state, row.preempted_by),
            row.reason,
        )
        assert urgent not in row.why
        low = stage.workload("low")["metadata"]["name"]
        assert [Ref(kind="Workload", name=low, namespace="team")] == (
            _model(stage, "urgent").preempts
        )
        await stage.kubelet.succeed("urgent")
        await stage.rest(10)
        record = _recorded(stage, "low", record)
        await stage.kubelet.succeed("low")
        await stage.rest(10)
        record = _recorded(stage, "low", record)
        found = _model(stage, "low", record)
        steps = [each.step for each in found.timeline]
        assert TimelineStep.SUBMITTED is steps[0]
        assert TimelineStep.FINISHED is steps[-1]
        told = [
            each
            for each in steps
            if each in (TimelineStep.ADMITTED, TimelineStep.PREEMPTED, TimelineStep.RESUMED)
        ]
        assert [TimelineStep.ADMITTED, TimelineStep.PREEMPTED, TimelineStep.RESUMED] == told
        (preempted,) = [each for each in found.timeline if each.step is TimelineStep.PREEMPTED]
        assert by == preempted.by
        admitted = [each for each in found.timeline if each.step is TimelineStep.ADMITTED]
        assert ["cq"] == [each.where for each in admitted]
        times = [each.time[:19] for each in found.timeline]
        assert sorted(times) == times
        assert [] == found.actions

    run_scene(scene)


def test_the_history_names_all_preemptors_of_a_workload() -> None:
    async def scene(stage: Stage) -> None:
        await _preempting(stage)
        record = _recorded(stage, "low")
        expected = []
        for name in ("first", "second"):
            await stage.api.apply(job(name, "2", labels=HIGH))
            await stage.rest(10)
            record = _recorded(stage, "low", record)
            expected.append(stage.workload(name)["metadata"]["name"])
            await stage.kubelet.succeed(name)
            await stage.rest(10)
            record = _recorded(stage, "low", record)
        found = _model(stage, "low", record).timeline
        preempted = [each for each in found if each.step is TimelineStep.PREEMPTED]
        assert expected == [each.by.name for each in preempted if each.by is not None]

    run_scene(scene)


def test_a_timeline_needs_neither_history_nor_events() -> None:
    async def scene(stage: Stage) -> None:
        await _preempting(stage)
        await stage.api.apply(job("urgent", "2", labels=HIGH))
        await stage.rest(10)
        found = workload_model(stage.workload("low"), observed_of(stage.api))
        steps = [each.step for each in found.timeline]
        assert TimelineStep.SUBMITTED is steps[0]
        assert TimelineStep.PREEMPTED in steps
        assert TimelineStep.WAITING is steps[-1]
        assert found.timeline[-1].text.startswith("waits: ")

    run_scene(scene)


def test_a_timeline_tells_what_an_admitted_workload_waited_for() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=2)
        await stage.api.apply(job("first", "2"))
        await stage.rest(10)
        await stage.api.apply(job("second", "2"))
        await stage.rest(10)
        waits = _model(stage, "second").timeline[-1].text
        await stage.kubelet.succeed("first")
        await stage.rest(10)
        found = _model(stage, "second").timeline
        assert [TimelineStep.SUBMITTED, TimelineStep.WAITING, TimelineStep.RESERVED] == [
            each.step for each in found[:3]
        ]
        assert waits == found[1].text
        assert waits.startswith("waits: ")

    run_scene(scene)


def test_entries_of_one_second_are_in_order_although_only_events_have_fractions() -> None:
    def event(reason: str, second: str) -> Json:
        subject = {"kind": "Workload", "name": "w", "namespace": "team"}
        stamp = f"2026-01-01T00:00:{second}Z"
        return {"metadata": {"namespace": "team"}, "involvedObject": subject} | {
            "reason": reason,
            "message": reason,
            "eventTime": stamp,
        }

    def admitted(stamp: str) -> Json:
        kinds = ("QuotaReserved", "Admitted", "PodsReady")
        shared = {"status": "True", "lastTransitionTime": stamp}
        return {"conditions": [{"type": each} | shared for each in kinds]}

    now = "2026-01-01T00:00:07Z"
    workload = {
        "metadata": {"name": "w", "namespace": "team", "creationTimestamp": now},
        "spec": {},
        "status": admitted(now),
    }
    events = [
        event("WaitingForQuota", "07.100000"),
        event("WaitingForPreemptedWorkloads", "07.200000"),
        event("QuotaReserved", "07.300000"),
        event("Admitted", "07.400000"),
    ]
    expected = [
        TimelineStep.SUBMITTED,
        TimelineStep.WAITING,
        TimelineStep.RESERVED,
        TimelineStep.ADMITTED,
        TimelineStep.PODS_READY,
    ]
    found = timeline(workload, ObservedState(), events)
    assert expected == [each.step for each in found]
    assert "waits: WaitingForPreemptedWorkloads" == found[1].text
    past = JobRow("team", "Job", "w", "w", now, runs=(RunRow(now, now, "cq"),))
    without = {**workload, "status": {}}
    assert expected[:-1] == [each.step for each in timeline(without, ObservedState(), events, past)]


def test_details_show_pods_events_checks_and_choices() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=4)
        await stage.api.apply(workload_class("low", 1), workload_class("high", 100))
        await stage.api.apply(job("train", "2", parallelism=2))
        await stage.rest()
        found = _model(stage, "train")
        assert Ref(kind="Job", name="train", namespace="team") == found.job
        (pods,) = found.pod_sets
        assert ("main", 2, 2, {"cpu": "default"}, "4 cpu") == (
            *(pods.name, pods.count, pods.admitted),
            *(pods.flavors, pods.requests),
        )
        assert {"Admitted", "QuotaReserved"} <= {each.reason for each in found.events}
        latest = [each.time for each in found.events]
        assert sorted(latest, reverse=True) == latest
        assert {"QuotaReserved", "Admitted"} <= {each.type for each in found.conditions}
        assert [("high", 100), ("low", 1)] == [
            (each.name, each.value) for each in found.priority_classes
        ]
        assert [ActionName.HOLD, ActionName.SET_PRIORITY] == found.actions
        await stage.edit_workload("train", {"spec": {"active": False}})
        await stage.rest()
        held = _model(stage, "train")
        assert (True, [ActionName.RELEASE, ActionName.SET_PRIORITY]) == (
            held.row.held,
            held.actions,
        )

    run_scene(scene)


def _pod(name: str, workload: Json, **status: object) -> Json:
    owner = workload["metadata"]["ownerReferences"][0]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
        "status": status,
    }


def test_pods_and_their_failures_belong_to_the_workload() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=4)
        await stage.api.apply(job("train", backoffLimit=0))
        await stage.rest()
        workload, observed = stage.workload("train"), observed_of(stage.api)
        key = Key("team", workload["metadata"]["name"])
        assert frozenset() == observed.put(_pod("p", workload, phase="Running"))
        (pod,) = workload_model(workload, observed).pods
        assert ("p", "Running", "n1", ["c"]) == (pod.name, pod.phase, pod.node, pod.containers)
        failed = [{"name": "c", "state": {"terminated": {"exitCode": 3, "message": "no data"}}}]
        after = _pod("p", workload, phase="Failed", containerStatuses=failed)
        assert frozenset({key}) == observed.put(after)
        assert "no data" == workload_model(workload, observed).pods[0].why
        finished = {"type": "Finished", "status": "True", "reason": "Failed", "message": "failed"}
        over = workload | {"status": workload["status"] | {"conditions": [finished]}}
        observed.put(over)
        row = workload_row(over, observed)
        assert (LiveState.FAILED, "no data") == (row.state, row.why)
        assert "failed" == workload_row(over, observed, pods=False).why
        without = workload_model(over, observed, may_read_pods=False)
        assert ("failed", []) == (without.row.why, without.pods)
        assert frozenset({key}) == observed.drop("Pod", Key("team", "p"))
        assert "failed" == workload_row(over, observed).why

    run_scene(scene)


def test_changes_name_the_rows_to_render_again() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=1)
        await stage.api.apply(job("a", "2"), job("b", "2", queue="other"))
        await stage.rest()
        observed = observed_of(stage.api)
        keys = {each.job: each.key for each in rows_of(observed)}
        other = local_queue("other", "cq")
        assert {keys["b"]} == {str(each) for each in observed.put(other)}
        assert frozenset() == observed.put(other)
        assert {keys["a"], keys["b"]} == {
            str(each) for each in observed.drop("ClusterQueue", Key("", "cq"))
        }
        assert ["", ""] == [each.order for each in rows_of(observed)]
        assert {keys["a"]} == {
            str(each) for each in observed.drop("Workload", Key.parse(keys["a"]))
        }
        assert [keys["b"]] == [each.key for each in rows_of(observed)]

    run_scene(scene)


def test_a_row_without_status_and_owner_is_rendered() -> None:
    bare: Json = {
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "a"},
        "spec": {"queueName": "q", "podSets": [{"name": "main", "count": "many"}]},
    }
    observed = ObservedState.of([flavor(), queue("cq"), bare])
    row = workload_row(bare, observed)
    assert ("Workload", "w", LiveState.PENDING, 0) == (row.kind, row.job, row.state, row.pods)
    assert "" == observed.order(Key("a", "w"))
    why = WhyRow(text="because")
    model = workload_model(bare, observed, why=why, note="")
    assert why == model.explanation
    assert [TimelineStep.SUBMITTED] == [each.step for each in model.timeline]
