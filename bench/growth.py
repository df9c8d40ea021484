# SPDX-License-Identifier: Apache-2.0
"""Costs that follow what changed and not what there is: each is measured at N, 4 N and 16 N.

A cost is flat when its growth, the last figure over the first, stays close to 1.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

from kuota.api import kueue
from kuota.api.base import Key, LabelSelector, ObjectMeta
from kuota.bridge.queue_status import local_queue_patch
from kuota.engine.affected import ChangeTracker
from kuota.engine.amounts import FlavorResource
from kuota.engine.engine import Engine
from kuota.engine.facts import EngineObject, ObjectDeleted, ObjectStored
from kuota.engine.model import (
    ClusterQueue,
    LocalQueue,
    Namespace,
    PodSetReservation,
    Preemption,
    Quota,
    Reservation,
    ResourceFlavor,
    ResourceGroup,
    Workload,
)
from kuota.engine.policy import FINAL_SHARE, Policy
from kuota.sim.simulation import Simulation

from .shapes import CPU, NAMESPACE, workload

TIMES = (1, 4, 16)
ROUNDS = 200


def bench_growth() -> None:
    print("\nCosts of one change; growth is from N to 16 N:")
    _line("queue passes for one deleted Workload, N queues", 50, lambda n: _passes(n, fair=False))
    _line("  the same with fair sharing, in one cohort", 50, lambda n: _passes(n, fair=True))
    _line("CPU us per LocalQueue pass, N running workloads", 500, _local_queue_pass)
    _line("CPU us per new ClusterQueue, N known workloads", 1000, _new_queue)
    _line("needs kept of a class that was tried N times", 10, _needs)


def _line(label: str, least: int, measure: Callable[[int], float]) -> None:
    found = [measure(least * times) for times in TIMES]
    figures = "".join(f"{each:>10.1f}" for each in found)
    growth = found[-1] / found[0] if found[0] else 0.0
    print(f"  {label:<52}{figures}{growth:>8.2f}   (N = {least})", flush=True)


def _passes(queues: int, *, fair: bool) -> float:
    """How many queues and cohorts are looked at again when a workload that runs is deleted."""
    engine = _engine(Policy(fair_sharing=(FINAL_SHARE,) if fair else None))
    for number in range(queues):
        _store(engine, _queue(f"q{number}", cohort="all"))
        _store(engine, LocalQueue(key=Key(NAMESPACE, f"q{number}"), cluster_queue=f"q{number}"))
    _store(engine, _running("w", "q0"))
    affected = ChangeTracker(engine).apply(
        ObjectDeleted(kind=Workload, key=Key(NAMESPACE, "w")), 0.0
    )
    return len(affected.cluster_queues) + len(affected.local_queues) + len(affected.cohorts)


def _local_queue_pass(running: int) -> float:
    engine = _engine()
    _store(engine, _queue("q"))
    _store(engine, LocalQueue(key=Key(NAMESPACE, "q"), cluster_queue="q"))
    for number in range(running):
        _store(engine, _running(f"w{number}", "q"))
    meta = ObjectMeta(name="q", namespace=NAMESPACE)
    obj = kueue.LocalQueue(metadata=meta, spec=kueue.LocalQueueSpec(cluster_queue="q"))
    return _cpu_us(lambda number: local_queue_patch(engine, obj, {}, 0.0))


def _new_queue(workloads: int) -> float:
    engine = _engine()
    for number in range(workloads):
        _store(engine, _running(f"w{number}", "elsewhere"))
    return _cpu_us(lambda number: _store(engine, _queue(f"q{number}")))


def _needs(tries: int) -> float:
    """A class refused on two flavors, one of which is free for a moment before every try."""
    world = Simulation()
    world.store(Namespace(name=NAMESPACE))
    for name in (CPU.flavor, "spot"):
        world.store(ResourceFlavor(name=name))
    world.store(_queue("q", flavors=(CPU.flavor, "spot")))
    world.store(LocalQueue(key=Key(NAMESPACE, "q"), cluster_queue="q"))
    world.store(_running("spot", "q", flavor="spot", cpu=3000))
    world.store(workload("holder-0", "q", 3000, 9, 0.0, "0", "holder"))
    world.settle()
    world.store(workload("wants", "q", 4000, 0, 0.0, "1", "wants"))
    world.settle()
    for turn in range(1, tries + 1):
        world.finish(Key(NAMESPACE, f"holder-{turn - 1}"))
        world.store(workload(f"holder-{turn}", "q", 3000, 9, 0.0, "0", "holder"))
        world.settle()
    return sum(len(each) for each in world.engine.queues["q"]._unsatisfiable._by_need.values())


def _cpu_us(work: Callable[[int], object]) -> float:
    begin = process_time()
    for number in range(ROUNDS):
        work(number)
    return (process_time() - begin) / ROUNDS * 1e6


def _engine(policy: Policy | None = None) -> Engine:
    engine = Engine(policy)
    _store(engine, Namespace(name=NAMESPACE))
    _store(engine, ResourceFlavor(name=CPU.flavor))
    return engine


def _store(engine: Engine, value: EngineObject) -> None:
    engine.apply(ObjectStored(value=value), 0.0)


def _queue(name: str, cohort: str = "", flavors: tuple[str, ...] = (CPU.flavor,)) -> ClusterQueue:
    quotas = {FlavorResource(flavor, CPU.resource): Quota(4000) for flavor in flavors}
    group = ResourceGroup(resources=(CPU.resource,), flavors=flavors, quotas=quotas)
    return ClusterQueue(
        name=name,
        cohort=cohort,
        groups=(group,),
        namespace_selector=LabelSelector(),
        preemption=Preemption(reclaim_within_cohort="Any"),
    )


def _running(name: str, queue: str, flavor: str = CPU.flavor, cpu: int = 1) -> Workload:
    asked = workload(name, queue, cpu, 0, 0.0, name, name)
    requests = {CPU.resource: cpu}
    given = PodSetReservation(
        name="main", flavors={CPU.resource: flavor}, requests=requests, count=1
    )
    usage = {FlavorResource(flavor, CPU.resource): cpu}
    held = Reservation(cluster_queue=queue, pod_sets=(given,), usage=usage, since=0.0)
    return Workload(
        key=asked.key,
        uid=asked.uid,
        queue=queue,
        pod_sets=asked.pod_sets,
        scheduling_hash=name,
        reservation=held,
        admitted=True,
    )
