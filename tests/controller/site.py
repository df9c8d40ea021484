# SPDX-License-Identifier: Apache-2.0
"""An API server on a socket, and controllers as separate processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import yaml

from hang import HANG_S
from kuota.api.base import Json, Key
from kuota.kube.client import Client
from kuota.kube.errors import Gone
from kuota.kube.resources import ALL, LEASES, WORKLOADS, Resource, key_of
from kuota.server.api import ApiServer
from kuota.server.http import HttpServer
from kuota.server.requests import ADMINS, Request, Response, User
from kuota.server.store import Store
from kuota.server.tokens import Tokens
from kuota.up.local import local_client

TOKEN = "a-token-that-nobody-may-see"
STOP_S = 14.0
"""A stop that waits for a lease (15 s) or for a TLS peer (30 s) takes longer than this, on an idle
machine too."""
LEASE = Key("kueue-system", "c1f6bfd2.kueue.x-k8s.io")

Story = Callable[["Site"], Coroutine[Any, Any, None]]
_BY_KIND = {each.kind: each for each in ALL}


class Running:
    """One controller process. `log` is all that it has said, as JSON."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.log: list[Json] = []
        self.raw: list[str] = []
        self._news = asyncio.Condition()
        self._listening = asyncio.ensure_future(self._listen())

    async def said(self, words: str) -> Json:
        """Return once it has said that, ever; a process that ends without is a fault."""

        def found() -> Json | None:
            return next((each for each in self.log if words in each["msg"]), None)

        async with asyncio.timeout(HANG_S), self._news:
            await self._news.wait_for(lambda: found() or self._listening.done())
        line = found()
        assert line is not None, f"never said {words!r}:\n{self}"
        return line

    async def port(self, of: str) -> int:
        """The port on which it serves probes, metrics or webhooks."""
        return int((await self.said(f"serving {of} on port"))["msg"].rpartition(" ")[2])

    async def stop(self) -> tuple[int, float]:
        """Ask it to end; its status, and how long that took."""
        began = asyncio.get_running_loop().time()
        self.process.send_signal(signal.SIGTERM)
        return await self.ended(), asyncio.get_running_loop().time() - began

    async def kill(self) -> None:
        self.process.kill()
        await self.ended()

    async def ended(self) -> int:
        async with asyncio.timeout(HANG_S):
            await self._listening
            return await self.process.wait()

    def __str__(self) -> str:
        return "\n".join(self.raw)

    async def _listen(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            text = line.decode().rstrip()
            async with self._news:
                self.raw.append(text)
                if text.startswith("{"):
                    self.log.append(json.loads(text))
                self._news.notify_all()
        async with self._news:
            self._news.notify_all()


class RejectingProxy:
    """Stands before an ApiServer. `refused` maps the end of a path to the status it gets."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self.credentials = api.credentials
        self.refused: dict[str, int] = {}
        self.hidden: set[str] = set()
        """Kinds, by plural, that discovery does not tell of."""
        self.lags = False
        """Whether it cannot send the newest objects."""
        self.seen: list[tuple[str, str]] = []

    async def handle(self, request: Request) -> Response:
        self.seen.append((request.method, request.path))
        status = next((n for end, n in self.refused.items() if request.path.endswith(end)), None)
        newest = "sendInitialEvents" in request.query and not request.query.get("resourceVersion")
        if self.lags and newest:
            status = 504
        if status is not None:
            reason = {403: "Forbidden", 404: "NotFound", 504: "Timeout"}[status]
            said = {"kind": "Status", "code": status, "reason": reason, "message": "refused"}
            return Response(status, msgspec.json.encode(said))
        answer = _reviewed(request)
        if answer is not None:
            return Response(201, msgspec.json.encode(answer))
        response = await self._api.handle(request)
        if self.hidden and isinstance(response.body, bytes) and b"APIResourceList" in response.body:
            found = msgspec.json.decode(response.body)
            kept = [each for each in found["resources"] if each["name"] not in self.hidden]
            return Response(200, msgspec.json.encode(found | {"resources": kept}))
        return response

    def events(self) -> int:
        return sum(method != "GET" and "/events" in path for method, path in self.seen)

    def writes(self) -> list[tuple[str, str]]:
        """What was written, but for the lease and events."""
        quiet = ("leases", "events", "selfsubject")
        return [
            (method, path)
            for method, path in self.seen
            if method != "GET" and not any(word in path for word in quiet)
        ]


def _reviewed(request: Request) -> Json | None:
    """The answer to who somebody is and whether they may; None to any other request."""
    if request.path.endswith("/tokenreviews"):
        known = msgspec.json.decode(request.body)["spec"]["token"] == TOKEN
        return {"status": {"authenticated": known, "user": {"username": "me"} if known else {}}}
    if request.path.endswith("/subjectaccessreviews"):
        return {"status": {"allowed": msgspec.json.decode(request.body)["spec"]["user"] == "me"}}
    return None


class Ground:
    """An API server, and whoever watches what controllers do on it."""

    def __init__(self, folder: Path, admin: Client, stack: AsyncExitStack) -> None:
        self.folder = folder
        self.admin = admin
        self._stack = stack

    @property
    @abstractmethod
    def kubeconfig(self) -> Path:
        """A file that leads to the server."""

    async def controller(self, *flags: str, config: Json | None = None) -> Running:
        """Start a controller; it is killed at the end if it still runs."""
        path = self.folder / "config.yaml"
        path.write_text(yaml.safe_dump(configuration(config or {})))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "kuota.cli.main", "controller", "--kubeconfig", str(self.kubeconfig)),
            *("--config", str(path), "--zap-encoder=json", *flags),
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            limit=1 << 20,
            env=os.environ | {"PYTHONWARNINGS": "error", "KUBECONFIG": ""},
        )
        running = Running(process)
        self._stack.push_async_callback(_ended, running)
        return running

    async def apply(self, *objects: Json) -> None:
        for each in objects:
            await self.admin.create(_BY_KIND[each["kind"]], each)

    async def until(self, resource: Resource, key: Key, true: Callable[[Json], object]) -> Json:
        """The object as soon as that is true of it."""
        found = await self.until_some(resource, lambda each: key_of(each) == key and true(each))
        return found[0]

    async def workload_of(self, job: str, true: Callable[[Json], object] = bool) -> Json:
        """The Workload that a Job has, as soon as that is true of it."""
        found = await self.until_some(WORKLOADS, lambda each: _owned(each, job) and true(each))
        return found[0]

    async def until_some(
        self, resource: Resource, true: Callable[[Json], object], count: int = 1
    ) -> list[Json]:
        """The objects of which that is true, as soon as there are so many."""
        async with asyncio.timeout(HANG_S):
            while True:
                listing = await self.admin.list(resource)
                found = [each for each in listing.items if true(each)]
                if len(found) >= count:
                    return found
                watch = self.admin.watch(resource, since=listing.revision)
                # A starting API server rejects revisions that are older than its watch cache.
                with suppress(Gone):
                    async with aclosing(watch) as events:
                        await anext(events)

    async def holder(self, true: Callable[[str], object] = bool) -> str:
        """Who leads, as soon as that is true of it."""

        def of(lease: Json) -> str:
            return str(lease["spec"].get("holderIdentity") or "")

        return of(await self.until(LEASES, LEASE, lambda lease: true(of(lease))))


class Site(Ground):
    """The embedded server on a socket; it may be closed and opened again on the same port."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self.store = Store.open(":memory:")
        user = User("controller", (ADMINS, "system:authenticated"))
        self.api = ApiServer(self.store, tokens=Tokens([(TOKEN, user)]))
        self.door = RejectingProxy(self.api)
        self.port = 0
        self._http: HttpServer | None = None
        super().__init__(folder, local_client(self.api), stack)

    async def open(self) -> None:
        self._http = HttpServer(self.door)  # type: ignore[arg-type]
        self.port = await self._http.listen(port=self.port)

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None

    @property
    def kubeconfig(self) -> Path:
        path = self.folder / "kubeconfig"
        content = {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "me", "user": {"token": TOKEN}}],
        }
        path.write_text(yaml.safe_dump(content))
        return path


def run_story(story: Story, folder: Path) -> None:
    """Tell a story on a site of its own."""

    async def main() -> None:
        async with site(folder) as found:
            await story(found)

    asyncio.run(main())


@asynccontextmanager
async def site(folder: Path) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        found = Site(folder, stack)
        stack.callback(found.store.close)
        await found.api.start()
        stack.push_async_callback(found.api.close)
        await found.open()
        stack.push_async_callback(found.close)
        for name in ("kueue-system", "team"):
            await found.apply(namespace(name))
        yield found


def configuration(wanted: Json) -> Json:
    """Kueue's configuration with addresses that two processes on one machine can share."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": "127.0.0.1:0"},
        "metrics": {"bindAddress": "0"},
        "internalCertManagement": {"enable": False},
    } | wanted


def namespace(name: str) -> Json:
    labels = {"kubernetes.io/metadata.name": name}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _owned(workload: Json, job: str) -> bool:
    owners = workload["metadata"].get("ownerReferences") or ()
    return any(each["name"] == job for each in owners)


async def stopped(running: Running) -> None:
    """Ask it to end, and see that it does so well and soon."""
    status, took_s = await running.stop()
    assert (0, True) == (status, took_s < STOP_S), str(running)


async def _ended(running: Running) -> None:
    if running.process.returncode is None:
        await running.kill()
