# SPDX-License-Identifier: Apache-2.0
"""Several control planes on this machine share jobs, and one of them loses power.

The first control plane is the manager, the others are workers. Jobs run until the trial ends them,
so that none ends before the loss on a slow machine. Exits with 0 if every job finished exactly
once, and with 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from kuota.api.base import Json

EXAMPLE = Path(__file__).parents[1] / "examples" / "fleet"
NOTES = "/tmp/kuota-fleet"
"""Where the manifest has jobs write. The trial has a folder of its own instead."""
WORK = "sleep 20"
"""What a job of the manifest does. In the trial, it waits until a file exists."""
UNTIL_ENDED = f"until [ -e {NOTES}/train.end ]; do sleep 0.2; done"
MANAGER = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
multiKueue: {workerLostTimeout: 5s, gcInterval: 5s}
"""
"""The configuration of the manager. It considers a worker as lost after a short time."""
LIMIT_S = 240.0
LOOK_S = 0.2


class Plane:
    """One control plane with its state in a folder."""

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        self.state = root / name

    def up(self, *options: str) -> None:
        self._run("up", "--state", str(self.state), *options, "--detach")

    def kuota(self, *arguments: str, stdin: str = "") -> str:
        print(f"  {self.name}$ kuota {' '.join(arguments)}", flush=True)
        return self._run(*arguments, stdin=stdin)

    def objects(self, *arguments: str) -> list[Json]:
        found: list[Json] = json.loads(self._run("get", *arguments, "-A", "-o", "json"))["items"]
        return found

    def _run(self, *arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            [sys.executable, "-m", "kuota.cli.main", *arguments],
            env={
                **os.environ,
                "KUBECONFIG": str(self.state / "kubeconfig"),
                "KUOTA_STATE": str(self.state),
            },
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{self.name}: kuota {' '.join(arguments)}: {done.stdout.strip()}")
        return done.stdout

    def cut_power(self) -> None:
        """Kill the control plane and everything that it runs, with SIGKILL."""
        for pid in [*self._pids()]:
            for each in [*_descendants(pid), pid]:
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)

    def _pids(self) -> Iterator[int]:
        """The processes that name the state directory on their command line."""
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if str(self.state).encode() in path.read_bytes():
                    yield int(path.parent.name)


def _descendants(pid: int) -> Iterator[int]:
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for each in path.read_text().split():
                yield from _descendants(int(each))
                yield int(each)


class Trial:
    """One performance in a folder of its own."""

    def __init__(self, root: Path, clusters: int) -> None:
        self._notes = root / "notes"
        self._manager = Plane(root, "manager")
        self._workers = [Plane(root, f"worker-{n}") for n in range(1, clusters)]
        self._jobs = [f"train-{n}" for n in range(1, 2 * clusters - 1)]

    def run(self) -> list[str]:
        """Tell the story. Returns what went wrong."""
        self._notes.mkdir()
        self._notes.chmod(0o1777)
        try:
            self._start()
            self._join()
            self._submit()
            self._lose(self._workers[0])
            return [*self._verdict()]
        finally:
            for each in (*self._workers, self._manager):
                with suppress(SystemExit):
                    each.kuota("down", "--state", str(each.state), "--kill")

    def _start(self) -> None:
        print(f"\nA manager and {len(self._workers)} workers start.")
        config = self._notes.with_name("manager.yaml")
        config.write_text(MANAGER)
        self._manager.up("--config", str(config), "--gpus", "0")
        for each in self._workers:
            each.up("--gpus", "2")
        for each in (self._manager, *self._workers):
            each.kuota("apply", "-f", str(EXAMPLE / "1-queues.yaml"))

    def _join(self) -> None:
        print("\nThe manager gets a kubeconfig for each worker.")
        for each in self._workers:
            file = each.state.with_suffix(".kubeconfig")
            state = ("--state", str(each.state))
            each.kuota("token", "create", "manager", "--manager", "--out", str(file), *state)
            self._manager.kuota("cluster", "add", each.name, "--kubeconfig", str(file))
        names = ", ".join(each.name for each in self._workers)
        text = (EXAMPLE / "2-manager.yaml").read_text()
        text = text.replace("worker-1, worker-2", names)
        text = text.replace("nominalQuota: 4", f"nominalQuota: {2 * len(self._workers)}")
        self._manager.kuota("apply", "-f", "-", stdin=text)

    def _submit(self) -> None:
        print(f"\n{len(self._jobs)} jobs are sent to the manager, two for each worker.")
        template = (EXAMPLE / "3-job.yaml").read_text().replace(WORK, UNTIL_ENDED)
        template = template.replace(NOTES, str(self._notes))
        text = "\n---\n".join(template.replace("train", name) for name in self._jobs)
        self._manager.kuota("apply", "-f", "-", stdin=text)
        self._until("all jobs run", lambda: all(self._starts(name) for name in self._jobs))
        print(self._manager.kuota("cluster", "list"))

    def _lose(self, lost: Plane) -> None:
        lost.cut_power()
        there = [name for name in self._jobs if lost.name in self._read(name)]
        print(f"\n{lost.name}, which runs {', '.join(there)}, loses power (kill -9).")
        self._end(*(name for name in self._jobs if name not in there))
        self._until(
            f"{' and '.join(there)} start elsewhere",
            lambda: all(self._starts(name) > 1 for name in there),
        )
        self._end(*there)
        print(f"\n{lost.name} returns.")
        lost.up("--gpus", "2")
        self._until("every job is complete", self._complete)
        self._until(
            f"no copies are left in {lost.name}",
            lambda: not lost.objects("workloads") and not lost.objects("jobs"),
        )

    def _complete(self) -> bool:
        jobs = self._manager.objects("jobs")
        return len(jobs) == len(self._jobs) and all(
            any(
                each["type"] == "Complete" and each["status"] == "True"
                for each in (job.get("status") or {}).get("conditions") or ()
            )
            for job in jobs
        )

    def _verdict(self) -> Iterator[str]:
        """Yield what is wrong with the notes of the jobs."""
        lost = self._workers[0].name
        for name in self._jobs:
            lines = self._read(name).splitlines()
            finishes = [each for each in lines if each.startswith("finish")]
            starts = [each for each in lines if each.startswith("start")]
            if len(finishes) != 1:
                yield f"{name} finished {len(finishes)} times"
            if len(starts) > 1 + (lost in starts[0]):
                yield f"{name} started {len(starts)} times"
            print(f"  {name}: {len(starts)} started, {len(finishes)} finished")

    def _end(self, *jobs: str) -> None:
        for name in jobs:
            (self._notes / f"{name}.end").touch()

    def _read(self, name: str) -> str:
        path = self._notes / name
        return path.read_text() if path.exists() else ""

    def _starts(self, name: str) -> int:
        return self._read(name).count("start")

    def _until(self, what: str, done: Callable[[], bool]) -> None:
        began = time.monotonic()
        while not done():
            if time.monotonic() - began > LIMIT_S:
                self._explain()
                sys.exit(f"it did not happen within {LIMIT_S:.0f} s that {what}")
            time.sleep(LOOK_S)
        print(f"  after {time.monotonic() - began:.1f} s: {what}", flush=True)

    def _explain(self) -> None:
        for plane in (self._manager, *self._workers):
            with suppress(SystemExit):
                print(plane.kuota("get", "workloads,jobs,pods", "-A"))
                print((plane.state / "kuota.log").read_text()[-3000:])


def main() -> int:
    parser = argparse.ArgumentParser(description="Let several control planes share jobs.")
    parser.add_argument("--clusters", type=int, default=3, help="control planes, at least 3")
    clusters = parser.parse_args().clusters
    if clusters < 3:
        parser.error("at least 3 control planes are needed: a manager and two workers")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    root = Path(tempfile.mkdtemp(prefix="kuota-fleet-"))
    root.chmod(0o711)
    faults = Trial(root, clusters).run()
    for each in faults:
        print(f"NOT AS EXPECTED: {each}", file=sys.stderr)
    print("\nEvery job finished exactly once." if not faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
