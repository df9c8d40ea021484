# SPDX-License-Identifier: Apache-2.0
"""Converts recorded objects to engine values, for all adapters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kuota.api import core, kueue
from kuota.api.config.duration import Duration
from kuota.api.core import LimitRange, Namespace, RuntimeClass
from kuota.api.gates import Gates
from kuota.api.topology_codec import AssignedDomain
from kuota.api.workload import Workload
from kuota.bridge import inbound, inbound_nodes
from kuota.bridge.inbound_workload import AccountingContext
from kuota.bridge.inbound_workload import workload as inbound_workload
from kuota.engine import model
from kuota.engine.node_placement import NodePlacement
from kuota.engine.policy import AdmissionFairSharing, Policy
from kuota.engine.snapshot import ChargedWorkload, Queue, Snapshot
from kuota.engine.topology.assignment import LeafAssignment
from kuota.engine.topology.cluster import ClusterCapacity
from kuota.engine.tree import QuotaTree, charge
from kuota.engine.usage import usage_of

from .case import Json, Run
from .recorder import convert, whole


def gates_of(run: Run) -> Gates:
    return Gates.of(whole(run.gates), check=False)


def policy_of(run: Run) -> Policy:
    """The settings of a run: its gates, and the knobs under `config`."""
    fair = run.config.get("fairSharing") or {}
    history = run.config.get("admissionFairSharing")
    ready = run.config.get("waitForPodsReady") or {}
    strategies = tuple(fair.get("preemptionStrategies") or ())
    return Policy(
        gates=gates_of(run),
        fair_sharing=strategies if fair.get("enabled") else None,
        admission_fair_sharing=_history(history) if history else None,
        ignore_undeclared=run.config.get("quotaCheckStrategy") == "IgnoreUndeclared",
        by_eviction=_requeuing_timestamp(run) != "Creation",
        block_until_ready=bool(ready.get("enable") and ready.get("blockAdmission")),
    )


def _requeuing_timestamp(run: Run) -> str:
    """Which time a workload whose pods were not ready is ordered by; empty for the default.

    Some records have it among their settings, some among their inputs.
    """
    given = run.inputs.get("workloadOrdering") or {}
    named = given.get("podsReadyRequeuingTimestamp")
    return str(named or run.config.get("podsReadyRequeuingTimestamp") or "")


def _history(config: Json) -> AdmissionFairSharing:
    return AdmissionFairSharing(
        half_life_s=go_seconds(config.get("usageHalfLifeTime", "0s")),
        sampling_s=go_seconds(config.get("usageSamplingInterval", "5m")),
        resource_weights={
            name: float(weight) for name, weight in (config.get("resourceWeights") or {}).items()
        },
    )


def go_seconds(text: str) -> float:
    """A Go duration such as 1m30s or 500ms."""
    return Duration.parse(text).seconds


def cluster_queue(obj: Json) -> model.ClusterQueue:
    return inbound.cluster_queue(convert(obj, kueue.ClusterQueue))


def cohort(obj: Json) -> model.Cohort:
    return inbound.cohort(convert(obj, kueue.Cohort))


def local_queue(obj: Json) -> model.LocalQueue:
    return inbound.local_queue(convert(obj, kueue.LocalQueue))


def flavor(obj: Json) -> model.ResourceFlavor:
    return inbound.flavor(convert(obj, kueue.ResourceFlavor))


def topology(obj: Json) -> model.Topology:
    return inbound.topology(convert(obj, kueue.Topology))


def admission_check(obj: Json) -> model.AdmissionCheck:
    return inbound.admission_check(convert(obj, kueue.AdmissionCheck))


def namespace(obj: Json) -> model.Namespace:
    return inbound.namespace(convert(obj, Namespace))


def workload(obj: Json, gates: Gates | None = None) -> model.Workload:
    intake = AccountingContext(gates=gates) if gates is not None else AccountingContext()
    return inbound_workload(convert(obj, Workload), intake)


def accounting_of(objects: Iterable[Json], gates: Gates) -> AccountingContext:
    """How pods are counted among these objects: LimitRanges and RuntimeClasses change requests."""
    ranges: dict[str, list[LimitRange]] = {}
    classes: dict[str, RuntimeClass] = {}
    for obj in objects:
        if obj["kind"] == "LimitRange":
            found = convert(obj, LimitRange)
            ranges.setdefault(found.metadata.namespace, []).append(found)
        elif obj["kind"] == "RuntimeClass":
            classes[obj["metadata"]["name"]] = convert(obj, RuntimeClass)
    return AccountingContext(gates=gates, limit_ranges=ranges, runtime_classes=classes)


def each(run: Run, name: str) -> Iterable[Any]:
    return run.inputs.get(name) or ()


def snapshot(run: Run, running: str = "workloads", now: float | None = None) -> Snapshot:
    """The snapshot of a case's objects, with its reserved `running` workloads charged."""
    tree = QuotaTree()
    queues: dict[str, Queue] = {}
    for obj in each(run, "clusterQueues"):
        spec = cluster_queue(obj)
        node = tree.put_queue(spec.name, spec.cohort, spec.groups, spec.weight)
        queues[spec.name] = Queue(spec, node)
    for obj in each(run, "cohorts"):
        parent = cohort(obj)
        tree.put_cohort(parent.name, parent.parent, parent.groups, parent.weight)
    for queue in queues.values():
        queue.active = not queue.node.cyclic and queue.spec.stop_policy == "None"
    for obj in each(run, running):
        admit(queues, workload(obj, gates_of(run)))
    policy, nodes = policy_of(run), cluster(run)
    return Snapshot(
        tree,
        queues,
        {one.name: one for one in map(flavor, each(run, "resourceFlavors"))},
        topologies={one.name: one for one in map(topology, each(run, "topologies"))},
        local_queues={one.key: one for one in map(local_queue, each(run, "localQueues"))},
        cluster=nodes,
        placement=NodePlacement(nodes, policy),
        policy=policy,
        now=run.now if now is None else now,
    )


def cluster(run: Run) -> ClusterCapacity:
    """The nodes of a case by flavor, with their usage under `nodeUsage`."""
    made = ClusterCapacity()
    levels = {one.name: one.levels for one in map(topology, each(run, "topologies"))}
    for obj in each(run, "nodes"):
        made.put_node(inbound_nodes.node(convert(obj, core.Node)))
    for one in map(flavor, each(run, "resourceFlavors")):
        if one.topology in levels:
            named = one.topology, levels[one.topology], one.labels, one.tolerations
            made.put_flavor(one.name, *named)
    use_nodes(made, run.inputs.get("nodeUsage"))
    return made


def use_nodes(made: ClusterCapacity, usage: Json | None) -> None:
    """Charge pods to domains, by flavor."""
    for name, pods in (usage or {}).items():
        for one in pods:
            placed = LeafAssignment(domains=(AssignedDomain(list(one["values"]), one["count"]),))
            made.charge(name, placed, whole(one["singlePodRequests"]))


def admit(queues: dict[str, Queue], wanted: model.Workload) -> ChargedWorkload | None:
    """Charge a workload that holds quota, as the engine does."""
    if not wanted.charged or wanted.reservation is None:
        return None
    queue = queues.get(wanted.reservation.cluster_queue)
    if queue is None:
        return None
    running = ChargedWorkload(wanted, queue.name, usage_of(wanted, wanted.reservation))
    queue.running[wanted.key] = running
    for column, amount in running.usage.quota.items():
        charge(queue.node.cell(column), amount)
    return running
