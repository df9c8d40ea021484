# SPDX-License-Identifier: Apache-2.0
"""What the store of the embedded API server costs: CPU and wall time of one operation each."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

from kuota.api.base import Json, Key
from kuota.server.store import Durability, Store

JOBS = "jobs.batch"
COUNT = 1000
WATCHERS = 100


def job(number: int, beat: int = 0) -> Json:
    """An object of about two kilobytes, as a Job with its status and managed fields is."""
    env = [{"name": f"VARIABLE_{i}", "value": "0123456789"} for i in range(16)]
    container = {"name": "main", "image": "registry/image:tag", "command": ["sleep"], "env": env}
    fields: Json = {f"f:field{i}": {} for i in range(40)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"job-{number}",
            "namespace": "team",
            "managedFields": [{"manager": "kubectl", "fieldsV1": fields}],
        },
        "spec": {"parallelism": 1, "template": {"spec": {"containers": [container]}}},
        "status": {"active": beat},
    }


def report(label: str, count: int, run: Callable[[], object]) -> None:
    """Run something that does `count` operations, and print what each cost."""
    cpu, wall = process_time(), perf_counter()
    run()
    cpu, wall = process_time() - cpu, perf_counter() - wall
    print(f"  {label:<44}{cpu / count * 1e6:>10.1f}{wall / count * 1e6:>10.1f}", flush=True)


def fan_out(store: Store, read: bool) -> None:
    """Every watcher receives every change; with `read`, each decodes the object for itself."""

    async def follow() -> None:
        watch, left = store.watch(JOBS), COUNT
        started.release()
        while left:
            for change in await watch.batch():
                left -= 1
                if read:
                    assert change.object

    async def story() -> None:
        readers = [asyncio.create_task(follow()) for _ in range(WATCHERS)]
        for _ in readers:
            await started.acquire()
        for number in range(COUNT):
            store.update(JOBS, job(number, 7 + read), None)
            await asyncio.sleep(0)
        await asyncio.gather(*readers)

    started = asyncio.Semaphore(0)
    asyncio.run(story())


def synced_writes(store: Store) -> None:
    async def write(number: int) -> None:
        store.update(JOBS, job(number, 6), None)
        await store.synced()

    async def story() -> None:
        await asyncio.gather(*(write(number) for number in range(COUNT)))

    asyncio.run(story())


def measure(store: Store) -> None:
    def create() -> None:
        for number in range(COUNT):
            store.create(JOBS, job(number))

    def update() -> None:
        for number in range(COUNT):
            store.update(JOBS, job(number, 1), None)

    def unchanged() -> None:
        for number in range(COUNT):
            store.update(JOBS, job(number, 1), None)

    def read() -> None:
        for number in range(COUNT):
            store.get(JOBS, Key("team", f"job-{number}"))

    report("create", COUNT, create)
    report("update", COUNT, update)
    report("update that changes nothing", COUNT, unchanged)
    report("get", COUNT, read)
    report(f"list of {COUNT}, decoded", 1, lambda: store.list(JOBS).items)
    report(f"list of {COUNT}, as bytes", 1, lambda: store.list(JOBS))
    report("page of 100 at an earlier revision", 1, lambda: store.list(JOBS, limit=100, at=COUNT))
    report(f"write seen by {WATCHERS} watchers, as bytes", COUNT, lambda: fan_out(store, False))
    report(f"write seen by {WATCHERS} watchers, decoded", COUNT, lambda: fan_out(store, True))
    report("update, synced together with others", COUNT, lambda: synced_writes(store))
    report("compaction, each entry", store.revision, lambda: store.compact(keep=0))


def bench_store() -> None:
    """Print the table, once for each way of writing."""
    for durability in (Durability.NORMAL, Durability.FULL):
        with tempfile.TemporaryDirectory() as folder:
            store = Store.open(Path(folder) / "bench.db", durability)
            print(f"\nThe store, synchronous={durability}:{'CPU us':>23}{'wall us':>10}")
            measure(store)
            store.close()
