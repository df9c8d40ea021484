# SPDX-License-Identifier: Apache-2.0
"""An API server for tests: called directly, or over HTTPS on a free port with a real kubectl."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from hang import HANG_S
from kuota.api.base import Json
from kuota.server.admission import Hook
from kuota.server.api import ApiServer
from kuota.server.http import HttpServer, server_context
from kuota.server.pods import LogOptions, LogSource
from kuota.server.requests import ADMINS, Request, Response, User
from kuota.server.store import Store
from kuota.server.tokens import Tokens

T = TypeVar("T")

ADMIN = User("root", (ADMINS, "system:authenticated"))
ANN = User("ann", ("team-a", "system:authenticated"))
BOB = User("bob", ("team-b", "system:authenticated"))
NOW = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)

JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Local:
    """An ApiServer on an empty store, without a transport. One loop serves one test."""

    def __init__(
        self, hooks: Sequence[Hook] = (), logs: LogSource | None = None, path: str = ":memory:"
    ) -> None:
        self.store = Store.open(path)
        self.now = NOW
        self.api = ApiServer(self.store, clock=lambda: self.now, hooks=hooks, logs=logs)
        self._runner = asyncio.Runner()
        self.run(self.api.start())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def close(self) -> None:
        self.run(self.api.close())
        self._runner.close()
        self.store.close()

    def raw(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        user: User = ADMIN,
        media: str = "application/json",
        accept: str = "application/json",
        **query: str,
    ) -> Response:
        """The answer to one request. A body that is no bytes is sent as JSON."""
        headers = {"content-type": media, "accept": accept, "user-agent": "test/1"}
        sent = body if isinstance(body, bytes) else msgspec.json.encode(body)
        request = Request(
            method=method,
            path=path,
            query=query,
            headers=headers,
            body=b"" if body is None else sent,
            user=user,
        )
        return self.run(self.api.handle(request))

    def ask(self, method: str, path: str, body: Any = None, **options: Any) -> Json:
        """The answer as JSON; it must be a good one."""
        response = self.raw(method, path, body, **options)
        assert isinstance(response.body, bytes)
        assert response.status < 300, response.body.decode()
        answer: Json = msgspec.json.decode(response.body)
        return answer

    def refusal(self, method: str, path: str, body: Any = None, **options: Any) -> Json:
        """The Status of a request that must be turned down."""
        response = self.raw(method, path, body, **options)
        assert isinstance(response.body, bytes)
        assert response.status >= 400, response.body.decode()
        status: Json = msgspec.json.decode(response.body)
        assert ("Status", response.status) == (status["kind"], status["code"])
        return status

    def events(self, response: Response, count: int) -> list[Json]:
        """The first lines of a watch."""

        async def read() -> list[Json]:
            assert not isinstance(response.body, bytes)
            lines: list[Json] = []
            stream = response.body
            while len(lines) < count:
                piece = await asyncio.wait_for(anext(stream), 5)
                lines += [msgspec.json.decode(line) for line in piece.splitlines()]
            return lines

        return self.run(read())

    def settle(self) -> None:
        """Let tasks of the server run until none can go on."""

        async def turns() -> None:
            for _ in range(20):
                await asyncio.sleep(0)

        self.run(turns())


def job(name: str, **spec: Any) -> Json:
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template} | spec,
    }


def pod(name: str, **spec: Any) -> Json:
    container = {"name": "main", "image": "busybox"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container]} | spec,
    }


def config_map(name: str, **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def namespace(name: str, team: str = "") -> Json:
    labels = {"labels": {"kuota.dev/team": team}} if team else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name} | labels}


async def said(pod: Json, options: LogOptions) -> AsyncIterator[bytes]:
    """A log source that says what it was asked for."""
    yield f"{pod['metadata']['name']}/{options.container} tail={options.tail_lines}\n".encode()


class Served:
    """An ApiServer over HTTPS in a thread, and a kubeconfig for it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.tokens = {"admin-token": ADMIN, "ann-token": ANN, "bob-token": BOB}
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        assert self._ready.wait(HANG_S)
        self.kubeconfig = self._kubeconfig()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._served())
        self._loop.close()

    async def _served(self) -> None:
        store = Store.open(":memory:")
        api = ApiServer(store, tokens=Tokens(self.tokens.items()), logs=said)
        await api.start()
        server = HttpServer(api)
        tls = server_context(self.directory, datetime.now(UTC))
        self.port = await server.listen(tls=tls)
        await server.listen_unix(self.directory / "kuota.sock")
        self._ready.set()
        await self._stop.wait()
        await server.close()
        await api.close()
        store.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def _kubeconfig(self) -> Path:
        cluster = {
            "server": self.url,
            "certificate-authority": str(self.directory / "server.crt"),
        }
        users = [
            {"name": user.name, "user": {"token": token}} for token, user in self.tokens.items()
        ]
        contexts = [
            {"name": user.name, "context": {"cluster": "kuota", "user": user.name}}
            for user in self.tokens.values()
        ]
        path = self.directory / "kubeconfig"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "kuota", "cluster": cluster}],
            "users": users,
            "contexts": contexts,
            "current-context": ADMIN.name,
        }
        path.write_text(yaml.safe_dump(content))
        return path

    def start(self, *args: str, stdin: str | None = None, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [kubectl(), *args],
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ
            | {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.directory)}
            | env,
        )

    def kubectl(self, *args: str, stdin: str | None = None, code: int = 0, **env: str) -> str:
        """What kubectl prints; on standard error too where it is to fail."""
        with self.start(*args, stdin=stdin, **env) as process:
            out, err = process.communicate(stdin, timeout=HANG_S)
        assert code == process.returncode, out + err
        return out + err if code else out

    def warned(self, *args: str, stdin: str | None = None) -> str:
        """What kubectl prints on standard error when it succeeds."""
        with self.start(*args, stdin=stdin) as process:
            out, err = process.communicate(stdin, timeout=HANG_S)
        assert 0 == process.returncode, out + err
        return err

    def json(self, *args: str) -> Json:
        found: Json = msgspec.json.decode(self.kubectl(*args, "-o", "json"))
        return found


def kubectl() -> str:
    """The kubectl that $KUOTA_KUBECTL names, else that of this environment or of the PATH."""
    if named := os.environ.get("KUOTA_KUBECTL"):
        return named
    beside = Path(sys.executable).with_name("kubectl")
    found = str(beside) if beside.exists() else shutil.which("kubectl")
    assert found, "kubectl is missing: install the dev dependencies"
    return found
