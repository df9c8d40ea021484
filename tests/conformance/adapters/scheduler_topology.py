# SPDX-License-Identifier: Apache-2.0
"""Scheduling cycles that place pods on nodes, and second passes."""

from __future__ import annotations

from conformance import world
from conformance.adapters.scheduler import same_events, same_sets, same_workloads
from conformance.case import Json, Run, check, same
from conformance.cluster import Cluster
from conformance.recorder import convert, whole
from conformance.registry import Exercise, suite
from kuota.api.base import Key
from kuota.api.topology_codec import expand
from kuota.api.workload import TopologyAssignment

_HEARTBEATS = "a time of the node's condition, which placement does not read"
_IGNORES = {
    "inputs.nodes.*.status.conditions.*.lastHeartbeatTime": _HEARTBEATS,
    "inputs.nodes.*.status.conditions.*.lastTransitionTime": _HEARTBEATS,
}


@suite(
    "scheduler/TestScheduleForTAS",
    exercises=Exercise.PATH,
    ignores=_IGNORES
    | {"config.secondPassClockStep": "the clock moves only if a workload needs a second pass"},
)
def topology_cycles(run: Run) -> None:
    cluster = Cluster(run)
    if cluster.engine.queues.next_wakeup() is not None:
        cluster.now += world.go_seconds(run.config["secondPassClockStep"])
    for _ in range(run.config["cycles"]):
        cluster.cycle()
    _same_outcome(run, cluster, whole(run.expected["eventCmpOpts"]) or {})


@suite(
    "scheduler/TestScheduleForTASPreemption",
    "scheduler/TestScheduleForTASCohorts",
    exercises=Exercise.PATH,
    ignores=_IGNORES
    | {"expected.eventCmpOpts": "events are compared in any order, and never by message"},
)
def topology_preemption(run: Run) -> None:
    cluster = Cluster(run)
    for _ in range(run.config["cycles"]):
        cluster.cycle()
    same_workloads(run.expected["wantWorkloads"], cluster.workloads())
    _same_outcome(run, cluster, {"ignoreOrder": True})


def _same_outcome(run: Run, cluster: Cluster, event_options: Json) -> None:
    """Compare new admissions, queues and events. Events are always compared; null means none."""
    expected = run.expected
    settled = {_name(obj) for obj in world.each(run, "workloads") if _settled(obj)}
    found = {key: value for key, value in cluster.assignments().items() if key not in settled}
    same(expected["wantNewAssignments"] or {}, found, "assignments")
    same_sets(expected["wantLeft"], cluster.left(), "left")
    same_sets(expected["wantInadmissibleLeft"], cluster.inadmissible(), "inadmissible")
    same_events(expected["wantEvents"] or [], cluster.events, event_options)


def _name(obj: Json) -> str:
    meta = whole(obj)["metadata"]
    return f"{meta.get('namespace', '')}/{meta['name']}"


def _settled(obj: Json) -> bool:
    """Whether the workload was admitted from the start, and none of its nodes has failed."""
    status = whole(obj).get("status") or {}
    true = {each["type"] for each in status.get("conditions") or () if each["status"] == "True"}
    return "Admitted" in true and not status.get("unhealthyNodes")


@suite(
    "scheduler/TestSecondPassSkipsWaitForPodsReadyBlock",
    exercises=Exercise.PATH,
    ignores=_IGNORES,
    functions={"verify": "whether pods are placed, and those of a failed node on another one"},
)
def placed_while_pods_are_unready(run: Run) -> None:
    """A second pass is not blocked by pods that are not ready, its own among them."""
    check(run.config["secondPass"], "only second passes are reproduced")
    cluster = Cluster(run)
    cluster.now += 1
    for _ in range(run.config["cycles"]):
        cluster.cycle()
    same(run.expected["statusPatches"], cluster.status_patches, ".statusPatches")
    [workload] = cluster.workloads()
    reserved = any(
        each["type"] == "QuotaReserved" and each["status"] == "True"
        for each in workload["status"]["conditions"]
    )
    same(run.expected["quotaReserved"], reserved, ".quotaReserved")
    [placed] = workload["status"]["admission"]["podSetAssignments"]
    [before] = whole(run.inputs["workloads"])
    failed = {each["name"] for each in before["status"].get("unhealthyNodes") or ()}
    topology = convert(placed["topologyAssignment"], TopologyAssignment)
    nodes = {domain.values[-1] for domain in expand(topology)}
    check(bool(nodes) and nodes.isdisjoint(failed), f"pods are placed on {nodes}")


@suite("scheduler/TestScheduleForTASWhenWorkloadModifiedConcurrently", exercises=Exercise.PATH)
def changed_meanwhile(run: Run) -> None:
    """Another client changes the Workload after the decision, so it is written to the new one."""
    check("labels" in whole(run.config)["note"], "only a change of labels is reproduced")
    cluster = Cluster(run)
    cluster.now += 1
    [changed] = whole(run.inputs["workloads"])
    changed["metadata"]["labels"] = {"test.kueue.x-k8s.io/timestamp": "now"}
    decisions = cluster.engine.cycle(cluster.now).decisions
    cluster.now -= 1
    cluster.store(changed)
    for decision in decisions:
        cluster.write(decision)
    found = [_unlabelled(each) for each in cluster.workloads()]
    same_workloads(run.expected["wantWorkloads"], found)
    same_events(run.expected["wantEvents"], cluster.events, {})


def _unlabelled(obj: Json) -> Json:
    meta = {name: value for name, value in obj["metadata"].items() if name != "labels"}
    return obj | {"metadata": meta}


@suite(
    "scheduler/TestScheduleForPreserveFlavorScanProgress",
    exercises=Exercise.PATH,
    ignores=_IGNORES | {"inputs.gateEnabled": "the gate is among the feature gates of the case"},
)
def preserved_progress(run: Run) -> None:
    """The quota of the second flavor flips after each cycle, unless the case forbids it."""
    check("flips between 5" in whole(run.config)["note"], "another sequence than that of the test")
    cluster = Cluster(run)
    [queue] = whole(run.inputs["clusterQueues"])
    second = queue["spec"]["resourceGroups"][0]["flavors"][1]["resources"][0]
    for cycle in range(run.config["cycles"]):
        cluster.cycle()
        if not run.inputs["noChurn"]:
            second["nominalQuota"] = "4" if cycle % 2 else "5"
            cluster.put(world.cluster_queue(queue))
        cluster.engine.queues.flush([queue["metadata"]["name"]], cluster.now)
    same(run.expected["wantBlockerFlavor"], _flavor(cluster, "blocker"), "blocker")
    same(run.expected["wantPendingFlavor"], _flavor(cluster, "pending"), "pending")


def _flavor(cluster: Cluster, name: str) -> str:
    """Return the flavor of a workload's only resource, or an empty string without a reservation."""
    running = cluster.engine.state.running(Key("default", name))
    if running is None or running.workload.reservation is None:
        return ""
    [pod_set] = running.workload.reservation.pod_sets
    [flavor] = pod_set.flavors.values()
    return flavor
