# SPDX-License-Identifier: Apache-2.0
"""Suites on elastic Workloads: counts of pod sets, and the chain of slices."""

from __future__ import annotations

from conformance import world
from conformance.case import Json, Run, check, same
from conformance.recorder import convert, whole
from conformance.registry import suite
from kuota.api.rules.metadata import elastic
from kuota.api.rules.workload_status import pod_set_counts
from kuota.api.workload import Workload
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.inbound_workload import replaces
from kuota.bridge.job_pass.slices import (
    fewer,
    latest_active,
    normalized,
    resized,
    scaled_down,
    unfinished,
)
from kuota.engine import model
from kuota.engine.nominate import replaced_slice
from kuota.engine.snapshot import ChargedWorkload, Queue
from kuota.engine.tree import QuotaTree
from kuota.engine.usage import NO_USAGE


@suite("workload/workload-TestExtractPodSetCounts")
def counts(run: Run) -> None:
    obj = {"spec": {"podSets": whole(run.inputs["args"].get("podSets"))}}
    same(run.expected["want"], pod_set_counts(obj))


@suite("workload/workload-TestExtractPodSetCountsFromWorkload")
def workload_counts(run: Run) -> None:
    same(run.expected["want"], pod_set_counts(whole(run.inputs["args"]["workload"])))


@suite("workload/workload-TestApplyPodSetCounts")
def counts_applied(run: Run) -> None:
    args = whole(run.inputs["args"])
    obj, counts = args["wl"], args.get("counts") or {}
    after = obj["spec"] | {"podSets": resized(obj["spec"].get("podSets"), counts)}
    same(run.expected["want"], obj | {"spec": after})


@suite("workload/workload-TestPodSetsCounts_HasFewerReplicasThan")
def has_fewer(run: Run) -> None:
    args = whole(run.inputs.get("args")) or {}
    same(run.expected["want"], fewer(whole(run.inputs.get("c")) or {}, args.get("in") or {}))


@suite("workload/workloadslicing-TestScaledDown")
def shrinks(run: Run) -> None:
    args = whole(run.inputs["args"])
    found = scaled_down(args.get("oldCounts") or {}, args.get("newCounts") or {})
    same(run.expected["want"], found)


@suite("workload/workloadslicing-TestFindLatestActiveWorkload")
def active(run: Run) -> None:
    found = latest_active(_stored(run))
    same(run.expected["want"], found.key.name if found is not None else "")


@suite("workload/workloadslicing-TestNormalizeActiveSlices")
def chain(run: Run) -> None:
    found = normalized(unfinished(_stored(run)))
    want = whole(run.expected["want"])
    check(not want["error"], "this never fails")
    selected, charged = found.selected, found.charged
    same(want["survivor"], selected.key.name if selected is not None else "")
    kept = charged if charged is not selected else None
    same(want["keptAdmitted"], kept.key.name if kept is not None else "")


def _stored(run: Run) -> list[StoredWorkload]:
    return [StoredWorkload.of(each) for each in whole(run.inputs.get("workloads")) or ()]


@suite("workload/workloadslicing-TestEnabled")
def enabled(run: Run) -> None:
    record = whole(run.inputs["args"].get("object"))
    same(run.expected["want"], elastic(record or {}, world.gates_of(run)))


@suite("workload/workloadslicing-TestPreemptibleSliceKey")
def replaced_key(run: Run) -> None:
    key = replaces(convert(run.inputs["args"]["wl"], Workload))
    same(run.expected["want"], str(key) if key is not None else None)


@suite(
    "workload/workloadslicing-TestReplacedWorkloadSlice",
    ignores={
        "expected.want.**.schedulingHash": "the value of Kueue's own hash function",
        "expected.want.targets.*.reason": "empty: a slice that is replaced is not preempted",
        "expected.want.**.apiVersion": "the engine's workloads have none",
        "expected.want.**.kind": "the engine's workloads have none",
        "expected.want.**.template": "the engine counts pods; these ask for nothing",
    },
)
def replaced(run: Run) -> None:
    record, snapshot = (whole(run.inputs["args"].get(name)) or {} for name in ("wl", "snap"))
    gates = world.gates_of(run)
    queues = snapshot.get("clusterQueues") or {}
    found = None
    if record and record.get("clusterQueue") in queues:
        wanted = world.workload(record["workload"], gates)
        queue = _queue(record["clusterQueue"], queues[record["clusterQueue"]])
        found = replaced_slice(wanted, queue)
    want, targets = run.expected["want"], whole(run.expected["want"].get("targets")) or ()
    for each in (whole(want.get("wl")), *(each["workloadInfo"] for each in targets)):
        old = world.workload(each["workload"]) if each else None
        check(old == (found.workload if found else None), f"want {old}, got {found}")


def _queue(name: str, record: Json) -> Queue:
    """A queue whose workloads hold quota, as all workloads of a snapshot do."""
    queue = Queue(model.ClusterQueue(name=name), QuotaTree().put_queue(name, "", (), 1.0))
    for each in (record.get("workloads") or {}).values():
        running = ChargedWorkload(world.workload(each["workload"]), name, NO_USAGE)
        queue.running[running.key] = running
    return queue
