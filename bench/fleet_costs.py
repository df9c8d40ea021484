# SPDX-License-Identifier: Apache-2.0
"""What a load on several API servers costs: CPU by process, requests by verb and resource."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from cluster.kube_server import KubeServer
from kuota.kube.http_client import HttpTransport

from . import process
from .request_counts import WRITES, counted

API_SERVERS = "API servers"
_RARE = 0.05
"""Requests that are rarer than this per dispatch are not printed."""

Requests = Counter[tuple[str, str, str]]
"""Numbers of requests by server, verb and resource."""


class Costs(NamedTuple):
    """What was used between two moments. `unused_s` is CPU time that no process used."""

    wall_s: float
    cpu_s: Mapping[str, float]
    unused_s: float
    requests: Requests


class Meter:
    """Measures a manager, its workers and this process. `pid` is the process of the manager."""

    def __init__(
        self, manager: KubeServer, workers: Mapping[str, KubeServer], pid: int | None = None
    ) -> None:
        self._manager, self._workers, self._pid = manager, workers, pid
        self._before: tuple[float, Mapping[str, float], float, Requests] | None = None

    async def idle(self, seconds: float) -> dict[str, float]:
        """Return how many CPUs everything uses without a load."""
        before = self._used()
        await asyncio.sleep(seconds)
        after = self._used()
        return {name: (after[name] - before[name]) / seconds for name in after}

    async def begin(self) -> None:
        requests = await self._requests()
        self._before = perf_counter(), self._used(), _unused_s(), requests

    async def end(self) -> Costs:
        """Return what was used since `begin`."""
        assert self._before is not None, "begin first"
        began, used, unused_s, requests = self._before
        wall_s, after, left_s = perf_counter() - began, self._used(), _unused_s()
        return Costs(
            wall_s,
            {name: after[name] - used[name] for name in after},
            left_s - unused_s,
            await self._requests() - requests,
        )

    def _used(self) -> dict[str, float]:
        """The CPU time of everything, in seconds."""
        servers = (self._manager, *self._workers.values())
        return {
            "manager": process.cpu_s(self._pid) if self._pid is not None else 0.0,
            API_SERVERS: sum(each.cpu_s("kube-apiserver") for each in servers),
            "etcd": self._manager.cpu_s("etcd"),
            "load and workers": process.cpu_s(os.getpid()),
        }

    async def _requests(self) -> Requests:
        found: Requests = Counter()
        servers = [("manager", self._manager), *(("workers", w) for w in self._workers.values())]
        for name, server in servers:
            transport = HttpTransport(server.connection())
            try:
                for (verb, resource), number in (await counted(transport)).items():
                    found[name, verb, resource] += number
            finally:
                await transport.close()
        return found


def _unused_s() -> float:
    """The time for which all CPUs of the machine were idle, in seconds."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()
    return int(fields[4]) / os.sysconf("SC_CLK_TCK")


def print_costs(costs: Costs, idle: Mapping[str, float], dispatches: int) -> None:
    """Print the rate, the costs of a dispatch, and the rate that the API servers allow."""
    cpus = os.cpu_count() or 1
    print(f"dispatches                {dispatches / costs.wall_s:10.1f} a second")
    print(f"wall time                 {costs.wall_s:10.1f} s, {cpus} CPUs")
    print("CPU time per dispatch, and the part of it that an idle fleet uses as well:")
    each_ms = {name: used_s / dispatches * 1000 for name, used_s in costs.cpu_s.items()}
    for name, used_ms in each_ms.items():
        idle_ms = min(used_ms, idle[name] * costs.wall_s / dispatches * 1000)
        print(f"  {name:<24}{used_ms:10.1f} ms{idle_ms:10.1f} ms")
    used = sum(costs.cpu_s.values()) / costs.wall_s
    unused = costs.unused_s / costs.wall_s
    others = max(0.0, cpus - used - unused)
    print(
        f"CPUs                      {used:10.2f} in use by these, {others:.2f} by others,", end=""
    )
    print(f" {unused:.2f} idle")
    _print_requests(costs.requests, dispatches)
    print("the CPU time alone allows, per second on these CPUs:")
    for what, cost_ms in (
        (API_SERVERS, each_ms[API_SERVERS]),
        ("API servers and etcd", each_ms[API_SERVERS] + each_ms["etcd"]),
        ("everything", sum(each_ms.values())),
    ):
        print(f"  {what:<24}{cpus * 1000 / cost_ms:10.1f} dispatches")


def _print_requests(requests: Requests, dispatches: int) -> None:
    writes = sum(number for (_, verb, _), number in requests.items() if verb in WRITES)
    print(f"writes to API servers     {writes / dispatches:10.1f} per dispatch; all requests:")
    for (server, verb, resource), number in sorted(requests.items()):
        if number / dispatches >= _RARE:
            print(f"  {server:<10}{verb:<8}{resource:<22}{number / dispatches:6.2f}")
