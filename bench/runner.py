# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.runner DIR [--config NAME] [--manager NAME] [--scale N]`: Kueue's own benchmark.

DIR is a local checkout of Kueue. Its performance runner starts etcd, an API server and a manager,
creates the queues and Workloads of one of its configurations, plays the Jobs, and measures the
manager. Here it does so with `kuota controller`, with Kueue's own minimal manager, or with both one
after the other. Needs Go for the runner, and the programs that `make kube` provides.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from cluster.kube_server import programs

from .controller_process import controller_command

_SUITE = Path("test/performance/scheduler")
_CRDS = Path("config/components/crd/bases")
_TIMEOUT = "45m"
_UNAVAILABLE = 3
MANAGERS = ("kuota", "kueue")


class Stats(msgspec.Struct, rename="camel"):
    """What the runner writes about the manager process: milliseconds, and peak memory in KiB."""

    wall_ms: int
    user_ms: int
    sys_ms: int
    maxrss: int


def build(checkout: Path, folder: Path) -> None:
    """Compile the runner and Kueue's minimal manager into the folder."""
    names = (f"./{_SUITE}/runner", f"./{_SUITE}/minimalkueue")
    command = ["nice", "-n", "10", "go", "build", "-o", f"{folder}/", *names]
    subprocess.run(command, cwd=checkout, check=True)


def generator_config(checkout: Path, name: str, scale: int, folder: Path) -> tuple[Path, int]:
    """The configuration with a `scale`-th of the Workloads, and how many those are."""
    source = checkout / _SUITE / "configs" / name / "generator.yaml"
    config = msgspec.yaml.decode(source.read_bytes())
    workloads = 0
    for cohorts in config["cohorts"]:
        for queues in cohorts["queuesSets"]:
            for each in queues["workloadsSets"]:
                each["count"] = max(1, each["count"] // scale)
                count = each["count"] * len(each["workloads"])
                workloads += cohorts["count"] * queues["count"] * count
    target = folder / "generator.yaml"
    target.write_bytes(msgspec.yaml.encode(config))
    return target, workloads


def assets(folder: Path) -> Path:
    """One folder with etcd and kube-apiserver, as the runner expects them."""
    found = programs()
    for name in ("etcd", "kube-apiserver"):
        (folder / name).symlink_to(found[name])
    return folder


def wrapper(folder: Path) -> Path:
    """A program that takes the arguments of Kueue's minimal manager and runs ours."""
    command = " ".join(controller_command(folder))
    path = folder / "kuota"
    path.write_text(f'#!/bin/sh\nexec {command} "$@" >{folder}/manager.log 2>&1\n')
    path.chmod(0o755)
    return path


def measured(checkout: Path, folder: Path, manager: str, config: Path) -> Stats:
    """Run the benchmark once with the manager. The runner's output goes to a file."""
    out = folder / manager
    out.mkdir()
    program = wrapper(out) if manager == "kuota" else folder / "bin" / "minimalkueue"
    command = [
        str(folder / "bin" / "runner"),
        f"--o={out}",
        f"--crds={checkout / _CRDS}",
        f"--generatorConfig={config}",
        f"--minimalKueue={program}",
        f"--timeout={_TIMEOUT}",
    ]
    environment = os.environ | {"KUBEBUILDER_ASSETS": str(folder / "assets")}
    with (out / "runner.log").open("wb") as log:
        done = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    if done.returncode:
        tail = (out / "runner.log").read_text(errors="replace")[-3000:]
        raise RuntimeError(f"the runner failed with {done.returncode}:\n{tail}")
    stats = (out / f"{program.name}.stats.yaml").read_bytes()
    return msgspec.yaml.decode(stats, type=Stats)


def check_finished(states: Path, workloads: int) -> None:
    """Raise RuntimeError unless so many Workloads have finished.

    The runner also ends without an error if nothing has happened for a while.
    """
    with states.open(newline="") as file:
        finished = sum(int(each["ms to finish"]) > 0 for each in csv.DictReader(file))
    if finished < workloads:
        raise RuntimeError(f"only {finished} of {workloads} Workloads have finished")


def report(manager: str, stats: Stats, workloads: int, summary: Any) -> None:
    cpu_ms = stats.user_ms + stats.sys_ms
    print(f"{manager}")
    print(f"  wall time               {stats.wall_ms / 1000:10.1f} s")
    print(f"  CPU                     {cpu_ms / workloads:10.2f} ms per workload")
    print(f"  peak memory             {stats.maxrss / 1024:10.0f} MiB")
    for name, each in sorted((summary.get("workloadClasses") or {}).items()):
        waited_s = each["averageTimeToAdmissionMs"] / 1000
        print(f"  time to admission, {name:<7}{waited_s:8.1f} s on average")
        print(f"  evictions, {name:<15}{each['totalEvictions']:8d}")
    sys.stdout.flush()


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.runner")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--config", default="baseline")
    parser.add_argument("--manager", choices=(*MANAGERS, "both"), default="both")
    parser.add_argument("--scale", type=int, default=1, help="divide the number of Workloads")
    parser.add_argument("--keep", type=Path, help="a new folder for everything the runner writes")
    return parser.parse_args(words)


def run(chosen: argparse.Namespace, folder: Path) -> None:
    (folder / "bin").mkdir(parents=True)
    (folder / "assets").mkdir()
    assets(folder / "assets")
    checkout = chosen.checkout.resolve()
    build(checkout, folder / "bin")
    config, workloads = generator_config(checkout, chosen.config, chosen.scale, folder)
    print(f"Kueue's {chosen.config}: {workloads} workloads", flush=True)
    managers = MANAGERS if chosen.manager == "both" else (chosen.manager,)
    for manager in managers:
        stats = measured(checkout, folder, manager, config)
        summary = msgspec.yaml.decode((folder / manager / "summary.yaml").read_bytes())
        unseen = summary["droppedWorkloadEvents"]
        check_finished(folder / manager / "wlStates.csv", workloads - unseen)
        report(manager, stats, workloads, summary)


def main(words: list[str]) -> int:
    chosen = arguments(words)
    if not (chosen.checkout / _SUITE).is_dir():
        print(f"bench.runner: {chosen.checkout} is no checkout of Kueue", file=sys.stderr)
        return 2
    if shutil.which("go") is None:
        print("bench.runner: Go is needed to build Kueue's runner", file=sys.stderr)
        return _UNAVAILABLE
    if chosen.keep is not None:
        run(chosen, chosen.keep.resolve())
        return 0
    with tempfile.TemporaryDirectory(prefix="kuota-runner-") as folder:
        run(chosen, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
