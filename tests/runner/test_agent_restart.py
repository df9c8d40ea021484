# SPDX-License-Identifier: Apache-2.0
"""Runner, shims and their server may be killed at any time; the work continues once."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from contextlib import suppress
from pathlib import Path

import msgspec

from kuota.api.base import Json, Key
from kuota.kube.resources import JOBS, PODS
from kuota.runner.pod_runs import end_all
from kuota.runner.processes import shim_state
from kuota.runner.run_settings import kept_settings
from runner.machine import World, container, gpus, job, one_node, pod, story

WAITS = "while ! [ -p go ]; do sleep 0.01; done; echo up; read x < go; echo $x"


def test_a_new_runner_takes_up_running_work_without_touching_it(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        await world.submit(pod("long", container(WAITS)))
        running = await world.phase("long", "Running")
        home = world.state_dir / "pods" / running["metadata"]["uid"]
        os.mkfifo(home / "root" / "go")
        await world.line("long", "up")
        await world.stop()
        world.start()
        (home / "root" / "go").write_text("went\n")
        done = await world.phase("long", "Succeeded")
        assert "up\nwent\n" == await world.log("long")
        assert 0 == done["status"]["containerStatuses"][0]["restartCount"]

    story(tmp_path, work)


def test_a_log_can_be_read_before_a_new_runner_knows_its_pods(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        await world.submit(pod("long", container("echo up; exec sleep 100")))
        await world.phase("long", "Running")
        await world.line("long", "up")
        await world.stop()
        world.start()
        assert "up\n" == await world.log("long")

    story(tmp_path, work)


def test_a_process_that_ends_while_the_runner_is_down_is_reported_later(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        await world.submit(job("brief", "sleep 0.3; exit 0"))
        (one,) = await world.some(
            PODS, lambda some: any(p["status"]["phase"] == "Running" for p in some)
        )
        await world.stop()
        folder = world.state_dir / "pods" / one["metadata"]["uid"] / "runs/main/0"
        while (state := shim_state(str(folder))) is None or state.finished is None:
            await asyncio.sleep(0.01)
        world.start()
        done = await world.until(JOBS, "brief", lambda obj: obj["status"].get("completionTime"))
        assert 1 == done["status"]["succeeded"]

    story(tmp_path, work)


def test_a_pod_deleted_while_the_runner_is_down_is_stopped(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        await world.submit(pod("orphan", container("sleep 100")))
        running = await world.phase("orphan", "Running")
        home = world.state_dir / "pods" / running["metadata"]["uid"]
        await world.stop()
        state = shim_state(str(home / "runs/main/0"))
        await world.client.delete(PODS, Key("team", "orphan"), grace_s=0)
        world.start()
        while home.exists():
            await asyncio.sleep(0.01)
        assert state is not None
        assert not Path(f"/proc/{state.pid}").exists()

    story(tmp_path, work)


def test_a_runner_that_lost_its_memory_does_not_run_work_again_unnoticed(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        await world.submit(pod("known", container("sleep 100")))
        await world.phase("known", "Running")
        await world.stop()
        first, world.state_dir = world.state_dir, tmp_path / "other"
        world.start()
        done = await world.phase("known", "Failed")
        ended = done["status"]["containerStatuses"][0]["state"]["terminated"]
        assert ("ContainerStatusUnknown", 137) == (ended["reason"], ended["exitCode"])
        await world.client.delete(PODS, Key("team", "known"))
        await world.stop()
        world.state_dir = first
        world.start()

    story(tmp_path / "first", work)


def test_a_job_that_ignores_disruptions_starts_again_after_a_reboot(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
        policy = {"rules": [ignored]}
        await world.submit(job("long", "sleep 100", backoffLimit=0, podFailurePolicy=policy))
        (first,) = await world.some(
            PODS, lambda some: any(p["status"]["phase"] == "Running" for p in some)
        )
        await world.stop()
        run = world.state_dir / "pods" / first["metadata"]["uid"] / "runs/main/0"
        _reboot(run)
        world.start()
        lost = await world.phase(first["metadata"]["name"], "Failed")
        (found,) = [each for each in lost["status"]["conditions"] if "Disruption" in each["type"]]
        assert ("True", "MachineRestarted") == (found["status"], found["reason"])
        assert "the machine restarted" in found["message"]
        await world.some(PODS, lambda some: any(p["status"]["phase"] == "Running" for p in some))

    story(tmp_path, work)


def _reboot(run: Path) -> None:
    """Let the processes of the run be those of an earlier boot, of which nothing is left."""
    state = shim_state(str(run))
    assert state is not None
    assert state.pid is not None
    for pid in (state.shim, state.pid):
        os.kill(pid, signal.SIGKILL)
    changed = msgspec.structs.replace(kept_settings(str(run)), boot="earlier")
    (run / "settings").write_bytes(msgspec.json.encode(changed))


def test_everything_can_be_ended_without_a_server(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        for name in ("one", "two"):
            await world.submit(pod(name, container("trap '' TERM; sleep 100")))
            await world.phase(name, "Running")
        await world.stop()
        assert 2 == await end_all(str(world.state_dir), grace_s=0.1)
        assert 0 == await end_all(str(world.state_dir))
        world.start()
        await world.phase("one", "Failed")

    story(tmp_path, work)


CHANCE = random.Random(4)


def kill(pid: int | None) -> None:
    if pid:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_something(world: World) -> None:
    """Kill a shim or its process; sometimes the server of shims too."""
    if CHANCE.random() < 0.2:
        kill(world.server_of_shims())
    folders = sorted(world.state_dir.glob("pods/*/runs/main/*"))
    CHANCE.shuffle(folders)
    for folder in folders:
        state = shim_state(str(folder))
        if state is not None and state.finished is None:
            kill(CHANCE.choice([state.shim, state.pid, state.shim]))
            return


def locking_job(name: str, folder: Path) -> Json:
    """Each process holds a lock of its Job's and one of its GPU's; two at once would show."""
    script = (
        f"cd {folder}; exec 9>lock-{name}; flock -n 9 || echo twice >> bad; "
        "exec 8>gpu-$CUDA_VISIBLE_DEVICES; flock -n 8 || echo shared >> bad; sleep 0.15"
    )
    return job(name, script, resources=gpus(1), backoffLimit=50)


def test_whatever_is_killed_every_job_ends_and_none_runs_twice_at_once(tmp_path: Path) -> None:
    names = [f"j{number}" for number in range(12)]

    async def work(world: World) -> None:
        for name in names:
            await world.submit(locking_job(name, tmp_path))
        for round_ in range(16):
            await asyncio.sleep(0.05)
            kill_something(world)
            if round_ % 4 == 3:
                await world.stop()
                world.start()
        for name in names:
            await world.until(JOBS, name, lambda obj: obj["status"].get("completionTime"))
        assert not (tmp_path / "bad").exists()
        assert "{}" == (world.state_dir / "devices.json").read_text()

    story(tmp_path / "state", work, one_node(gpus=4))
