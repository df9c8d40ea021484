# SPDX-License-Identifier: Apache-2.0
"""What a viewer may see: nothing of namespaces that the API would not show."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from build import flavor, job, local_queue, namespace, queue
from control import objects as made
from kuota.api.base import Json, Key
from kuota.api.core import AUTHOR
from kuota.api.workload import PREEMPTOR_UID
from kuota.dashboard.models.nodes import nodes_model
from kuota.dashboard.models.rows import workload_row
from kuota.dashboard.models.teams import current_teams, teams_model
from kuota.dashboard.models.topology import topology_model
from kuota.dashboard.models.tree import queue_meta, tree_model
from kuota.dashboard.models.visible import visible, visible_queue
from kuota.dashboard.models.workload import workload_model
from kuota.dashboard.shapes import (
    Device,
    NodeRow,
    NodesModel,
    Ref,
    WorkloadModel,
    WorkloadsModel,
)
from kuota.engine.engine import Engine
from kuota.engine.facts import ObjectStored
from kuota.history.accounts import Period
from kuota.history.records import JobRecord
from kuota.history.series import series_report
from kuota.kube.resources import key_of
from kuota.view.devices import DeviceRow
from kuota.view.observed import ObservedState
from kuota.view.plan import HelpRow, ProtectedRow, WhyRow
from kuota.view.words import several, why_row
from kuota.visibility.explanation import HIDDEN

MINE, SECRET = "mine", "secret-team"
RACK, HOST = "cloud.com/rack", "kubernetes.io/hostname"
STATES = ("pending", "reserved", "admitted", "preempted", "finished", "held")


def _mine(name: str) -> bool:
    return name == MINE


def _condition(kind: str, reason: str = "R", message: str = "", status: str = "True") -> Json:
    found = {"type": kind, "status": status, "reason": reason, "message": message}
    return found | {"lastTransitionTime": "2026-01-01T00:00:01Z"}


def _assignment(node: str) -> Json:
    values = [{"universal": node}]
    part = {"domainCount": 1, "valuesPerLevel": values, "podCounts": {"universal": 1}}
    return {"levels": [HOST], "slices": [part]}


def _status(state: str, node: str) -> Json:
    if state in ("pending", "held"):
        return {"conditions": [_condition("QuotaReserved", "Pending", "no room", "False")]}
    if state == "preempted":
        return {
            "conditions": [
                _condition("Evicted", "Preempted", "preempted"),
                _condition("Preempted", "InClusterQueue", "preempted"),
            ]
        }
    given = {
        "name": "main",
        "count": 1,
        "flavors": {"cpu": "default"},
        "resourceUsage": {"cpu": "1"},
        "topologyAssignment": _assignment(node),
    }
    kinds = {"reserved": 1, "admitted": 2, "finished": 3}[state]
    conditions = [_condition(each) for each in ("QuotaReserved", "Admitted", "Finished")[:kinds]]
    admission = {"clusterQueue": "cq", "podSetAssignments": [given]}
    return {"conditions": conditions, "admission": admission}


def _workload(space: str, number: int, state: str, by: str, node: str) -> Json:
    """A workload whose strings all contain its namespace."""
    name = f"{space}-w{number}"
    container = {"name": f"{space}-c", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container]}}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"{space}-job{number}"}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": space,
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"label": f"{space}-label"},
            "annotations": {PREEMPTOR_UID: by, AUTHOR: f"{space}-user"},
            "ownerReferences": [owner | {"uid": f"job-{name}", "controller": True}],
        },
        "spec": {
            "queueName": f"{space}-lq",
            "active": state != "held",
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
        "status": _status(state, node),
    }


def _pod(workload: Json, node: str) -> Json:
    metadata = workload["metadata"]
    container = {"name": f"{metadata['namespace']}-c", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{metadata['name']}-pod",
            "namespace": metadata["namespace"],
            "uid": f"pod-{metadata['name']}",
            "ownerReferences": metadata["ownerReferences"],
        },
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": "Running", "message": f"{metadata['namespace']} message"},
    }


def _node(name: str) -> Json:
    labels = {HOST: name, RACK: "r1"}
    ready = {"type": "Ready", "status": "True"}
    status = {"allocatable": {"cpu": "8", "pods": "10"}, "conditions": [ready]}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def _event(workload: Json) -> Json:
    metadata = workload["metadata"]
    about = {field: metadata[field] for field in ("name", "namespace", "uid")}
    return {
        "metadata": {"name": "e", "namespace": metadata["namespace"]},
        "involvedObject": about | {"kind": "Workload"},
        "reason": "Pending",
        "message": f"{metadata['namespace']} event",
    }


def _why(names: list[str]) -> WhyRow:
    return WhyRow(
        text=f"waits behind {several(names)}",
        protected=[
            ProtectedRow(workload=each, cluster_queue="cq", priority=0, protection="P", text="p")
            for each in names
        ],
        rivals=names,
        help=[HelpRow(advice="Wait", text=f"wait for {several(names)}.", workloads=names)],
    )


Links = list[tuple[bool, str, int, bool]]
LINKS = st.lists(
    st.tuples(st.booleans(), st.sampled_from(STATES), st.integers(0, 5), st.booleans()),
    min_size=1,
    max_size=6,
)


class World:
    """Workloads of both namespaces, linked to each other in all ways that models show."""

    def __init__(self, links: Links) -> None:
        spaces = [SECRET if hidden else MINE for hidden, *_ in links]
        uids = [f"uid-{space}-w{at}" for at, space in enumerate(spaces)]
        self.workloads = [
            _workload(space, at, state, uids[by % len(uids)], f"n{int(on)}")
            for at, (space, (_, state, by, on)) in enumerate(zip(spaces, links, strict=True))
        ]
        queues = [made.local_queue(f"{each}-lq") for each in (MINE, SECRET)]
        for each, space in zip(queues, (MINE, SECRET), strict=True):
            each["metadata"]["namespace"] = space
        pods = [_pod(each, each["metadata"]["name"][-1:] and "n0") for each in self.workloads]
        levels = [{"nodeLabel": RACK}, {"nodeLabel": HOST}]
        topology: Json = {"kind": "Topology", "metadata": {"name": "t"}, "spec": {"levels": levels}}
        gold = made.flavor(topologyName="t", nodeLabels={RACK: "r1"})
        nodes = [_node(f"n{each}") for each in range(2)]
        base = [topology, gold, made.queue("cq"), *nodes, *queues]
        self.observed = ObservedState.of([*base, *pods, *self.workloads])
        self.devices = [
            DeviceRow(
                node="n0",
                resource="gpu",
                id=f"d{at}",
                held=True,
                namespace=each["metadata"]["namespace"],
                pod=each["metadata"]["name"],
                job=f"Job/{each['metadata']['namespace']}",
                since="2026-01-01T00:00:00Z",
            )
            for at, each in enumerate(pods)
        ]
        self.names = [
            f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in self.workloads
        ]
        self.records = [
            JobRecord(f"r{at}", space, f"{space}-w{at}", "Job", f"{space}-j", "q", "u", 5.0)
            for at, space in enumerate(spaces)
        ]

    def details(self, workload: Json) -> WorkloadModel:
        return workload_model(
            workload,
            self.observed,
            events=[_event(each) for each in self.workloads],
            why=_why(self.names),
            devices=self.devices,
        )

    def filtered(self) -> list[object]:
        """Every model as the member of one team sees it."""
        observed = self.observed
        rows = [workload_row(each, observed) for each in self.workloads]
        meta, pending = queue_meta(observed, "cq"), [key_of(each) for each in self.workloads]
        assert meta is not None
        recorded = series_report(self.records, Period(0, 100), 10)
        return [
            visible(tree_model(observed), _mine),
            visible_queue(meta, pending, _mine, _mine),
            visible(WorkloadsModel(rows=rows), _mine),
            visible(topology_model(observed), _mine),
            visible(nodes_model(observed, self.devices), _mine),
            visible(teams_model(recorded, current_teams(observed)), _mine),
            [visible(each, _mine) for each in rows],
            [visible(self.details(each), _mine) for each in self.workloads],
        ]


@settings(max_examples=60, deadline=None)
@given(LINKS)
def test_no_string_of_another_namespace_is_in_a_filtered_model(links: Links) -> None:
    for model in World(links).filtered():
        assert b"secret" not in msgspec.json.encode(model)


@settings(max_examples=20, deadline=None)
@given(LINKS)
def test_a_viewer_of_everything_sees_models_unchanged(links: Links) -> None:
    world = World(links)
    for workload in world.workloads:
        model = world.details(workload)
        assert model == visible(model, lambda _: True)
    tree, topology = tree_model(world.observed), topology_model(world.observed)
    assert tree == visible(tree, lambda _: True)
    assert topology == visible(topology, lambda _: True)
    nodes = nodes_model(world.observed, world.devices)
    assert nodes == visible(nodes, lambda _: True)


def test_what_is_hidden_is_counted_and_positions_stay_those_of_the_queue() -> None:
    links = [(hidden, "pending", 0, False) for hidden in (True, False, True, False)]
    world = World(links)
    meta, pending = queue_meta(world.observed, "cq"), [key_of(each) for each in world.workloads]
    assert meta is not None
    shown = visible_queue(meta, pending, _mine, _mine)
    assert (2, [2, 4]) == (shown.hidden, shown.positions)
    every = visible_queue(meta, pending, lambda _: True, lambda _: True)
    assert (0, None) == (every.hidden, every.positions)


def test_contents_and_holders_of_others_become_numbers() -> None:
    world = World([(True, "admitted", 0, False), (False, "admitted", 0, False)])
    (node, _) = visible(nodes_model(world.observed, world.devices), _mine).nodes
    assert (1, [f"{MINE}-w1"]) == (
        node.hidden_pods,
        [each.owner.name for each in node.contents],
    )
    assert [(True, None), (True, f"{MINE}-w1-pod")] == [
        (each.held, each.holder.name if each.holder is not None else None) for each in node.devices
    ]
    (racks,) = visible(topology_model(world.observed), _mine).flavors
    (leaf, _) = racks.domains[0].children
    assert (1, [f"{MINE}-job1"]) == (leaf.hidden_pods, [each.job for each in leaf.contents])


def test_a_device_names_no_workload_of_another_namespace() -> None:
    holder = Ref(kind="Pod", name="p", namespace=MINE)
    workload = Ref(kind="Workload", name="w", namespace=SECRET)
    device = Device(node="n0", resource="gpu", id="d", held=True, holder=holder, workload=workload)
    model = NodesModel(nodes=[NodeRow(name="n0", devices=[device])])
    (shown,) = visible(model, _mine).nodes[0].devices
    assert (holder, None) == (shown.holder, shown.workload)


def test_names_within_explanations_are_replaced_as_a_whole() -> None:
    names = ["a/x", "ba/x", "a/x.y"]
    world = World([(False, "pending", 0, False)])
    workload = world.workloads[0]
    model = workload_model(workload, world.observed, why=_why(names))
    shown = visible(model, lambda name: name in (MINE, "ba"))
    assert shown is not None
    assert shown.explanation is not None
    assert f"waits behind {HIDDEN}, ba/x and {HIDDEN}" == shown.explanation.text
    assert [HIDDEN, "ba/x"] == shown.explanation.rivals
    assert ["ba/x"] == [each.workload for each in shown.explanation.protected]


def test_an_explanation_of_the_scheduler_is_filtered_as_by_its_api() -> None:
    engine = Engine()
    for name in (MINE, SECRET):
        engine.apply(ObjectStored(value=namespace(name)), 0.0)
        local = replace(local_queue("cq"), key=Key(name, "cq"))
        engine.apply(ObjectStored(value=local), 0.0)
    for each in (flavor(), queue("cq", gpu=1)):
        engine.apply(ObjectStored(value=each), 0.0)
    for space, name in ((SECRET, "runs"), (SECRET, "other"), (MINE, "waits")):
        asking = replace(job(name, queue="cq", gpu=1), key=Key(space, name))
        engine.apply(ObjectStored(value=asking), 0.0)
    engine.cycle(1.0)
    found = engine.explain(Key(MINE, "waits"), 2.0)
    assert found is not None
    row = why_row(found)
    assert row is not None
    assert b"secret" in msgspec.json.encode(row)
    world = World([(False, "pending", 0, False)])
    shown = visible(workload_model(world.workloads[0], world.observed, why=row), _mine)
    assert b"secret" not in msgspec.json.encode(shown)
