# SPDX-License-Identifier: Apache-2.0
"""Feeds the suites on elastic workloads: counts of pod sets and the chain of slices."""

from __future__ import annotations

from msgspec import convert, to_builtins

from conformance import world
from conformance.case import Json, Run, same
from conformance.registry import suite
from kuota.api.base import Object
from kuota.api.workload import PodSet, Workload
from kuota.bridge.slices import (
    counts,
    elastic,
    fewer,
    latest_active,
    live_slices,
    replaces,
    resized,
    scaled_down,
)
from kuota.engine import model
from kuota.engine.nominate import replaced_slice
from kuota.engine.snapshot import Queue, Running
from kuota.engine.tree import Tree


@suite("workload/workload-TestExtractPodSetCounts")
def pod_set_counts(run: Run) -> None:
    pod_sets = convert(run.inputs["args"].get("podSets") or [], list[PodSet])
    same(run.expected["want"], counts(pod_sets))


@suite("workload/workload-TestExtractPodSetCountsFromWorkload")
def workload_counts(run: Run) -> None:
    obj = convert(run.inputs["args"]["workload"], Workload)
    same(run.expected["want"], counts(obj.spec.pod_sets))


@suite("workload/workload-TestApplyPodSetCounts")
def counts_applied(run: Run) -> None:
    obj = convert(run.inputs["args"]["wl"], Workload)
    found = resized(obj, run.inputs["args"].get("counts") or {})
    same(to_builtins(convert(run.expected["want"], Workload)), to_builtins(found))


@suite("workload/workload-TestPodSetsCounts_HasFewerReplicasThan")
def fewer_replicas(run: Run) -> None:
    others = run.inputs["args"].get("in") or {}
    same(run.expected["want"], fewer(run.inputs.get("c") or {}, others))


@suite("workload/workloadslicing-TestScaledDown")
def shrunk(run: Run) -> None:
    old, new = (run.inputs["args"].get(name) or {} for name in ("oldCounts", "newCounts"))
    same(run.expected["want"], scaled_down(old, new))


@suite("workload/workloadslicing-TestEnabled")
def enabled(run: Run) -> None:
    record = run.inputs["args"].get("object")
    meta = convert(record, Object).metadata if record else None
    same(run.expected["want"], elastic(meta, world.gates_of(run)))


@suite("workload/workloadslicing-TestPreemptibleSliceKey")
def replaced_key(run: Run) -> None:
    key = replaces(convert(run.inputs["args"]["wl"], Workload))
    same(run.expected["want"], str(key) if key is not None else None)


@suite("workload/workloadslicing-TestFindLatestActiveWorkload")
def latest(run: Run) -> None:
    found = latest_active(_workloads(run))
    same(run.expected["want"], found.metadata.name if found is not None else "")


@suite("workload/workloadslicing-TestNormalizeActiveSlices")
def normalized(run: Run) -> None:
    live = live_slices(_workloads(run))
    found = {
        "survivor": live.selected.metadata.name if live.selected is not None else "",
        "keptAdmitted": live.running.metadata.name if live.running is not None else "",
    }
    same({name: run.expected["want"][name] for name in found}, found)


@suite("workload/workloadslicing-TestReplacedWorkloadSlice")
def replaced(run: Run) -> None:
    record, snapshot = (run.inputs["args"].get(name) or {} for name in ("wl", "snap"))
    queues = snapshot.get("clusterQueues") or {}
    found = None
    if record and record.get("clusterQueue") in queues:
        wanted = world.workload(record["workload"], world.gates_of(run))
        queue = _queue(record["clusterQueue"], queues[record["clusterQueue"]])
        found = replaced_slice(wanted, queue)
    same(_names(run.expected["want"]), found and [found.key.namespace, found.key.name])


def _queue(name: str, record: Json) -> Queue:
    """A queue whose workloads hold quota, as all workloads of a snapshot do."""
    queue = Queue(model.ClusterQueue(name=name), Tree().put_queue(name, "", (), 1.0))
    for each in (record.get("workloads") or {}).values():
        running = Running(world.workload(each["workload"]), name, {})
        queue.running[running.key] = running
    return queue


def _names(want: Json) -> list[str] | None:
    if not want.get("wl"):
        return None
    meta = want["wl"]["workload"]["metadata"]
    return [meta["namespace"], meta["name"]]


def _workloads(run: Run) -> list[Workload]:
    return convert(run.inputs.get("workloads") or [], list[Workload])
