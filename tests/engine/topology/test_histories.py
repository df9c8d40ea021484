# SPDX-License-Identifier: Apache-2.0
"""Properties of placement over random histories of a whole engine.

Workloads are admitted, finish and are evicted, nodes come, fail and go, and failed nodes are
replaced in second passes. Writes are stored in the order of decisions.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.topology.cycles import make_engine, node, pod_set, store
from kuota.api.base import Key
from kuota.api.gates import Gates
from kuota.api.kueue import PROVISIONING
from kuota.api.topology_codec import HOSTNAME, expand
from kuota.api.workload import TopologyRequest
from kuota.engine.decisions import Admit, Decision, Evict, Preempt
from kuota.engine.facts import AdmissionFailed, ObjectDeleted
from kuota.engine.model import AdmissionCheck, CheckRule, Eviction, Node, PodUsage, Workload
from kuota.engine.policy import Policy

REQUESTS = (
    None,
    TopologyRequest(required="rack"),
    TopologyRequest(required=HOSTNAME),
    TopologyRequest(preferred="rack"),
    TopologyRequest(unconstrained=True),
    TopologyRequest(pod_set_slice_required_topology="rack", pod_set_slice_size=2),
)
RACKS = {f"n{index}": f"r{index % 2}" for index in range(5)}
POLICIES = (
    Policy(),
    Policy(fair_sharing=()),
    Policy(gates=Gates.of({"TASFailedNodeReplacementFailFast": False})),
    Policy(gates=Gates.of({"TASRecomputeAssignmentWithinSchedulingCycle": False})),
)
CHECKED = (CheckRule(name="check"),)


class History:
    """An engine, the objects that the API server stores, and what may happen to them."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        checks = self._random.choice(((), CHECKED))
        policy = self._random.choice(POLICIES)
        self.engine = make_engine(quota=6, policy=policy, checks=checks)
        self.now = 0.0
        self.stored: dict[Key, Workload] = {}
        self.nodes: dict[str, Node] = {}
        self.log: list[str] = []
        store(self.engine, AdmissionCheck(name="check", controller=PROVISIONING, active=True))
        for name in RACKS:
            self._put_node(name)

    def play(self, steps: int) -> None:
        acts = (self._submit, self._submit, self._finish, self._change_node, self._fail_node)
        for _ in range(steps):
            self._random.choice(acts)()
            self.now += self._random.choice((0.5, 1.0, 4.0))
            self.settle()
            self.check()

    def settle(self) -> None:
        for _ in range(4):
            outcome = self.engine.cycle(self.now)
            assert not outcome.failures
            for decision in outcome.decisions:
                self._carry_out(decision)

    def end(self) -> None:
        """Remove all workloads."""
        for key in list(self.stored):
            self._drop(key)

    def _submit(self) -> None:
        key = Key("ns", f"w{len(self.log)}")
        asked = self._random.choice(REQUESTS)
        pods = pod_set(self._random.randint(1, 4), asked, cpu=self._random.randint(1, 2))
        priority = self._random.randint(0, 2)
        queue = self._random.choice("ab")
        self._put(Workload(key=key, uid=key.name, queue=queue, priority=priority, pod_sets=(pods,)))

    def _finish(self) -> None:
        if self.stored:
            self._drop(self._random.choice(sorted(self.stored)))

    def _put_node(self, name: str) -> None:
        self.nodes[name] = made = node(RACKS[name], name, self._random.randint(1, 3))
        store(self.engine, made, self.now)

    def _change_node(self) -> None:
        """A node appears, disappears, or changes its size, and another pod comes or goes."""
        name = self._random.choice(sorted(RACKS))
        if name in self.nodes and self._random.random() < 0.4:
            self._lose_node(name)
        else:
            self._put_node(name)
        usage = PodUsage(key=Key("sys", name), node=name, requests={"cpu": 500})
        if self._random.random() < 0.3:
            store(self.engine, usage, self.now)
        else:
            self.engine.apply(ObjectDeleted(kind=PodUsage, key=usage.key), self.now)

    def _lose_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.engine.apply(ObjectDeleted(kind=Node, key=Key("", name)), self.now)

    def _fail_node(self) -> None:
        """A node fails, and is reported on the workloads that use it."""
        name = self._random.choice(sorted(RACKS))
        self._lose_node(name)
        for each in list(self.stored.values()):
            if name in _nodes(each) and each.admitted and not each.unhealthy_nodes:
                self._put(replace(each, unhealthy_nodes=(name,)))

    def _put(self, workload: Workload) -> None:
        self.stored[workload.key] = workload
        store(self.engine, workload, self.now)

    def _drop(self, key: Key) -> None:
        del self.stored[key]
        self.engine.apply(ObjectDeleted(kind=Workload, key=key), self.now)

    def _carry_out(self, decision: Decision) -> None:
        self.log.append(f"{type(decision).__name__} {decision.workload.key}")
        match decision:
            case Admit():
                self._admit(decision)
            case Evict():
                self._evict(decision.workload.key)
            case Preempt(victims=victims):
                for victim in victims:
                    self._evict(victim.workload.key)

    def _admit(self, decision: Admit) -> None:
        if self._random.random() < 0.1:
            self.engine.apply(AdmissionFailed(key=decision.workload.key), self.now)
            return
        placed = replace(
            decision.workload,
            reservation=decision.reservation(since=self.now),
            admitted=decision.admitted,
            unhealthy_nodes=(),
            checks=dict.fromkeys(decision.checks, "Ready"),
        )
        self.log.append(str(sorted(_nodes(placed).items())))
        self._put(placed)

    def _evict(self, key: Key) -> None:
        """Evict a workload, whose pods are gone at once, so that it waits again."""
        found = self.stored.get(key)
        if found is None:
            return
        self._put(replace(found, evicted=Eviction(reason="Preempted", at=self.now)))
        self._put(replace(found, reservation=None, admitted=False, unhealthy_nodes=(), checks={}))

    def check(self) -> None:
        """No node that is known has more pods than it can hold, and no rack is split."""
        for each in self.stored.values():
            asked = each.pod_sets[0].topology
            used = _nodes(each)
            if asked is not None and asked.required == "rack":
                assert len({RACKS[name] for name in used}) <= 1
            if asked is not None and asked.required == HOSTNAME:
                assert len(used) <= 1
            if each.reservation is not None and each.admitted:
                assert sum(used.values()) == _wanted(each)


def _nodes(workload: Workload) -> Counter[str]:
    """Return the stored pods of a workload by node."""
    found: Counter[str] = Counter()
    for each in workload.reservation.pod_sets if workload.reservation is not None else ():
        for domain in expand(each.topology) if each.topology is not None else ():
            found[domain.values[-1]] += domain.count
    return found


def _wanted(workload: Workload) -> int:
    [pods] = workload.pod_sets
    size = (pods.topology.pod_set_slice_size if pods.topology is not None else None) or 1
    return pods.count - pods.count % size


class Watched(History):
    """A history that also checks each new place against the room that its node had."""

    def _admit(self, decision: Admit) -> None:
        before = {key: _nodes(each) for key, each in self.stored.items()}
        super()._admit(decision)
        key = decision.workload.key
        new = _nodes(self.stored[key]) - before[key]
        for name in new:
            made = self.nodes[name]
            used = sum(
                _nodes(each)[name] * _cpu(each)
                for each in self.stored.values()
                if each.reservation is not None
            )
            assert used <= made.allocatable["cpu"], (name, self.log)


def _cpu(workload: Workload) -> int:
    [pods] = workload.pod_sets
    return pods.requests["cpu"] // pods.count


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_a_node_never_gets_more_pods_than_it_can_hold_and_levels_are_not_split(seed: int) -> None:
    history = Watched(seed)
    history.play(14)
    history.end()
    cluster = history.engine.state.domains.cluster
    for name in RACKS:
        cluster.drop_pod(Key("sys", name))
    leaves = cluster.flavors["flavor"].tree.leaves.values()
    assert all(leaf.free == leaf.empty and not leaf.used for leaf in leaves)
    assert all(
        not cell.used
        for queue in history.engine.state.queues.values()
        for cell in queue.node.cells.values()
    )
    assert history.engine.next_wakeup() in (None, float("-inf"))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_the_same_history_leads_to_the_same_placements(seed: int) -> None:
    one, other = History(seed), History(seed)
    one.play(12)
    other.play(12)
    assert one.log == other.log
