# SPDX-License-Identifier: Apache-2.0
"""An engine with two queues on one topology of racks and nodes, for tests of whole cycles."""

from __future__ import annotations

from typing import Any

from build import groups
from kuota.api.base import Key, LabelSelector
from kuota.api.core import Container, PodSpec, PodTemplateSpec, ResourceRequirements
from kuota.api.topology_codec import HOSTNAME, expand
from kuota.api.workload import TopologyAssignment, TopologyRequest
from kuota.engine.decisions import Admit, Decision
from kuota.engine.domains import NodeKnowledge
from kuota.engine.engine import Engine
from kuota.engine.facts import EngineObject, ObjectStored
from kuota.engine.model import (
    ClusterQueue,
    LocalQueue,
    Namespace,
    Node,
    PodSet,
    Preemption,
    ResourceFlavor,
    Topology,
    Workload,
)
from kuota.engine.policy import Policy

RACK = TopologyRequest(required="rack")
LEVELS = ("rack", HOSTNAME)


def node(rack: str, name: str, cpu: int = 2, **fields: Any) -> Node:
    return Node(
        name=name,
        labels={"rack": rack, HOSTNAME: name},
        allocatable={"cpu": cpu * 1000, "pods": 10},
        **fields,
    )


def make_engine(
    *nodes: Node,
    quota: int = 100,
    policy: Policy | None = None,
    nodes_known: NodeKnowledge = NodeKnowledge.LISTED,
    **queue_fields: Any,
) -> Engine:
    """Return an engine with ClusterQueues and LocalQueues "a" and "b", and these nodes."""
    engine = Engine(policy, nodes=nodes_known)
    fields = {"preemption": Preemption(within_cluster_queue="LowerPriority")} | queue_fields
    queues = [
        ClusterQueue(
            name=name,
            groups=groups({"flavor/cpu": quota * 1000}),
            namespace_selector=LabelSelector(),
            **fields,
        )
        for name in ("a", "b")
    ]
    values: tuple[EngineObject, ...] = (
        Namespace(name="ns"),
        Topology(name="topology", levels=LEVELS),
        ResourceFlavor(name="flavor", topology="topology"),
        *queues,
        *(LocalQueue(key=Key("ns", each.name), cluster_queue=each.name) for each in queues),
        *nodes,
    )
    for value in values:
        store(engine, value)
    return engine


def store(engine: Engine, value: EngineObject, now: float = 0.0) -> None:
    engine.apply(ObjectStored(value=value), now)


def pod_set(
    pods: int, topology: TopologyRequest | None = RACK, name: str = "main", cpu: int = 1
) -> PodSet:
    requests = ResourceRequirements(requests={"cpu": str(cpu)})
    spec = PodSpec(containers=[Container(name="c", resources=requests)])
    return PodSet(
        name=name,
        count=pods,
        pods=pods,
        requests={"cpu": 1000 * cpu * pods},
        topology=topology,
        template=PodTemplateSpec(spec=spec),
    )


def workload(
    name: str,
    pods: int,
    topology: TopologyRequest | None = RACK,
    *,
    queue: str = "a",
    priority: int = 0,
    **fields: Any,
) -> Workload:
    return Workload(
        key=Key("ns", name),
        uid=name,
        queue=queue,
        pod_sets=(pod_set(pods, topology),),
        priority=priority,
        **fields,
    )


def decisions(engine: Engine, now: float = 1.0) -> dict[str, Decision]:
    outcome = engine.cycle(now)
    assert not outcome.failures
    return {each.workload.key.name: each for each in outcome.decisions}


def placed_nodes(decision: Decision) -> dict[str, int]:
    """Return the pods by node of an admission, as its reservation records them."""
    assert isinstance(decision, Admit)
    topology = decision.reservation().pod_sets[0].topology
    assert isinstance(topology, TopologyAssignment)
    return {each.values[-1]: each.count for each in expand(topology)}
