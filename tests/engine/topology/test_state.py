# SPDX-License-Identifier: Apache-2.0
"""Reservations charge quota and nodes together, in the state and in trials."""

from __future__ import annotations

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

CPU = FlavorResource("flavor", "cpu")
NODE = Node(name="n1", labels={HOSTNAME: "n1"}, allocatable={"cpu": 8000, "pods": 10})
QUEUE = ClusterQueue(
    name="cq", groups=groups({"flavor/cpu": 100_000}), namespace_selector=LabelSelector()
)


def _engine() -> Engine:
    engine = Engine()
    for value in (
        Namespace(name="ns"),
        QUEUE,
        LocalQueue(key=Key("ns", "lq"), cluster_queue="cq"),
        Topology(name="topology", levels=(HOSTNAME,)),
        ResourceFlavor(name="flavor", topology="topology"),
        NODE,
    ):
        _store(engine, value)
    return engine


def _store(engine: Engine, value: EngineObject) -> None:
    engine.apply(ObjectStored(value=value), 0.0)


def _workload(pods: int, *places: AssignedDomain) -> Workload:
    """Return a workload whose pods request one core, with a reservation and places."""
    requests = ResourceRequirements(requests={"cpu": "1"})
    spec = PodSpec(containers=[Container(name="c", resources=requests)])
    amounts = {"cpu": 1000 * pods}
    given = PodSetReservation(
        name="main",
        flavors={"cpu": "flavor"},
        requests=amounts,
        count=pods,
        topology=compact([HOSTNAME], places) if places else None,
    )
    return Workload(
        key=Key("ns", "w"),
        queue="lq",
        pod_sets=(
            PodSet(
                name="main",
                count=pods,
                pods=pods,
                requests=amounts,
                template=PodTemplateSpec(spec=spec),
            ),
        ),
        reservation=Reservation(cluster_queue="cq", pod_sets=(given,), usage={CPU: 1000 * pods}),
    )


def _free(engine: Engine) -> dict[str, int]:
    tree = engine.state.domains.cluster.flavors["flavor"].tree
    leaf = tree.leaves[("n1",)]
    return tree.vectors.mapping(tree.vectors.amounts[leaf.free])


def _used(engine: Engine) -> int:
    return engine.state.queues["cq"].node.cell(CPU).used


def test_a_reservation_charges_quota_and_nodes_until_the_workload_is_gone() -> None:
    engine = _engine()
    _store(engine, _workload(3, AssignedDomain(["n1"], 3)))
    assert {"cpu": 5000, "pods": 7} == _free(engine)
    assert 3000 == _used(engine)
    engine.apply(ObjectDeleted(kind=Workload, key=Key("ns", "w")), 1.0)
    assert {"cpu": 8000, "pods": 10} == _free(engine)
    assert 0 == _used(engine)


def test_a_changed_placement_with_the_same_quota_moves_the_usage() -> None:
    engine = _engine()
    _store(engine, _workload(2, AssignedDomain(["n1"], 1), AssignedDomain(["n2"], 1)))
    assert {"cpu": 7000, "pods": 9} == _free(engine)
    _store(engine, _workload(2, AssignedDomain(["n2"], 2)))
    assert {"cpu": 8000, "pods": 10} == _free(engine)
    assert 2000 == _used(engine)


def test_usage_is_kept_while_the_flavor_its_topology_or_its_node_is_unknown() -> None:
    engine = _engine()
    _store(engine, _workload(3, AssignedDomain(["n1"], 3)))
    gone = (
        (Node, "n1", NODE),
        (Topology, "topology", Topology(name="topology", levels=(HOSTNAME,))),
        (ResourceFlavor, "flavor", ResourceFlavor(name="flavor", topology="topology")),
    )
    for kind, name, value in gone:
        engine.apply(ObjectDeleted(kind=kind, key=Key("", name)), 1.0)
        _store(engine, value)
        assert {"cpu": 5000, "pods": 7} == _free(engine)


def test_a_trial_releases_and_restores_quota_and_nodes_together() -> None:
    engine = _engine()
    _store(engine, _workload(3, AssignedDomain(["n1"], 3)))
    snapshot = engine.snapshot(1.0)
    running = engine.state.running(Key("ns", "w"))
    assert running is not None
    with snapshot.trial():
        snapshot.remove(running)
        assert ({"cpu": 8000, "pods": 10}, 0) == (_free(engine), _used(engine))
        with snapshot.trial():
            snapshot.restore(running)
            assert ({"cpu": 5000, "pods": 7}, 3000) == (_free(engine), _used(engine))
        assert ({"cpu": 8000, "pods": 10}, 0) == (_free(engine), _used(engine))
    assert ({"cpu": 5000, "pods": 7}, 3000) == (_free(engine), _used(engine))


def test_pods_that_no_topology_places_reduce_the_free_capacity() -> None:
    engine = _engine()
    pod = PodUsage(key=Key("kube-system", "agent"), node="n1", requests={"cpu": 500})
    _store(engine, pod)
    assert {"cpu": 7500, "pods": 9} == _free(engine)
    engine.apply(ObjectDeleted(kind=PodUsage, key=pod.key), 1.0)
    assert {"cpu": 8000, "pods": 10} == _free(engine)
