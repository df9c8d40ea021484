# SPDX-License-Identifier: Apache-2.0
"""What `kuota up` costs as a whole: latency, throughput, requests, watches, idling, memory.

Real processes, a client over HTTPS. CPU is that of the one process that is server, controllers and
runner; shims, the work itself and this client are not in it, but share the machine.
"""

from __future__ import annotations

import asyncio
import os
import statistics
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from time import perf_counter

from kuota.api.base import Key
from kuota.kube import resources as kinds
from kuota.kube.client import Client
from kuota.kube.config import connection
from kuota.kube.http_client import http_client

from .installation import Installation, installed, job, named, set_up_queue

TRIES = 40
SHORT_JOBS = 1000
KEPT_JOBS = 10_000
REQUESTS = 2000
CONNECTIONS = 16
WATCHERS = 100
WATCHED = 200
IDLE_S = 10.0
QUIET_S = 3.0
_OBJECT = Key("default", "bench")


class Meter:
    """CPU of the installation and wall time since it was made."""

    def __init__(self, measured: Installation) -> None:
        self._measured = measured
        self._cpu_s, self._at = measured.cpu_s(), perf_counter()

    def rates(self, count: int) -> str:
        wall_s, cpu_s = perf_counter() - self._at, self._measured.cpu_s() - self._cpu_s
        return f"{count / wall_s:>12.1f} a second{cpu_s / count * 1e6:>12.0f} CPU us each"


def report(label: str, figures: str) -> None:
    print(f"  {label:<42}{figures}", flush=True)


async def all_of(calls: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Make the calls, as many at once as there are connections."""
    left = iter(calls)

    async def work() -> None:
        for call in left:
            await call()

    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))


async def finished(client: Client, names: set[str], since: str) -> None:
    """Wait until every one of the Jobs is done."""
    async for event in client.watch(kinds.JOBS, "default", since=since):
        conditions = (event.object.get("status") or {}).get("conditions") or ()
        if any(each["type"] == "Complete" for each in conditions):
            names.discard(event.object["metadata"]["name"])
        if not names:
            return


async def latency(measured: Installation, client: Client) -> None:
    """From the request that creates a Job to the first thing that its process does."""
    pipe = measured.folder / "started"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    descriptor = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    started: asyncio.Queue[float] = asyncio.Queue()

    def heard() -> None:
        os.read(descriptor, 64)
        started.put_nowait(perf_counter())

    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, heard)
    since = (await client.list(kinds.JOBS, "default")).revision
    waits_ms = []
    for number in range(TRIES):
        begin = perf_counter()
        name = f"single-{number}"
        await client.create(kinds.JOBS, job(name, "sh", "-c", f"echo > {pipe}"))
        waits_ms.append((await started.get() - begin) * 1000)
        await finished(client, {name}, since)
    loop.remove_reader(descriptor)
    os.close(descriptor)
    p50, p95 = statistics.median(waits_ms), statistics.quantiles(waits_ms, n=20)[18]
    report(f"submit to process, {TRIES} times when idle", f"{p50:>9.0f} ms p50{p95:>9.0f} ms p95")


async def throughput(measured: Installation, client: Client, count: int, prefix: str) -> None:
    names = [f"{prefix}-{number}" for number in range(count)]
    since = (await client.list(kinds.JOBS, "default")).revision
    meter = Meter(measured)
    waiting = asyncio.create_task(finished(client, set(names), since))
    await all_of(partial(client.create, kinds.JOBS, job(name, "true")) for name in names)
    await waiting
    report(f"{count} short Jobs through one queue", meter.rates(count))


async def requests(measured: Installation, client: Client) -> None:
    config = named("v1", "ConfigMap", "bench", "default", data={"key": "value" * 100})
    await client.create(kinds.CONFIG_MAPS, config)
    meter = Meter(measured)
    await all_of(partial(client.get, kinds.CONFIG_MAPS, _OBJECT) for _ in range(REQUESTS))
    report("reads of one object", meter.rates(REQUESTS))
    meter = Meter(measured)
    await all_of(_change(client, number) for number in range(REQUESTS))
    report("merge patches of one object", meter.rates(REQUESTS))


def _change(client: Client, number: int) -> Callable[[], Awaitable[object]]:
    return partial(client.patch, kinds.CONFIG_MAPS, _OBJECT, {"data": {"number": str(number)}})


async def fan_out(measured: Installation, client: Client) -> None:
    since = (await client.list(kinds.CONFIG_MAPS, "default")).revision

    async def follow() -> None:
        left = WATCHED
        async for _ in client.watch(kinds.CONFIG_MAPS, "default", since=since):
            left -= 1
            if not left:
                return

    meter = Meter(measured)
    watchers = [asyncio.create_task(follow()) for _ in range(WATCHERS)]
    await all_of(_change(client, -number) for number in range(WATCHED))
    await asyncio.gather(*watchers)
    report(f"events, each to {WATCHERS} watchers", meter.rates(WATCHED * WATCHERS))


async def settled(client: Client) -> None:
    """Wait until nothing is written any more: Events of a flood leave slowly."""
    before = ""
    while before != (now := (await client.list(kinds.NAMESPACES)).revision):
        before = now
        await asyncio.sleep(QUIET_S)


async def idle(measured: Installation, client: Client, label: str) -> None:
    await settled(client)
    cpu_s = measured.cpu_s()
    await asyncio.sleep(IDLE_S)
    share = (measured.cpu_s() - cpu_s) / IDLE_S * 100
    report(f"idle, {label}", f"{share:>10.2f} % CPU{measured.memory_mib():>16.0f} MiB")


async def comeback(measured: Installation, kept: int) -> None:
    """What a restart costs: until it answers, until the next Job is done, until all is quiet."""
    begin = perf_counter()
    await asyncio.to_thread(measured.restart)
    up_s = perf_counter() - begin
    client = http_client(connection(str(measured.kubeconfig)))
    try:
        since = (await client.list(kinds.NAMESPACES)).revision
        await client.create(kinds.JOBS, job("next", "true"))
        await finished(client, {"next"}, since)
        done_s = perf_counter() - begin
        await settled(client)
    finally:
        await client.close()
    figures = f"{up_s:>11.1f} s{done_s:>8.1f} s to the next Job{measured.cpu_s():>8.1f} s CPU"
    report(f"restart, {kept} finished Jobs kept", figures)


async def story(measured: Installation, kept: int) -> None:
    client = http_client(connection(str(measured.kubeconfig)))
    try:
        await set_up_queue(client)
        await idle(measured, client, "nothing stored")
        await latency(measured, client)
        await throughput(measured, client, SHORT_JOBS, "short")
        await idle(measured, client, f"{TRIES + SHORT_JOBS} finished Jobs kept")
        await requests(measured, client)
        await fan_out(measured, client)
        if kept:
            await throughput(measured, client, kept - SHORT_JOBS - TRIES, "kept")
            await idle(measured, client, f"{kept} finished Jobs kept")
            await comeback(measured, kept)
    finally:
        await client.close()


def bench_live() -> None:
    """Print the figures of one installation."""
    print("\nkuota up, the whole of it:")
    with installed() as measured:
        asyncio.run(story(measured, 0))


def bench_kept() -> None:
    """The same, until very many finished Jobs are kept. This takes minutes."""
    print(f"\nkuota up, and {KEPT_JOBS} Jobs of it:")
    with installed() as measured:
        asyncio.run(story(measured, KEPT_JOBS))
