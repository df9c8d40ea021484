# SPDX-License-Identifier: Apache-2.0
"""Two training processes contend for this machine's GPU: starts all, tells it, and judges it.

Exits with 0 if everything that examples/two-trainers promises was seen to be true, with 1 if not,
and with 2 on a machine without a GPU; `--pretend` tells the same story there with a pretend one.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpu_verdict import BYSTANDER, Claim, Record, at_once, claims, parsed, runs
from kuota.api.base import Json
from kuota.api.manifest_yaml import load_all
from kuota.cli.kinds import resource_for
from kuota.cli.session import Session, opened
from kuota.kube.config import from_kubeconfig
from kuota.kube.requests import PatchType
from kuota.kube.resources import key_of
from kuota.runner.inventory import GPU, found_gpus
from kuota.up.demo import EventType, Expectation, TimedEvent
from kuota.up.event_log import EventLog

EXAMPLE = Path(__file__).parents[1] / "examples" / "two-trainers"
SAVES = "/tmp/kuota-two-trainers"
"""Where the manifests have work saved. The trial has a folder of its own instead."""
LOW, HIGH, LOOK = "training/low", "training/high", "training/bystander"
LIMIT_S = 120.0
LOOK_S = 0.05
PROBE = "import ctypes, json, sys; sys.exit(ctypes.CDLL('libcuda.so.1').cuInit(0))"
PRETEND_PROBE = "import ctypes, json"


class Trial:
    """One performance in a folder of its own."""

    def __init__(self, root: Path, pretend: bool) -> None:
        self._root = root / "state"
        self._pretend = pretend
        self._saves = root / "saved"
        self._start = time.monotonic()
        self._looks: set[frozenset[int]] = set()
        self._session: Session | None = None

    def run(self) -> Sequence[Claim]:
        """Tell the story; returns what it showed. Raises TimeoutError where it does not go on."""
        self._saves.mkdir()
        self._saves.chmod(0o1777)
        gpus = ("--gpus", "1") if self._pretend else ()
        kind = "a pretend GPU" if self._pretend else ", ".join(found_gpus().ids[GPU])
        print(f"Starting a control plane with {kind} in {self._root}", flush=True)
        try:
            self._kuota("up", "--state", str(self._root), *gpus, *_user(self._pretend), "--detach")
            asyncio.run(self._run_trial())
        except TimeoutError:
            self._explain()
            raise
        finally:
            self._kuota("down", "--state", str(self._root), "--kill")
        return self._claims()

    async def _run_trial(self) -> None:
        async with opened(from_kubeconfig([self._root / "kubeconfig"])) as session:
            log = EventLog(session.client, _report, (LOW, HIGH, LOOK), self._start)
            self._session = session
            watching = [asyncio.create_task(log.run())]
            if not self._pretend:
                watching.append(asyncio.create_task(self._look()))
            try:
                async with asyncio.timeout(LIMIT_S):
                    await self._run_steps(log)
            finally:
                for each in watching:
                    each.cancel()
                    with suppress(asyncio.CancelledError):
                        await each

    async def _run_steps(self, log: EventLog) -> None:
        await self._apply("1-queues.yaml")
        await self._send(_config_map())
        print("\nA job of low priority trains on the GPU.")
        await self._apply("2-low.yaml")
        await log.until(Expectation(LOW, EventType.SAYS, "step 10 "))
        print("\nMeanwhile, a process that asked for no GPU looks for one.")
        await self._apply("3-bystander.yaml")
        await self._noted(lambda each: each.name == BYSTANDER)
        print(
            "\nA job of high priority needs the GPU. The other one has to go, and saves its work."
        )
        await self._apply("4-high.yaml")
        await log.until(Expectation(LOW, EventType.PREEMPTED))
        await log.until(Expectation(HIGH, EventType.FINISHED))
        print("\nThe GPU is free again: the first goes on where it was.")
        await log.until(Expectation(LOW, EventType.FINISHED))

    async def _noted(self, wanted: Callable[[Record], bool]) -> None:
        while not any(map(wanted, self._records())):
            await asyncio.sleep(LOOK_S)

    async def _look(self) -> None:
        """Look, from the outside, which processes use the GPU, for as long as it goes on."""
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
        device = nvml.nvmlDeviceGetHandleByIndex(0)
        while True:
            with suppress(nvml.NVMLError):
                found = nvml.nvmlDeviceGetComputeRunningProcesses(device)
                self._looks.add(frozenset(each.pid for each in found))
            await asyncio.sleep(LOOK_S)

    async def _apply(self, name: str) -> None:
        print(f"         $ kubectl apply -f examples/{EXAMPLE.name}/{name}", flush=True)
        text = (EXAMPLE / name).read_text().replace(SAVES, str(self._saves))
        for each in load_all(text):
            await self._send(each)

    async def _send(self, obj: Json) -> None:
        assert self._session is not None
        resource = await resource_for(self._session, obj["apiVersion"], obj["kind"])
        assert resource is not None
        await self._session.client.patch(
            resource, key_of(obj), obj, kind=PatchType.APPLY, validation="Strict"
        )

    def _kuota(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "kuota.cli.main", *arguments],
            env={**os.environ, "KUBECONFIG": str(self._root / "kubeconfig")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"kuota {arguments[0]}: {done.stdout.strip()}")
        return done.stdout

    def _records(self) -> list[Record]:
        path = self._saves / "records.jsonl"
        return parsed(path.read_bytes()) if path.exists() else []

    def _claims(self) -> list[Claim]:
        records = self._records()
        found = list(claims(records))
        together = at_once(self._looks, [each.pid for each in runs(records)])
        if together is not None:
            text = f"NVML, asked every {LOOK_S:.2f} s, never named more than one of them at once"
            found.append(Claim(text, together == 1))
        elif not self._pretend:
            print("\nNVML does not tell which processes use the GPU here.")
        return found

    def _explain(self) -> None:
        """Show all there is to see of a story that does not go on."""
        for kind in ("workloads", "jobs", "pods", "events"):
            print(f"\n{self._kuota('get', kind, '-A')}")
        for each in self._records():
            print(each)
        for path in (self._root / "kuota.log", *self._root.glob("pods/**/*.log")):
            print(f"\n{path}:\n{path.read_text(errors='replace')[-2000:]}")


def _config_map() -> Json:
    """The trainer's files, as `kubectl create configmap --from-file` would send them."""
    files = [each for each in (EXAMPLE / "trainer").iterdir() if each.is_file()]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "trainer", "namespace": "training"},
        "data": {each.name: each.read_text() for each in files},
    }


def _user(pretend: bool) -> Sequence[str]:
    """As root, the processes run as nobody, where nobody can use Python and the GPU."""
    if os.geteuid() != 0:
        return ()
    probe = ["python3", "-c", PRETEND_PROBE if pretend else PROBE]
    group = pwd.getpwnam("nobody").pw_gid
    done = subprocess.run(probe, user="nobody", group=group, extra_groups=(), cwd="/", check=False)
    if done.returncode == 0:
        return ("--run-as", "nobody")
    print("The user nobody cannot use python3 or the GPU: the trainers run as root.")
    return ("--run-as", "root", "--allow-root")


def _report(timed: TimedEvent) -> None:
    event = timed.event
    text = f"│ {event.text}" if event.what is EventType.SAYS else event.text
    print(f"{timed.at_s:6.1f}s  {event.who:18} {text}", flush=True)


def _missing() -> str:
    """Why there can be no trial here; empty if there can."""
    if importlib.util.find_spec("pynvml") is None:
        return "nvidia-ml-py is not installed"
    return "" if found_gpus().ids.get(GPU) else "NVML finds no whole NVIDIA GPU"


def main() -> int:
    parser = argparse.ArgumentParser(description="Let two trainers contend for one GPU.")
    parser.add_argument("--pretend", action="store_true", help="with a pretend GPU")
    pretend = parser.parse_args().pretend
    missing = "" if pretend else _missing()
    if missing:
        print(f"There is no GPU to try this on: {missing}. See it with --pretend.", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    root = Path(tempfile.mkdtemp(prefix="kuota-gpu-"))
    root.chmod(0o711)
    try:
        found = Trial(root, pretend).run()
    except TimeoutError:
        print(f"\nIt did not go on within {LIMIT_S:.0f} s.", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print()
    for each in found:
        print(f"{'yes' if each.holds else 'NO '}  {each.text}")
    return 0 if all(each.holds for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
