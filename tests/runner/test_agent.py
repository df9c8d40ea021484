# SPDX-License-Identifier: Apache-2.0
"""Pods as processes on one machine."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kuota.api.base import Json, Key
from kuota.kube.resources import CONFIG_MAPS, JOBS, PODS, SECRETS
from kuota.runner.run_as import RunAsPolicy
from kuota.runner.shim import ENTER
from kuota.runner.start_failures import start_failure
from runner.machine import World, container, job, pod, story


def state(obj: Json, kind: str = "containerStatuses", at: int = 0) -> Json:
    found: Json = obj["status"][kind][at]["state"]
    return found


def condition(obj: Json, type_: str) -> Json:
    (found,) = [each for each in obj["status"]["conditions"] if each["type"] == type_]
    result: Json = found
    return result


def test_a_pod_runs_its_command_and_reports_how_it_ended(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        await world.submit(pod("hello", container("echo hello; exit 3")))
        done = await world.phase("hello", "Failed")
        ended = state(done)["terminated"]
        assert (3, "Error") == (ended["exitCode"], ended["reason"])
        assert "hello\n" == await world.log("hello")
        assert "here" == done["spec"]["nodeName"]
        assert "False" == condition(done, "Ready")["status"]

    story(tmp_path, work)


def test_the_pod_says_that_its_image_was_not_pulled(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        limits = {"limits": {"cpu": "1"}}
        await world.submit(pod("plain", container("true", resources=limits)))
        done = await world.phase("plain", "Succeeded")
        said = condition(done, "kuota.dev/LocalProcess")
        assert "image busybox is recorded, not pulled" in said["message"]
        assert "not enforced: there is no cgroup v2 in tests" in said["message"]

    story(tmp_path, work)


def test_a_working_directory_that_cannot_be_created_is_reported() -> None:
    said = start_failure("true", "/absent", ENTER, errno.EACCES)
    assert said.startswith("cannot enter or create the working directory '/absent': Permission")


@pytest.mark.parametrize(
    ("program", "mode", "code", "expected"),
    [
        ("no-such-program", None, 127, "command 'no-such-program' not found: the user of the pod"),
        ("echo hello", None, 127, "write its words as separate arguments, or pass it to sh -c"),
        ("{}/absent.sh", None, 127, "command '{}/absent.sh' not found: the user of the pod finds"),
        ("{}/notes.txt", 0o644, 126, "cannot execute '{}/notes.txt': Permission denied for the"),
        ("{}/script", 0o755, 126, "its first line must name an interpreter, such as #!/bin/sh"),
    ],
)
def test_a_pod_that_cannot_start_names_its_program_and_the_remedy(
    tmp_path: Path, program: str, mode: int | None, code: int, expected: str
) -> None:
    named = program.format(tmp_path)
    if mode is not None:
        Path(named).write_text("echo hello\n")
        Path(named).chmod(mode)

    async def work(world: World) -> None:
        await world.submit(pod("wrong", {**container(""), "command": [named]}))
        ended = state(await world.phase("wrong", "Failed"))["terminated"]
        assert ("StartError", code) == (ended["reason"], ended["exitCode"])
        assert expected.format(tmp_path) in ended["message"]

    story(tmp_path, work)


def test_without_a_command_the_pod_fails_and_says_what_to_do(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        await world.submit(pod("bare", {"name": "main", "image": "nginx"}))
        ended = state(await world.phase("bare", "Failed"))["terminated"]
        assert ("StartError", 128) == (ended["reason"], ended["exitCode"])
        assert "set `command`" in ended["message"]

    story(tmp_path, work)


def test_init_containers_run_in_order_before_the_others(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        mounts = [{"name": "shared", "mountPath": "/shared"}]
        await world.submit(
            pod(
                "steps",
                container("cat shared/log", volumeMounts=mounts),
                initContainers=[
                    container("echo one >> shared/log", "one", volumeMounts=mounts),
                    container("echo two >> $KUOTA_VOLUME_SHARED/log", "two", volumeMounts=mounts),
                ],
                volumes=[{"name": "shared", "emptyDir": {}}],
            )
        )
        done = await world.phase("steps", "Succeeded")
        assert "one\ntwo\n" == await world.log("steps")
        assert "Completed" == state(done, "initContainerStatuses")["terminated"]["reason"]

    story(tmp_path, work)


def test_a_sidecar_runs_beside_the_others_and_goes_after_them(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        side = container("trap 'echo bye; exit 0' TERM; echo up; sleep 100 & wait", "side")
        await world.submit(
            pod(
                "pair", container("sleep 0.1"), initContainers=[{**side, "restartPolicy": "Always"}]
            )
        )
        await world.phase("pair", "Succeeded")
        assert "up\nbye\n" == await world.log("pair", "side")

    story(tmp_path, work)


def test_the_environment_comes_from_everywhere(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        meta = {"name": "settings", "namespace": "team"}
        await world.client.create(CONFIG_MAPS, {"metadata": meta, "data": {"colour": "blue"}})
        await world.client.create(SECRETS, {"metadata": meta, "data": {"word": "czNjcmV0"}})
        env = [
            {"name": "PLAIN", "value": "a"},
            {"name": "BOTH", "value": "$(PLAIN)-$(colour)-$$(PLAIN)-$(NONE)"},
            {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "settings", "key": "word"}}},
        ]
        script = 'echo "$PLAIN $BOTH $ME $NODE $CPU $WORD [$CUDA_VISIBLE_DEVICES] $1"'
        talker = container(
            script,
            env=env,
            envFrom=[{"configMapRef": {"name": "settings"}}],
            args=["sh", "$(colour)"],
            resources={"limits": {"cpu": "2500m"}},
        )
        await world.submit(pod("talker", talker))
        await world.phase("talker", "Succeeded")
        expected = "a a-blue-$(PLAIN)-$(NONE) talker here 3 s3cret [] blue\n"
        assert expected == await world.log("talker")

    story(tmp_path, work)


def test_a_pod_waits_for_a_config_map_that_is_not_there_yet(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        ref = {"configMapKeyRef": {"name": "late", "key": "word"}}
        await world.submit(
            pod("early", container("echo $W", env=[{"name": "W", "valueFrom": ref}]))
        )
        await world.until(
            PODS,
            "early",
            lambda obj: (
                obj["status"].get("containerStatuses")
                and state(obj).get("waiting", {}).get("reason") == "CreateContainerConfigError"
            ),
        )
        meta = {"name": "late", "namespace": "team"}
        await world.client.create(CONFIG_MAPS, {"metadata": meta, "data": {"word": "here"}})
        await world.phase("early", "Succeeded")
        assert "here\n" == await world.log("early")

    story(tmp_path, work)


def test_a_failing_container_is_started_again_until_it_succeeds(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        script = "echo try; test -e done && exit 0; test -e once && touch done; touch once; exit 1"
        await world.submit(pod("stubborn", container(script), restartPolicy="OnFailure"))
        done = await world.phase("stubborn", "Succeeded")
        (status,) = done["status"]["containerStatuses"]
        assert (2, 1) == (status["restartCount"], status["lastState"]["terminated"]["exitCode"])
        assert "try\n" == await world.log("stubborn", previous=True)

    story(tmp_path, work)


def test_deleting_a_pod_gives_it_time_to_save_its_work(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        saved = tmp_path / "saved"
        script = f"trap 'sleep 0.1; echo work > {saved}; exit 0' TERM; echo up; sleep 100 & wait"
        await world.submit(pod("saver", container(script), terminationGracePeriodSeconds=20))
        await world.phase("saver", "Running")
        await world.line("saver", "up")
        await world.client.delete(PODS, Key("team", "saver"))
        await world.gone(PODS, "saver")
        assert "work\n" == saved.read_text()

    story(tmp_path / "state", work)


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        (["n" * 256], "a name has at most 255 bytes"),
        (["x", "x/y"], "Not a directory: 'x': a path is used as a file and as a directory"),
        (["x/y", "x"], "Is a directory: 'x': a path is used as a file and as a directory"),
    ],
)
def test_a_pod_fails_if_its_files_can_never_be_created(
    tmp_path: Path, paths: list[str], reason: str
) -> None:
    async def work(world: World) -> None:
        meta = {"name": "settings", "namespace": "team"}
        await world.client.create(CONFIG_MAPS, {"metadata": meta, "data": {"key": "x"}})
        items = [{"key": "key", "path": path} for path in paths]
        volume = {"name": "v", "configMap": {"name": "settings", "items": items}}
        await world.submit(pod("never", container("true"), volumes=[volume]))
        failed = await world.phase("never", "Failed")
        ended = state(failed)["terminated"]
        assert "StartError" == ended["reason"]
        assert reason in ended["message"]

    story(tmp_path, work)


def test_a_pod_that_is_active_for_too_long_fails(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        await world.submit(pod("slow", container("sleep 100"), activeDeadlineSeconds=1))
        done = await world.phase("slow", "Failed")
        assert "DeadlineExceeded" == done["status"]["reason"]

    story(tmp_path, work)


def test_a_job_runs_to_its_end(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        await world.submit(
            job("count", "echo $JOB_COMPLETION_INDEX", completionMode="Indexed", completions=3)
        )
        done = await world.until(JOBS, "count", lambda obj: obj["status"].get("completionTime"))
        assert ("0-2", 3) == (done["status"]["completedIndexes"], done["status"]["succeeded"])

    story(tmp_path, work)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can switch to another user")
def test_a_process_of_another_user_runs_as_that_user(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        obj = pod("other", container("id -u; echo mine > file; stat -c %u file"))
        obj["metadata"]["annotations"] = {"kuota.dev/run-as-uid": "65534"}
        for folder in (tmp_path, *tmp_path.parents):
            if folder.stat().st_uid == 0 and str(folder).startswith("/tmp/pytest"):
                folder.chmod(0o711)
        await world.submit(obj)
        await world.phase("other", "Succeeded")
        assert "65534\n65534\n" == await world.log("other")

    story(tmp_path, work, run_as=RunAsPolicy(uid=0))


def test_logs_are_followed_to_their_end_and_can_be_cut(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        await world.submit(pod("writer", container("for i in 1 2 3; do echo $i; sleep 0.05; done")))
        await world.phase("writer", "Running")
        assert "1\n2\n3\n" == await world.log("writer", follow=True)
        assert "3\n" == await world.log("writer", tail=1)
        assert "1\n2" == await world.log("writer", limit_bytes=3)
        assert "" == await world.log("writer", since=4e9)
        stamped = (await world.log("writer", timestamps=True, tail=1)).split()
        assert ("3", "Z") == (stamped[1], stamped[0][-1])

    story(tmp_path, work)
