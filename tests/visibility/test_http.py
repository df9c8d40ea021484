# SPDX-License-Identifier: Apache-2.0
"""Authentication and authorization of the visibility server."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator
from typing import Any

import aiohttp
import pytest
import trustme
from msgspec.structs import replace

from build import flavor, job, local_queue, namespace, queue
from kuota.api.base import Json, Key
from kuota.engine.engine import Engine
from kuota.engine.facts import ObjectStored
from kuota.engine.model import LocalQueue
from kuota.kube.errors import NotFound, ServerError
from kuota.kube.requests import LogOptions
from kuota.kube.resources import Resource
from kuota.listening import bound
from kuota.visibility.api import PREFIX, VisibilityApi
from kuota.visibility.explanation import HIDDEN, ExplanationApi, explanation_path
from kuota.visibility.http import VisibilityServer
from kuota.visibility.remote_pods import RemotePodsApi

LINE = f"{PREFIX}/v1beta2/clusterqueues/q/pendingworkloads"
FORBIDDEN: list[tuple[str | None, str | None]] = [
    ("kueue.x-k8s.io", None),
    ("kueue.x-k8s.io", "blue"),
]
"""Alice may read the Workloads of her own namespace, not of all, nor of namespace blue."""
ALICE = {"X-Remote-User": "alice", "X-Remote-Group": "team-a"}


class ApiServer:
    """An API server that passes requests on, and lets alice see the line."""

    def __init__(self, authority: trustme.CA | None) -> None:
        self.reviewed: list[Json] = []
        self.forbidden: list[tuple[str | None, str | None]] = FORBIDDEN
        self._authority = authority

    async def get(self, resource: Resource, key: Key, **_: Any) -> Json:
        assert Key("kube-system", "extension-apiserver-authentication") == key
        if self._authority is None:
            raise NotFound(404, "NotFound", "no such ConfigMap")
        return {
            "data": {
                "requestheader-client-ca-file": self._authority.cert_pem.bytes().decode(),
                "requestheader-allowed-names": json.dumps(["front-proxy"]),
                "requestheader-username-headers": json.dumps(["X-Remote-User"]),
                "requestheader-group-headers": json.dumps(["X-Remote-Group"]),
                "requestheader-extra-headers-prefix": json.dumps(["X-Remote-Extra-"]),
            }
        }

    async def create(self, resource: Resource, obj: Json, **_: Any) -> Json:
        spec = obj["spec"]
        if resource.kind == "TokenReview":
            known = spec["token"] == "good"
            return obj | {"status": {"authenticated": known, "user": {"username": "alice"}}}
        self.reviewed.append(spec)
        wanted = spec.get("resourceAttributes") or {}
        elsewhere = (wanted.get("group"), wanted.get("namespace")) in self.forbidden
        return obj | {"status": {"allowed": spec["user"] == "alice" and not elsewhere}}

    def metadata(self, kind: str, key: Key) -> Json:
        return {}


class Elsewhere:
    """Another cluster, with one pod of one workload."""

    def __init__(self) -> None:
        self.asked: list[LogOptions] = []
        self.broken = False

    async def pods(self, key: Key) -> tuple[str, list[Json]]:
        if key.name != "j":
            raise NotFound(404, "NotFound", "nowhere else")
        return "far", [{"metadata": {"name": "j-0"}}]

    async def log(self, key: Key, pod: str, options: LogOptions) -> AsyncGenerator[bytes, None]:
        if pod != "j-0":
            raise NotFound(404, "NotFound", "no pod")
        self.asked.append(options)
        yield b"first\n"
        if self.broken:
            raise ServerError(503, "ServiceUnavailable", "lost")
        yield b"last\n"


class Stage:
    """A visibility server over TLS, and callers that show this certificate or none."""

    def __init__(self, *, passes_on: bool = True) -> None:
        self._serving, self._front = trustme.CA(), trustme.CA()
        self.api = ApiServer(self._front if passes_on else None)
        engine = Engine()
        for each in (namespace(), queue("q", gpu=1), local_queue("q"), job("j", queue="q", gpu=2)):
            engine.apply(ObjectStored(value=each), 0.0)
        self.engine = engine
        pending, explanations = VisibilityApi(engine, self.api), ExplanationApi(engine, self.api)
        self.remote = Elsewhere()
        self._server = VisibilityServer(
            pending,
            explanations,
            self.api,  # type: ignore[arg-type]
            remote=RemotePodsApi(self.remote),
        )

    async def __aenter__(self) -> Stage:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._serving.issue_cert("127.0.0.1").configure_cert(tls)
        self._port = await self._server.serve(bound("127.0.0.1", 0), tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.close()

    def _tls(self, shows: str) -> ssl.SSLContext:
        trusting = ssl.create_default_context()
        self._serving.configure_trust(trusting)
        if shows:
            self._front.issue_cert(common_name=shows).configure_cert(trusting)
        return trusting

    async def head(self, path: str, headers: dict[str, str], shows: str) -> bytes:
        """All bytes of the response to HEAD, after which the server closes the connection."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._port, ssl=self._tls(shows)
        )
        sent = {"Host": "here", "Connection": "close", **headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        writer.write(f"HEAD {path} HTTP/1.1\r\n{lines}\r\n".encode())
        try:
            return await reader.read()
        finally:
            writer.close()

    async def get(
        self, path: str = LINE, headers: dict[str, str] | None = None, shows: str = ""
    ) -> tuple[int, Json]:
        connector = aiohttp.TCPConnector(ssl=self._tls(shows))
        url = f"https://127.0.0.1:{self._port}{path}"
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.get(url, headers=headers) as answer,
        ):
            text = await answer.text()
            return answer.status, json.loads(text) if text.startswith("{") else {"said": text}


def test_the_api_server_speaks_for_its_users() -> None:
    async def story() -> None:
        async with Stage() as stage:
            extra = {"X-Remote-Extra-acme.io%2fteam": "a"}
            status, body = await stage.get(headers=ALICE | extra, shows="front-proxy")
            assert 200 == status
            assert ["j"] == [each["metadata"]["name"] for each in body["items"]]
            (spec,) = stage.api.reviewed
            assert ["team-a", "system:authenticated"] == spec["groups"]
            assert {"acme.io/team": ["a"]} == spec["extra"]
            assert {
                "verb": "get",
                "group": "visibility.kueue.x-k8s.io",
                "version": "v1beta2",
                "resource": "clusterqueues",
                "subresource": "pendingworkloads",
                "name": "q",
            } == spec["resourceAttributes"]
            mallory = ALICE | {"X-Remote-User": "mallory"}
            assert 403 == (await stage.get(headers=mallory, shows="front-proxy"))[0]

    asyncio.run(story())


def test_headers_of_anyone_else_mean_nothing() -> None:
    async def story() -> None:
        async with Stage() as stage:
            assert 403 == (await stage.get(headers=ALICE))[0]
            assert 403 == (await stage.get(headers=ALICE, shows="somebody-else"))[0]
            assert ["system:anonymous"] == [spec["user"] for spec in stage.api.reviewed]

    asyncio.run(story())


def test_a_token_suffices_without_an_aggregation_proxy() -> None:
    async def story() -> None:
        async with Stage(passes_on=False) as stage:
            assert 200 == (await stage.get(headers={"Authorization": "Bearer good"}))[0]
            assert 401 == (await stage.get(headers={"Authorization": "Bearer bad"}))[0]
            assert 403 == (await stage.get())[0]

    asyncio.run(story())


def test_the_aggregator_may_look_whether_all_is_well_without_being_reviewed() -> None:
    async def story() -> None:
        async with Stage() as stage:
            headers = {
                "X-Remote-User": "system:kube-aggregator",
                "X-Remote-Group": "system:masters",
            }
            path = f"{PREFIX}/v1beta2"
            assert 200 == (await stage.get(path, headers, shows="front-proxy"))[0]
            assert (200, {"said": "ok"}) == await stage.get("/healthz")
            assert [] == stage.api.reviewed

    asyncio.run(story())


def test_an_explanation_needs_its_own_permission() -> None:
    async def story() -> None:
        async with Stage() as stage:
            path = explanation_path(Key("default", "j"))
            status, body = await stage.get(path, ALICE, shows="front-proxy")
            assert 200 == status
            assert body["why"]["text"].startswith("ClusterQueue q is inactive: ")
            assert {
                "verb": "get",
                "group": "visibility.kuota.dev",
                "version": "v1alpha1",
                "resource": "workloads",
                "subresource": "explanation",
                "namespace": "default",
                "name": "j",
            } == stage.api.reviewed[0]["resourceAttributes"]
            mallory = ALICE | {"X-Remote-User": "mallory"}
            assert 403 == (await stage.get(path, mallory, shows="front-proxy"))[0]
            missing = explanation_path(Key("default", "none"))
            status, body = await stage.get(missing, ALICE, shows="front-proxy")
            assert (404, "visibility.kuota.dev") == (status, body["details"]["group"])

    asyncio.run(story())


def test_an_explanation_names_workloads_only_of_namespaces_that_the_caller_may_read() -> None:
    async def story() -> None:
        async with Stage() as stage:
            preempting_waiter(stage.engine)
            path = explanation_path(Key("default", "waits"))
            body = (await stage.get(path, ALICE, shows="front-proxy"))[1]
            assert "default/mine" in str(body)
            assert "theirs" not in str(body)
            assert HIDDEN in str(body)
            everything = ALICE | {"X-Remote-Group": "system:masters"}
            assert "blue/theirs" in str((await stage.get(path, everything, shows="front-proxy"))[1])

    asyncio.run(story())


REMOTE = "/apis/visibility.kuota.dev/v1alpha1/namespaces/default/workloads/j"


def test_pods_in_other_clusters_need_the_permission_to_read_pods_here() -> None:
    async def story() -> None:
        async with Stage() as stage:
            status, body = await stage.get(f"{REMOTE}/pods", ALICE, shows="front-proxy")
            assert (200, "far", "j-0") == (
                status,
                body["cluster"],
                body["pods"][0]["metadata"]["name"],
            )
            status, body = await stage.get(
                f"{REMOTE}/log?pod=j-0&tailLines=5&follow=true", ALICE, shows="front-proxy"
            )
            assert (200, "first\nlast\n") == (status, body["said"])
            assert [(5, True)] == [(each.tail, each.follow) for each in stage.remote.asked]
            reviewed = [each["resourceAttributes"] for each in stage.api.reviewed]
            assert ["visibility.kuota.dev", None] * 2 == [each.get("group") for each in reviewed]
            assert {
                "verb": "get",
                "version": "v1",
                "resource": "pods",
                "subresource": "log",
                "namespace": "default",
            } == reviewed[-1]
            for below in ("pods", "log?pod=j-0"):
                mallory = ALICE | {"X-Remote-User": "mallory"}
                refused = await stage.get(f"{REMOTE}/{below}", mallory, shows="front-proxy")
                assert 403 == refused[0]
                assert 403 == (await stage.get(f"{REMOTE}/{below}"))[0]

    asyncio.run(story())


@pytest.mark.parametrize("denied", ["", "visibility.kuota.dev"], ids=["pods", "the API"])
def test_one_of_both_permissions_does_not_suffice(denied: str) -> None:
    async def story() -> None:
        async with Stage() as stage:
            stage.api.forbidden = [(denied or None, "default")]
            for below in ("pods", "log?pod=j-0"):
                refused = await stage.get(f"{REMOTE}/{below}", ALICE, shows="front-proxy")
                assert 403 == refused[0]
            assert [] == stage.remote.asked

    asyncio.run(story())


def test_wrong_requests_for_logs_are_explained() -> None:
    async def story() -> None:
        async with Stage() as stage:
            for query, status, words in (
                ("", 400, "?pod=NAME"),
                ("pod=other", 404, "no pod"),
                ("pod=j-0&tailLines=-1&sinceTime=noon", 400, "sinceTime=noon"),
                ("pod=j-0&tailLines=-1&sinceTime=noon", 400, "tailLines=-1"),
            ):
                found = await stage.get(f"{REMOTE}/log?{query}", ALICE, shows="front-proxy")
                assert status == found[0]
                assert words in found[1]["message"]
                assert "visibility.kuota.dev" == found[1]["details"]["group"]

    asyncio.run(story())


def test_a_log_that_breaks_off_is_not_taken_for_a_complete_one() -> None:
    async def story() -> None:
        async with Stage() as stage:
            stage.remote.broken = True
            with pytest.raises(aiohttp.ClientError):
                await stage.get(f"{REMOTE}/log?pod=j-0", ALICE, shows="front-proxy")

    asyncio.run(story())


def test_no_log_follows_the_headers_of_a_response_to_head() -> None:
    """The API server would take it for the response to the request of another user."""

    async def story() -> None:
        async with Stage() as stage:
            answer = await stage.head(f"{REMOTE}/log?pod=j-0", ALICE, "front-proxy")
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert answer.endswith(b"\r\n\r\n")
            assert b"first" not in answer

    asyncio.run(story())


def preempting_waiter(engine: Engine) -> None:
    """Let `waits` wait for two running workloads, one of them in namespace blue."""
    for each in (
        namespace("blue"),
        flavor(),
        queue("p", gpu=2, within="LowerPriority"),
        local_queue("p"),
        LocalQueue(key=Key("blue", "p"), cluster_queue="p"),
        job("mine", queue="p", gpu=1),
        replace(job("theirs", queue="p", gpu=1), key=Key("blue", "theirs")),
    ):
        engine.apply(ObjectStored(value=each), 0.0)
    for now in (1.0, 2.0):
        engine.cycle(now)
    engine.apply(ObjectStored(value=job("waits", queue="p", gpu=2)), 3.0)
