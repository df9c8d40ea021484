# SPDX-License-Identifier: Apache-2.0
"""The capacity of nodes does not depend on the order in which objects arrive."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from build import groups
from kuota.api.base import Key, LabelSelector
from kuota.api.core import Container, PodSpec, PodTemplateSpec, ResourceRequirements
from kuota.api.topology_codec import HOSTNAME, AssignedDomain, compact
from kuota.engine.amounts import FlavorResource
from kuota.engine.engine import Engine
from kuota.engine.facts import EngineObject, ObjectDeleted, ObjectStored
from kuota.engine.model import (
    ClusterQueue,
    LocalQueue,
    Namespace,
    Node,
    PodSet,
    PodSetReservation,
    PodUsage,
    Reservation,
    ResourceFlavor,
    Topology,
    Workload,
)

LEVELS = {"hosts": ("rack", HOSTNAME), "racks": ("rack",)}


def _node(name: str, rack: str) -> Node:
    labels = {"rack": rack, HOSTNAME: name}
    return Node(name=name, labels=labels, allocatable={"cpu": 9000, "pods": 20})


def _workload(name: str, flavor: str, levels: tuple[str, ...], *places: AssignedDomain) -> Workload:
    requests = ResourceRequirements(requests={"cpu": "1"})
    spec = PodSpec(containers=[Container(name="c", resources=requests)])
    pods = sum(each.count for each in places)
    amounts = {"cpu": 1000 * pods}
    given = PodSetReservation(
        name="main",
        flavors={"cpu": flavor},
        requests=amounts,
        count=pods,
        topology=compact(levels, places),
    )
    template = PodTemplateSpec(spec=spec)
    pod_set = PodSet(name="main", count=pods, pods=pods, requests=amounts, template=template)
    usage = {FlavorResource(flavor, "cpu"): 1000 * pods}
    return Workload(
        key=Key("ns", name),
        queue="lq",
        pod_sets=(pod_set,),
        reservation=Reservation(cluster_queue="cq", pod_sets=(given,), usage=usage),
    )


HOST = (HOSTNAME,)
QUOTA = {f"{flavor}/cpu": 100_000 for flavor in ("one", "two", "three")}
OBJECTS: tuple[EngineObject, ...] = (
    Namespace(name="ns"),
    ClusterQueue(name="cq", groups=groups(QUOTA), namespace_selector=LabelSelector()),
    LocalQueue(key=Key("ns", "lq"), cluster_queue="cq"),
    *(Topology(name=name, levels=levels) for name, levels in LEVELS.items()),
    ResourceFlavor(name="one", topology="hosts"),
    ResourceFlavor(name="two", topology="hosts", labels={"rack": "r1"}),
    ResourceFlavor(name="three", topology="racks"),
    _node("n1", "r1"),
    _node("n2", "r1"),
    _node("n3", "r2"),
    PodUsage(key=Key("ns", "p1"), node="n1", requests={"cpu": 100}),
    PodUsage(key=Key("ns", "p3"), node="n3", requests={"cpu": 200, "gpu": 1}),
    _workload("w1", "one", HOST, AssignedDomain(["n1"], 2), AssignedDomain(["n3"], 1)),
    _workload("w2", "two", HOST, AssignedDomain(["n1"], 1), AssignedDomain(["n2"], 3)),
    _workload("w3", "three", ("rack",), AssignedDomain(["r1"], 4)),
)


def _key(value: EngineObject) -> Key:
    if isinstance(value, Workload | LocalQueue | PodUsage):
        return value.key
    return Key("", value.name)


def _free(engine: Engine) -> dict[str, dict[tuple[str, ...], dict[str, int]]]:
    vectors = engine.state.domains.cluster.flavors.items()
    return {
        name: {
            id: flavor.tree.vectors.mapping(flavor.tree.vectors.amounts[leaf.free])
            for id, leaf in flavor.tree.leaves.items()
        }
        for name, flavor in vectors
    }


def _stored(*values: EngineObject) -> Engine:
    engine = Engine()
    for value in values:
        engine.apply(ObjectStored(value=value), 0.0)
    return engine


@settings(max_examples=200, deadline=None)
@given(
    st.permutations(OBJECTS),
    st.lists(st.sampled_from(OBJECTS), max_size=6),
    st.sets(st.integers(0, len(OBJECTS) - 1), max_size=4),
)
def test_capacity_depends_only_on_the_objects_that_exist(
    order: list[EngineObject], again: list[EngineObject], absent: set[int]
) -> None:
    engine = _stored(*order)
    for value in again:
        engine.apply(ObjectDeleted(kind=type(value), key=_key(value)), 1.0)
        engine.apply(ObjectStored(value=value), 1.0)
    for index in sorted(absent):
        gone = OBJECTS[index]
        engine.apply(ObjectDeleted(kind=type(gone), key=_key(gone)), 2.0)
    left = [value for index, value in enumerate(OBJECTS) if index not in absent]
    assert _free(_stored(*left)) == _free(engine)


def test_all_usage_counts_for_all_flavors_that_share_a_node() -> None:
    free = _free(_stored(*OBJECTS))
    assert {"cpu": 5900, "pods": 16} == free["one"]["n1",] == free["two"]["n1",]
    assert {"cpu": 6000, "pods": 17} == free["one"]["n2",] == free["two"]["n2",]
    assert {"cpu": 7800, "pods": 18, "gpu": -1} == free["one"]["n3",]
    assert {"cpu": 13900, "pods": 35} == free["three"]["r1",]
