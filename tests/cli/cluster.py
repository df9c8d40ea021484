# SPDX-License-Identifier: Apache-2.0
"""A running API server for tests of commands, and `kuota` as a process that talks to it.

There is no controller and no runner: tests replace both through the same API.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from click.testing import CliRunner, Result

from hang import HANG_S
from kuota.api.base import Json, Key
from kuota.cli.main import main
from kuota.kube.client import Client
from kuota.kube.resources import JOBS, PODS, Resource
from kuota.server.api import ApiServer
from kuota.server.http import HttpServer
from kuota.server.pods import LogOptions
from kuota.server.requests import ADMINS, User
from kuota.server.store import Store
from kuota.server.tokens import Tokens
from kuota.up.local import SYSTEM, LocalTransport

T = TypeVar("T")
TOKEN = "admin-token"
MEMBER_TOKEN = "member-token"
"""That of somebody in the team vision."""

_USERS = (
    (TOKEN, User("admin", (ADMINS, "system:authenticated"))),
    (MEMBER_TOKEN, User("ann", ("vision", "system:authenticated"))),
)


class Cluster:
    """An API server on a free port. Its methods play controller and runner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.socket = folder / "kuota.sock"
        self.program = str(Path(sys.executable).with_name("kuota"))
        self.client: Client
        self.logs: dict[str, asyncio.Queue[bytes]] = {}
        self._timers: list[threading.Timer] = []
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready: Future[int] = Future()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self.port = self._ready.result(HANG_S)
        self._write_kubeconfig()

    def _write_kubeconfig(self) -> None:
        server = {"server": f"http://127.0.0.1:{self.port}"}
        content = {
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": server}],
            "users": [{"name": "test", "user": {"token": TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }
        self.kubeconfig.write_bytes(msgspec.yaml.encode(content))

    def close(self) -> None:
        for timer in self._timers:
            timer.cancel()
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(HANG_S)

    def _serve(self) -> None:
        self._loop.run_until_complete(self._served())
        self._loop.close()

    async def _served(self) -> None:
        store = Store.open(":memory:")
        api = ApiServer(store, tokens=Tokens(_USERS), logs=self._log)
        await api.start()
        self.client = Client(LocalTransport(api, SYSTEM))
        self.api = api
        self._server = HttpServer(api)
        await self._server.listen_unix(self.socket)
        self._ready.set_result(await self._server.listen())
        await self._stop.wait()
        await self._server.close()
        await api.close()
        store.close()

    async def _log(self, pod: Json, options: LogOptions) -> AsyncIterator[bytes]:
        """What `write` was told, to the empty word that `end` puts there."""
        queue = self.logs.setdefault(pod["metadata"]["name"], asyncio.Queue())
        while options.follow or not queue.empty():
            chunk = await queue.get()
            if not chunk:
                return
            yield chunk
            queue.task_done()

    def revoke_tokens(self) -> None:
        """Close all connections, and know nobody from now on."""

        async def restart() -> None:
            await self._server.close()
            self.api.credentials.tokens = Tokens(())
            self._server = HttpServer(self.api)
            await self._server.listen(port=self.port)

        self.do(restart())

    def do(self, work: Any) -> Any:
        """Run a coroutine on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(HANG_S)

    def create(self, resource: Resource, obj: Json) -> Json:
        made: Json = self.do(self.client.create(resource, obj))
        return made

    def get(self, resource: Resource, name: str, namespace: str = "default") -> Json:
        key = Key(namespace if resource.namespaced else "", name)
        found: Json = self.do(self.client.get(resource, key))
        return found

    def delete(self, resource: Resource, name: str) -> None:
        """Delete an object of the default namespace, and in the background what it owns."""
        self.do(self.client.delete(resource, Key("default", name), propagation="Background"))

    def names(self, resource: Resource) -> list[str]:
        return [each["metadata"]["name"] for each in self.do(self.client.list(resource)).items]

    def status(self, resource: Resource, name: str, status: Json) -> Json:
        """Write an object's status, as its controller would."""
        key = Key("default" if resource.namespaced else "", name)
        patch = self.client.patch(resource, key, {"status": status}, subresource="status")
        changed: Json = self.do(patch)
        return changed

    def appeared(self, resource: Resource) -> Json:
        """The first object of the kind, as soon as there is one."""

        async def first() -> Json:
            listed = await self.client.list(resource)
            if listed.items:
                return listed.items[0]
            async for event in self.client.watch(resource, since=listed.revision):
                return event.object
            raise AssertionError("the watch ended")

        return self.do(first())  # type: ignore[no-any-return]

    def write(self, pod: str, text: bytes) -> None:
        """Let the pod say something; b"" ends what it says."""

        async def put() -> None:
            self.logs.setdefault(pod, asyncio.Queue()).put_nowait(text)

        self.do(put())

    def read(self, pod: str) -> None:
        """Wait until somebody has read everything that the pod wrote."""
        self.do(self.logs[pod].join())

    def start_pod(self, job: Json, name: str, phase: str = "Running") -> None:
        """A pod of the Job, running or in another phase."""
        metadata = job["metadata"]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": metadata["namespace"],
                "labels": {"batch.kubernetes.io/job-name": metadata["name"]},
                "ownerReferences": [reference(job)],
            },
            "spec": job["spec"]["template"]["spec"],
        }
        self.create(PODS, pod)
        if phase == "Running":
            self.status(PODS, name, pod_status(phase, {"running": {}}))

    def end_pod(self, name: str, code: int) -> None:
        self.write(name, b"")
        phase = "Failed" if code else "Succeeded"
        self.status(PODS, name, pod_status(phase, {"terminated": {"exitCode": code}}))

    def end_job(self, name: str, kind: str = "Complete", reason: str = "") -> None:
        done = {"type": kind, "status": "True", "reason": reason, "message": reason}
        self.status(JOBS, name, {"conditions": [done]})

    def start(self, *args: str, stdin: str | None = None, **env: str) -> subprocess.Popen[str]:
        """`kuota` with these arguments, talking to this server."""
        process = subprocess.Popen(
            [self.program, *args],
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=self.environment() | env,
        )
        self._watch_over(process)
        return process

    def _watch_over(self, process: subprocess.Popen[str]) -> None:
        """End a process that a test waits for in vain, so that it fails instead of hanging."""
        timer = threading.Timer(HANG_S, process.kill)
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    def kuota(self, *args: str, stdin: str | None = None, code: int = 0, **env: str) -> str:
        """What `kuota` prints, in this process; with standard error where it is to fail."""
        done = self._done(args, stdin, env)
        assert code == done.exit_code, done.output
        return done.output if code else done.stdout

    def hints(self, *args: str) -> str:
        """What `kuota` prints on standard error although it succeeds."""
        done = self._done(args, None, {})
        assert 0 == done.exit_code, done.output
        return done.stderr

    def _done(self, args: tuple[str, ...], stdin: str | None, env: dict[str, str]) -> Result:
        with chdir(self.folder):
            done = CliRunner().invoke(main, args, input=stdin, env=self.environment() | env)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    def environment(self) -> dict[str, str]:
        """Variables of a shell in which commands find this server, and no other."""
        own = {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder)}
        return os.environ | own | {"KUOTA_STATE": str(self.folder / "state")}


def reference(job: Json) -> Json:
    """How an object says that it belongs to the Job."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
    }


def job(name: str, **labels: str) -> Json:
    container = {"name": "main", "image": "x"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"template": template},
    }


def workload(name: str, owner: Json, queue: str = "research") -> Json:
    pods = {"name": "main", "count": 1, "template": owner["spec"]["template"]}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": "default",
            "ownerReferences": [reference(owner)],
        },
        "spec": {"queueName": queue, "podSets": [pods]},
    }


def local_queue(name: str, cluster_queue: str = "gpus") -> Json:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterQueue": cluster_queue},
    }


def condition(kind: str, *, holds: bool = True, reason: str = "R", message: str = "") -> Json:
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-11-15T04:00:00Z",
    }


def pod_status(phase: str, state: Json) -> Json:
    container = {
        "name": "main",
        "image": "local",
        "imageID": "",
        "ready": phase == "Running",
        "restartCount": 0,
        "state": state,
    }
    return {"phase": phase, "containerStatuses": [container]}


@contextmanager
def cluster_in(folder: Path) -> Iterator[Cluster]:
    made = Cluster(folder)
    try:
        yield made
    finally:
        made.close()
