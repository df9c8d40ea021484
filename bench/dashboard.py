# SPDX-License-Identifier: Apache-2.0
"""What viewers of the dashboard cost: CPU of `kuota up`, bytes per viewer, and delay of changes.

Fifty viewers watch a page of 5,000 pending workloads over HTTPS while 100 of them change per
second. The delay is measured from the response to a change until a viewer has received the row. The
viewers and the writer are in this process, and share the machine with the server.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from time import perf_counter

import aiohttp

from kuota.api.base import Json, Key
from kuota.dashboard.sessions import CODES_PATH
from kuota.kube import resources as kinds
from kuota.kube.client import Client
from kuota.kube.config import Connection, connection
from kuota.kube.http_client import http_client

from .installation import SLOTS, Installation, installed, named, set_up_queue
from .live import all_of, report

VIEWERS = 50
WORKLOADS = 5000
CHANGES_PER_S = 100
SECONDS = 15
_VIEWS = ("workloads", "queue&name=bench", "tree")
_PRIORITY = re.compile(rb'"priority":(\d+)')
_GPU = "nvidia.com/gpu"
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None)


class Viewer:
    """One stream. `delays_s` are those of changes, which the priorities of rows identify."""

    def __init__(self, changed_at: dict[int, float]) -> None:
        self.received = 0
        self.snapshot_s = 0.0
        self.delays_s: list[float] = []
        self._changed_at = changed_at

    async def view(self, session: aiohttp.ClientSession, url: str, ready: asyncio.Event) -> None:
        """Read the stream until cancelled."""
        began, rest = perf_counter(), bytearray()
        async with session.get(url, headers={"Accept": "text/event-stream"}) as response:
            async for piece in response.content.iter_any():
                self.received += len(piece)
                # A snapshot consists of many pieces: only what is new is searched for its end.
                searched = max(0, len(rest) - 1)
                rest += piece
                if rest.find(b"\n\n", searched) < 0:
                    continue
                *events, last = bytes(rest).split(b"\n\n")
                rest = bytearray(last)
                for event in events:
                    self._take(event, perf_counter(), began)
                    ready.set()

    def _take(self, event: bytes, now: float, began: float) -> None:
        assert not event.startswith(b"event: error"), event
        if event.startswith(b"event: snapshot"):
            self.snapshot_s = self.snapshot_s or now - began
            return
        for found in _PRIORITY.findall(event):
            changed = self._changed_at.get(int(found))
            if changed is not None:
                self.delays_s.append(now - changed)


def pending(number: int) -> Json:
    """A Workload that asks for more than there is, and so keeps waiting."""
    container = {"name": "c", "image": "none", "resources": {"requests": {_GPU: str(SLOTS + 1)}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    spec = {
        "queueName": "bench",
        "priority": 1,
        "podSets": [{"name": "main", "count": 1, "template": template}],
    }
    return named("kueue.x-k8s.io/v1beta2", "Workload", f"w-{number:05}", "default", spec=spec)


async def change(client: Client, numbers: AsyncIterator[int], changed_at: dict[int, float]) -> None:
    """Change the priority of one workload after the other, at a constant rate."""

    async def one(number: int) -> None:
        key = Key("default", f"w-{number * 7919 % WORKLOADS:05}")
        await client.patch(kinds.WORKLOADS, key, {"spec": {"priority": number}})
        changed_at[number] = perf_counter()

    async with asyncio.TaskGroup() as group:
        async for number in numbers:
            group.create_task(one(number))


async def paced(first: int) -> AsyncIterator[int]:
    """Yield numbers at the rate of changes."""
    began = perf_counter()
    for at in range(CHANGES_PER_S * SECONDS):
        await asyncio.sleep(max(0.0, began + at / CHANGES_PER_S - perf_counter()))
        yield first + at


@asynccontextmanager
async def browsers(connected: Connection) -> AsyncIterator[aiohttp.ClientSession]:
    """A signed-in browser whose requests each use a connection of their own."""
    tls = ssl.create_default_context(cadata=connected.authority.read())
    tls.check_hostname = False
    connector = aiohttp.TCPConnector(ssl=tls, limit=0)
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(
        connector=connector, cookie_jar=jar, read_bufsize=2**20, timeout=_NO_TIMEOUT
    ) as session:
        token = {"Authorization": f"Bearer {connected.user.token.reveal()}"}
        async with session.post(connected.server + CODES_PATH, headers=token, json={}) as response:
            code = (await response.json())["code"]
        url = f"{connected.server}/dashboard/api/sign-in"
        async with session.post(url, json={"code": code}) as response:
            assert response.status == 204
        yield session


async def measure(measured: Installation, client: Client, connected: Connection) -> None:
    """Change workloads without viewers, and then with viewers of each view."""
    first = 1_000
    before = measured.cpu_s()
    await change(client, paced(first), {})
    alone_s = measured.cpu_s() - before
    report("without viewers", f"{alone_s / SECONDS * 100:>8.0f} % of a core")
    async with browsers(connected) as session:
        for view in _VIEWS:
            first += CHANGES_PER_S * SECONDS
            await viewed(measured, client, session, f"{connected.server}/dashboard", view, first)


async def viewed(
    measured: Installation,
    client: Client,
    session: aiohttp.ClientSession,
    base: str,
    view: str,
    first: int,
) -> None:
    changed_at: dict[int, float] = {}
    viewers = [Viewer(changed_at) for _ in range(VIEWERS)]
    ready = [asyncio.Event() for _ in viewers]
    url = f"{base}/api/stream?view={view}"
    tasks = [
        asyncio.create_task(each.view(session, url, event))
        for each, event in zip(viewers, ready, strict=True)
    ]
    for task, event in zip(tasks, ready, strict=True):
        begun = asyncio.create_task(event.wait())
        await asyncio.wait((begun, task), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            begun.cancel()
            task.result()  # Raises what ended the stream.
    received, before = sum(each.received for each in viewers), measured.cpu_s()
    await change(client, paced(first), changed_at)
    cpu_s = measured.cpu_s() - before
    await asyncio.sleep(2.0)
    sent = (sum(each.received for each in viewers) - received) / VIEWERS / SECONDS / 1024
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    slowest = max(each.snapshot_s for each in viewers)
    report(
        f"{VIEWERS} viewers of {view}",
        f"{cpu_s / SECONDS * 100:>8.0f} % of a core{sent:>8.1f} KiB/s each"
        f"{_percentile(viewers, 50):>12}{_percentile(viewers, 95):>12}"
        f"   first event after {slowest:.2f} s at most",
    )


def _percentile(viewers: list[Viewer], percent: int) -> str:
    delays = sorted(each for viewer in viewers for each in viewer.delays_s)
    if not delays:
        return ""
    return f"p{percent} {delays[len(delays) * percent // 100] * 1000:.0f} ms"


async def _story(measured: Installation) -> None:
    connected = connection(str(measured.kubeconfig))
    client = http_client(connected)
    try:
        await set_up_queue(client)
        await all_of(
            [partial(client.create, kinds.WORKLOADS, pending(at)) for at in range(WORKLOADS)]
        )
        await measure(measured, client, connected)
        report("memory of the server", f"{measured.memory_mib():>8.0f} MiB")
    finally:
        await client.close()


def bench_dashboard() -> None:
    """Print what fifty viewers cost."""
    print(f"\nDashboard: {WORKLOADS} workloads, {CHANGES_PER_S} changes per second:")
    with installed() as measured:
        asyncio.run(_story(measured))
