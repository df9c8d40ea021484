# SPDX-License-Identifier: Apache-2.0
"""What talking to an API server costs: CPU of one write, and of one event of a watch.

The server is a process of its own that gives prepared answers over TLS, in the form in which
kube-apiserver gives them: objects of more than 2 KiB in chunks, every event in its own TLS record.
Only the CPU of the client's side is counted.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import msgspec

from kuota import loop
from kuota.api.base import Json, Key
from kuota.bridge.jobs.registry import JOB
from kuota.control.cluster_cache import ClusterCache
from kuota.kube.client import Client
from kuota.kube.clock import SystemClock
from kuota.kube.config import Connection, Pem, Secret
from kuota.kube.http_client import HttpTransport
from kuota.kube.resources import WORKLOADS
from kuota.pki.certificate import self_signed
from kuota.pki.serving import Pair

WRITES = 4_000
EVENTS = 2_000
AT_ONCE = 4
_MOMENT = "2024-01-01T00:00:00Z"
_HEAD = (
    b"HTTP/1.1 200 OK\r\n"
    b"Audit-Id: 9d3a4f7e-6b1c-4a7e-9a64-0b2f5c6d7e8f\r\n"
    b"Cache-Control: no-cache, private\r\n"
    b"Content-Type: application/json\r\n"
    b"X-Kubernetes-Pf-Flowschema-Uid: 0c0e4a3c-8a62-4c57-a6a5-5a5b1a2d3c4e\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 5d1f9f0a-2c3b-4f6e-8d7c-6b5a4c3d2e1f\r\n"
    b"Date: Mon, 01 Jan 2024 00:00:00 GMT\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


def workload(number: int) -> Json:
    """An admitted Workload with its managed fields, as one of Kueue's benchmark is stored."""
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": _metadata(number),
        "spec": {
            "active": True,
            "priority": 50,
            "queueName": "queue",
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
        "status": _status(),
    }


def _metadata(number: int) -> Json:
    fields: Json = {f"f:field{i}": {".": {}, "f:inner": {}} for i in range(24)}
    managers = ("runner", "kuota", "kueue-job-controller-Finished")
    return {
        "name": f"small-{number}",
        "namespace": "queue",
        "uid": f"00000000-0000-0000-0000-{number:012}",
        "resourceVersion": str(number + 1000),
        "generation": 1,
        "creationTimestamp": _MOMENT,
        "labels": {"kueue.x-k8s.io/performance-scheduler-class": "small"},
        "managedFields": [
            {"manager": each, "operation": "Apply", "time": _MOMENT, "fieldsV1": fields}
            for each in managers
        ],
    }


def _status() -> Json:
    conditions = [
        {
            "type": kind,
            "status": "True",
            "reason": kind,
            "message": f"{kind} in ClusterQueue cq-0-cohort-0",
            "lastTransitionTime": _MOMENT,
            "observedGeneration": 1,
        }
        for kind in ("QuotaReserved", "Admitted")
    ]
    usage = {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}}
    assignment = {"clusterQueue": "queue", "podSetAssignments": [{**usage, "count": 1}]}
    return {"admission": assignment, "conditions": conditions}


def _chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    answer = _HEAD + _chunk(msgspec.json.encode(workload(0))) + b"0\r\n\r\n"
    listing = {"metadata": {"resourceVersion": "1"}, "items": []}
    while head := await _request(reader):
        if b"watch=true" in head:
            await _stream(writer, b"/workloads" in head)
        elif head.startswith(b"GET"):
            writer.write(_HEAD + _chunk(msgspec.json.encode(listing)) + b"0\r\n\r\n")
        else:
            writer.write(answer)
    writer.close()


async def _request(reader: asyncio.StreamReader) -> bytes:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
    for each in head.lower().split(b"\r\n"):
        if each.startswith(b"content-length:"):
            await reader.readexactly(int(each.partition(b":")[2]))
    return head


async def _stream(writer: asyncio.StreamWriter, tells: bool) -> None:
    writer.write(_HEAD)
    for number in range(EVENTS if tells else 0):
        event = {"type": "ADDED", "object": workload(number)}
        writer.write(_chunk(msgspec.json.encode(event) + b"\n"))
        # One at a time, as they come about: together they would be cheaper to read.
        await asyncio.sleep(0.001)
    await asyncio.Event().wait()


def _server(pipe: Pipe, pair: Pair) -> None:
    async def main() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with TemporaryDirectory() as folder:
            path = Path(folder, "pair.pem")
            path.write_bytes(pair.certificate + pair.key)
            context.load_cert_chain(path)
        server = await asyncio.start_server(_serve, "127.0.0.1", 0, ssl=context)
        pipe.send(server.sockets[0].getsockname()[1])
        await asyncio.Event().wait()

    loop.run(main())


async def _writes(client: Client) -> None:
    """Patches as the controllers send them, some at a time."""
    body = {"metadata": {"resourceVersion": "1"}, "status": workload(0)["status"]}

    async def some(count: int) -> None:
        for number in range(count):
            key = Key("queue", f"small-{number}")
            await client.patch(WORKLOADS, key, body, subresource="status")

    await asyncio.gather(*(some(WRITES // AT_ONCE) for _ in range(AT_ONCE)))


async def _events(client: Client) -> None:
    """The controllers' informer of Workloads, without any controller."""
    workloads = ClusterCache(client, SystemClock(), [JOB]).workloads
    complete = asyncio.Event()

    def count(old: object, new: object) -> None:
        if len(workloads) == EVENTS:
            complete.set()

    workloads.observe(count)
    running = asyncio.create_task(workloads.run())
    await complete.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def _measured(connection: Connection) -> None:
    parts: list[tuple[str, int, Callable[[Client], Awaitable[None]]]] = [
        ("write of a status", WRITES, _writes),
        ("event of a watch", EVENTS, _events),
    ]
    # As the controllers' own client.
    client = Client(HttpTransport(connection), managed_fields=False)
    await client.get(WORKLOADS, Key("queue", "first"))
    for label, count, run in parts:
        began = process_time()
        await run(client)
        print(f"  {label:<44}{(process_time() - began) / count * 1e6:>10.1f}", flush=True)
    await client.close()


def bench_wire() -> None:
    print("\nAPI server over TLS: client's CPU in µs per operation")
    pair = self_signed(["127.0.0.1"], datetime.now(UTC))
    ours, theirs = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=_server, args=(theirs, pair), daemon=True)
    process.start()
    try:
        authority = Pem(text=Secret(pair.certificate.decode()))
        server = f"https://127.0.0.1:{ours.recv()}"
        loop.run(_measured(Connection(server=server, authority=authority)))
    finally:
        process.terminate()
        process.join()
