# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.kube [--full] [multikueue]`: Kueue's baseline shape on a real API server.

Everything is on this machine: etcd, API server, `kuota controller`, and the load. Prints what
Kueue's own suite looks at, and what it costs. Needs the programs that `make kube` provides; without
them it says so and ends. With `multikueue`, it measures the dispatch of Jobs to workers instead.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from time import perf_counter

from cluster.kube_install import install_crds
from cluster.kube_server import KubeServer, programs
from kuota.kube.http_client import HttpTransport, http_client

from . import multikueue, process
from .controller_process import controller_command
from .kube_load import Load
from .request_counts import WRITES, counted
from .shapes import BASELINE, Kind, Shape

_SCALE = 10
_NO_CLAIM = 3


def scaled(shape: Shape, down: int) -> Shape:
    """The same queues and pace, with fewer workloads each."""
    few = tuple(
        Kind(**{f: getattr(k, f) for f in k.__struct_fields__} | {"count": k.count // down})
        for k in shape.kinds
    )
    return Shape(name=shape.name, cohorts=shape.cohorts, queues=shape.queues, kinds=few)


class Controller:
    """`kuota controller` as a process, with core and scheduler and nothing else."""

    def __init__(self, server: KubeServer) -> None:
        command = controller_command(server.folder)
        command += ["--kubeconfig", str(server.kubeconfig)]
        self._log = server.folder / "controller.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    async def ended(self) -> None:
        """Raise, with what it said last, should the controller end by itself."""
        await asyncio.to_thread(self._process.wait)
        raise RuntimeError(f"the controller ended:\n{self._log.read_text()[-3000:]}")

    def cpu_s(self) -> float:
        return process.cpu_s(self._process.pid)

    def peak_mib(self) -> float:
        return process.memory_mib(self._process.pid, peak=True)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)


async def first(*ways: Coroutine[None, None, None]) -> None:
    """Return when one of them does, and give the others up."""
    tasks = [asyncio.create_task(each) for each in ways]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    for task in done:
        task.result()


async def measured(server: KubeServer, shape: Shape) -> None:
    await install_crds(server)
    client, transport = http_client(server.connection()), HttpTransport(server.connection())
    controller = Controller(server)
    try:
        before, server_cpu_s = await counted(transport), server.cpu_s("kube-apiserver")
        begin = perf_counter()
        load = Load(client, shape)
        await first(load.run(), controller.ended())
        wall_s = perf_counter() - begin
        # As in Kueue's runner, the start of the process and the creation of queues count too.
        controller_cpu_s = controller.cpu_s()
        server_cpu_s = server.cpu_s("kube-apiserver") - server_cpu_s
        report(shape, load, wall_s, controller_cpu_s, server_cpu_s, controller.peak_mib())
        report_requests(shape, await counted(transport) - before)
    finally:
        controller.stop()
        await transport.close()
        await client.close()


def report(
    shape: Shape, load: Load, wall_s: float, cpu_s: float, server_cpu_s: float, peak_mib: float
) -> None:
    count = shape.workloads
    print(f"wall time                 {wall_s:10.1f} s")
    print(f"admissions                {count / wall_s:10.1f} a second")
    for name, waits in sorted(load.waits_s.items()):
        print(f"time to admission, {name:<7}{statistics.mean(waits):10.1f} s on average")
    print(f"evictions                 {load.evictions:10d}")
    print(f"controller CPU            {cpu_s / count * 1000:10.2f} s per 1000 workloads")
    print(f"controller memory         {peak_mib:10.0f} MiB at its peak")
    print(f"API server CPU            {server_cpu_s:10.1f} s")


def report_requests(shape: Shape, requests: Counter[tuple[str, str]]) -> None:
    writes = {at: n for at, n in requests.items() if at[0] in WRITES}
    print(f"writes                    {sum(writes.values()) / shape.workloads:10.2f} a workload")
    for (verb, resource), number in sorted(writes.items(), key=lambda each: -each[1]):
        print(f"  {verb:<7}{resource:<32}{number:>8}")


def main(arguments: list[str]) -> int:
    full = "--full" in arguments
    shape = BASELINE if full else scaled(BASELINE, _SCALE)
    try:
        found = programs()
    except subprocess.CalledProcessError:
        return _NO_CLAIM
    if "multikueue" in arguments:
        multikueue.measure(found)
        return 0
    print(f"{shape.name}: {shape.workloads} workloads in {shape.cohorts * shape.queues} queues")
    with tempfile.TemporaryDirectory(prefix="kuota-bench-") as folder:
        server = KubeServer(Path(folder), found)
        server.start()
        try:
            asyncio.run(measured(server, shape))
        finally:
            server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
