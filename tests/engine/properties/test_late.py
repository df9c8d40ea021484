# SPDX-License-Identifier: Apache-2.0
"""Invariants when writes are slow and facts arrive late, as on a cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import flavor, job, local_queue, namespace, queue
from engine.properties.definition import Definition
from engine.strategies import QUEUES, calm
from kuota.api.base import Key
from kuota.api.gates import Gates
from kuota.engine.decisions import Admit
from kuota.engine.engine import Engine
from kuota.engine.facts import AdmissionFailed, EngineObject, ObjectStored
from kuota.engine.model import ClusterQueue, Cohort, Eviction, Workload
from kuota.engine.policy import Policy
from kuota.sim.simulation import admitted

MOVES = ("submit", "cycle", "cycle", "write", "write", "news", "touch", "finish", "fail")


class Server:
    """Objects as they are written down, and news of them that the engine has not heard yet."""

    def __init__(
        self, engine: Engine, cluster: Sequence[EngineObject], crowd: Sequence[Workload]
    ) -> None:
        self.engine = engine
        self.crowd = deque(crowd)
        self.workloads: dict[Key, Workload] = {}
        self.news: deque[Workload] = deque()
        self.writes: deque[Admit] = deque()
        self.queues = {each.name: each for each in cluster if isinstance(each, ClusterQueue)}
        self.cohorts = {each.name: each for each in cluster if isinstance(each, Cohort)}
        for each in cluster:
            engine.apply(ObjectStored(value=each), 0.0)

    def write(self, workload: Workload) -> None:
        self.workloads[workload.key] = workload
        self.news.append(workload)

    def do(self, move: str) -> None:
        match move:
            case "submit" if self.crowd:
                self.write(self.crowd.popleft())
                self.do("news")
            case "cycle":
                decisions = self.engine.cycle(0.0).decisions
                self.writes += [each for each in decisions if isinstance(each, Admit)]
            case "write" if self.writes:
                decision = self.writes.popleft()
                if not self.workloads[decision.workload.key].finished:
                    self.write(admitted(decision, 0.0))
            case "fail" if self.writes:
                self.engine.apply(AdmissionFailed(key=self.writes.popleft().workload.key), 0.0)
            case "news":
                while self.news:
                    self.engine.apply(ObjectStored(value=self.news.popleft()), 0.0)
            case "touch":
                self.news += self.workloads.values()
                self.do("news")
            case "finish":
                self.finish_one()

    def finish_one(self) -> None:
        running = [each for each in self.workloads.values() if each.reservation]
        if running:
            self.write(msgspec.structs.replace(running[0], finished=True, reservation=None))

    def definition(self) -> Definition:
        written = [each.reservation for each in self.workloads.values() if each.reservation]
        charged = [(each.cluster_queue, each.usage) for each in written]
        return Definition(self.queues, self.cohorts, charged)


CLUSTER = (
    namespace(),
    flavor(),
    queue("a", gpu=2, cohort="eng"),
    queue("b", gpu=1, cohort="eng"),
    local_queue("a"),
    local_queue("b"),
)
jobs = st.tuples(st.sampled_from("aab"), st.sampled_from((1, 2)), st.integers(0, 2))


@pytest.mark.slow
@given(
    st.lists(jobs, min_size=4, max_size=8),
    st.lists(st.sampled_from(MOVES), min_size=15, max_size=30),
)
@calm(500)
def test_what_is_written_never_exceeds_quota_however_late_the_news(
    crowd: list[tuple[str, int, int]], moves: list[str]
) -> None:
    """Without preemption: victims on their way out are the one reason to be over for a while."""
    named = [
        job(f"w{number}", queue=name, gpu=gpu, priority=priority)
        for number, (name, gpu, priority) in enumerate(crowd)
    ]
    server = Server(Engine(), CLUSTER, named)
    nothing = server.definition()
    for move in ["submit", "submit", "cycle", *moves]:
        server.do(move)
        assert [] == server.definition().overdrawn(nothing)


def apply_all(engine: Engine, *values: EngineObject) -> None:
    for value in (namespace(), flavor(), *values):
        engine.apply(ObjectStored(value=value), 0.0)


def admits(engine: Engine) -> list[str]:
    decisions = engine.cycle(0.0).decisions
    return [each.workload.key.name for each in decisions if isinstance(each, Admit)]


def test_news_from_before_an_admission_do_not_undo_it() -> None:
    engine, first, second = (
        Engine(),
        job("first", gpu=8, queue="a"),
        job("second", gpu=8, queue="a"),
    )
    apply_all(engine, queue("a", gpu=8), local_queue("a"), first, second)
    assert ["first"] == admits(engine)
    apply_all(engine, first)
    assert [] == admits(engine)


def test_a_failed_admission_gives_the_room_back() -> None:
    engine, first = Engine(), job("first", gpu=8, queue="a")
    apply_all(engine, queue("a", gpu=8), local_queue("a"), first)
    assert ["first"] == admits(engine)
    engine.apply(AdmissionFailed(key=first.key), 0.0)
    assert ["first"] == admits(engine)


def test_an_eviction_reported_without_the_admission_before_it_frees_the_room() -> None:
    """A watch may skip states: the workload was admitted and evicted before any news came."""
    engine, first = Engine(), job("first", gpu=8, queue="a")
    apply_all(engine, queue("a", gpu=8), local_queue("a"), first)
    assert ["first"] == admits(engine)
    evicted = job("first", gpu=8, queue="a", evicted=Eviction(reason="Preempted", at=1.0))
    apply_all(engine, evicted)
    assert ["first"] == admits(engine)


def test_admission_that_waits_for_pods_lets_one_workload_in_at_a_time() -> None:
    engine = Engine(Policy(block_until_ready=True))
    jobs = [job(f"{name}1", gpu=1, queue=name) for name in QUEUES]
    queues = [queue(name, gpu=8, cohort="eng") for name in QUEUES]
    apply_all(engine, *queues, *(local_queue(name) for name in QUEUES), *jobs)
    assert ["q01"] == admits(engine)
    assert [] == admits(engine)
    apply_all(engine, msgspec.structs.replace(jobs[0], finished=True))
    assert ["q11"] == admits(engine)


def test_whom_unready_pods_held_up_goes_first_although_others_have_come_before_it_since() -> None:
    """Two wait for the pods of one that runs. It is evicted, and with a new one ranks first."""
    engine = Engine(Policy(block_until_ready=True))
    runs, first, second = (
        job(f"{name}1", gpu=8, queue=name, created=float(at)) for at, name in enumerate(QUEUES[:3])
    )
    apply_all(engine, *(queue(name, gpu=8) for name in QUEUES), *map(local_queue, QUEUES))
    apply_all(engine, runs)
    assert ["q01"] == admits(engine)
    apply_all(engine, first, second)
    assert [] == admits(engine)
    apply_all(engine, job("urgent", gpu=8, queue=QUEUES[1], priority=9))
    assert [] == admits(engine)
    gone = Eviction(reason="PodsReadyTimeout", at=0.5)
    apply_all(engine, msgspec.structs.replace(runs, evicted=gone))
    assert ["q11"] == admits(engine)
    apply_all(engine, msgspec.structs.replace(first, finished=True))
    assert ["q21"] == admits(engine)
    apply_all(engine, msgspec.structs.replace(second, finished=True))
    assert ["urgent"] == admits(engine)


def test_a_slice_that_was_let_in_a_moment_ago_counts_for_the_one_that_replaces_it() -> None:
    """It holds quota before anybody has heard so, and its successor needs only the difference."""
    engine = Engine(Policy(gates=Gates.of({"ElasticJobsViaWorkloadSlices": True}, check=False)))
    small = job("small", gpu=2, queue="a")
    apply_all(engine, queue("a", gpu=4), local_queue("a"), small)
    assert ["small"] == admits(engine)
    apply_all(engine, job("large", gpu=4, queue="a", replaces=small.key))
    assert ["large"] == admits(engine)
