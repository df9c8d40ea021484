# SPDX-License-Identifier: Apache-2.0
"""`python -m bench [NAME…]`: what engine, store and `kuota up` cost, and how that grows.

Prints; asserts nothing. Names: a shape of `shapes`, `blocked`, `growth`, `pods`, `topology`,
`preempting`, `store`, `live`, `wire`, `dashboard`; all of them by default, and `kept`, which takes
minutes, when it is named. Each figure of a shape comes from a process of its own. Compare ratios;
machines are noisy.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from .dashboard import bench_dashboard
from .drive import Cost, behind_blocked, drive
from .growth import bench_growth
from .live import bench_kept, bench_live
from .pod_groups import bench_pod_groups
from .preempting import bench_preempting
from .shapes import SHAPES, Shape, more_queues, more_workloads
from .store import bench_store
from .topology import bench_topology
from .wire import bench_wire

HEADER = (
    f"{'shape':<28}{'workloads':>10}{'queues':>8}{'per CPU s':>11}"
    f"{'CPU s/1000':>12}{'peak MiB':>10}{'growth':>8}"
)


def measured(shape: Shape) -> Cost:
    """The cost of a shape, in a fresh process so that its memory is its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(drive, shape).result()


def line(label: str, shape: Shape, cost: Cost, growth: float) -> str:
    return (
        f"{label:<28}{cost.workloads:>10}{shape.cohorts * shape.queues:>8}{cost.rate:>11.0f}"
        f"{cost.per_thousand_s:>12.3f}{cost.memory_mib:>10.0f}{growth:>8.2f}"
    )


def sweep(shape: Shape) -> None:
    """The shape once, then with two and four times the workloads, and the queues."""
    base = measured(shape)
    print(line(shape.name, shape, base, 1.0), flush=True)
    for what, grow in (("workloads", more_workloads), ("queues", more_queues)):
        for times in (2, 4):
            larger = grow(shape, times)
            cost = measured(larger)
            growth = cost.per_thousand_s / base.per_thousand_s
            print(line(f"  {times} x {what}", larger, cost, growth), flush=True)


def blocked() -> None:
    print("\nCPU ms to admit and finish one small workload behind N blocked ones in its queue:")
    for distinct in (False, True):
        kind = "each different" if distinct else "all alike"
        costs = [behind_blocked(n, distinct) for n in (10, 1000, 10_000)]
        print(f"  {kind:<16}" + "".join(f"{c:>10.2f}" for c in costs) + "   (N = 10, 1000, 10000)")


OTHERS = {
    "blocked": blocked,
    "growth": bench_growth,
    "pods": bench_pod_groups,
    "topology": bench_topology,
    "preempting": bench_preempting,
    "store": bench_store,
    "live": bench_live,
    "wire": bench_wire,
    "dashboard": bench_dashboard,
}
ON_REQUEST = {"kept": bench_kept}


def main(names: list[str]) -> int:
    known = (*SHAPES, *OTHERS, *ON_REQUEST)
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no such name: {', '.join(unknown)}; there are {', '.join(known)}")
        return 2
    chosen = [SHAPES[name] for name in names if name in SHAPES] if names else list(SHAPES.values())
    if chosen:
        print(HEADER, flush=True)
    for shape in chosen:
        sweep(shape)
    for name, bench in (OTHERS | ON_REQUEST).items():
        if name in (names or OTHERS):
            bench()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
