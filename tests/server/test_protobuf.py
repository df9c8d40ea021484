# SPDX-License-Identifier: Apache-2.0
"""Protobuf bodies: of Go's encoder, of kubectl, and malformed ones."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hang import HANG_S
from kuota.server import wire
from kuota.server.protobuf import MAGIC, ProtobufError, UnsupportedMedia, decoded

RECORDED = json.loads(Path(__file__).with_name("recorded_protobuf.json").read_text())
KUBECTL = Path(sys.executable).with_name("kubectl")
Json = dict[str, Any]
# What Go writes of these kinds although nobody set it.
ZEROES: dict[str, Json] = {
    "authorization.k8s.io/v1 SelfSubjectAccessReview": {"status": {"allowed": False}},
    "authorization.k8s.io/v1 SubjectAccessReview": {"status": {"allowed": False}},
    "autoscaling/v1 Scale": {"status": {"replicas": 0}},
}


def _plain(value: Any) -> Any:
    """The value without empty objects, which protobuf cannot tell from absent ones everywhere."""
    if isinstance(value, dict):
        parts = {name: _plain(below) for name, below in value.items()}
        loose = ("resources", "lastState", "nodeInfo")
        return {name: below for name, below in parts.items() if name not in loose or below}
    return [_plain(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["name"])
def test_every_kind_is_read_as_it_was_written(case: Any) -> None:
    """Bodies recorded from Kubernetes 1.36's own encoder, beside the JSON they were made from."""
    found = decoded(base64.b64decode(case["body"]))
    found.get("status", {}).pop("nodeInfo", None)

    assert _plain(case["object"] | ZEROES.get(case["name"], {})) == _plain(found)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(raw)) + raw


def _body(api_version: str, kind: str, raw: bytes, *more: bytes) -> bytes:
    names = _field(1, api_version) + _field(2, kind)
    return MAGIC + _field(1, names) + _field(2, raw) + b"".join(more)


def test_zero_is_kept_only_where_it_differs_from_absent() -> None:
    metadata = _field(1, "x") + _field(2, "") + _field(7, 0) + _field(8, b"")
    spec = _field(1, 0) + _field(7, 0) + _field(99, b"later")
    body = _body("batch/v1", "Job", _field(1, metadata) + _field(2, spec) + _field(3, b""))

    expected = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "x"},
        "spec": {"parallelism": 0, "backoffLimit": 0},
    }
    assert expected == decoded(body)


def test_negative_numbers_and_packed_lists_are_read() -> None:
    body = _body("scheduling.k8s.io/v1", "PriorityClass", _field(2, -10))
    assert -10 == decoded(body)["value"]

    security = _field(4, _varint(5) + _varint(-1))
    body = _body("v1", "Pod", _field(2, _field(14, security)))
    assert {"supplementalGroups": [5, -1]} == decoded(body)["spec"]["securityContext"]


def test_an_envelope_may_hold_json() -> None:
    body = _body("v1", "Any", b'{"kind":"Any"}', _field(4, "application/json"))

    assert {"kind": "Any"} == decoded(body)


def test_delete_options_are_read_in_whatever_group_they_come() -> None:
    body = _body("batch/v1", "DeleteOptions", _field(1, 0) + _field(4, "Background"))

    assert {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}.items() <= decoded(
        body
    ).items()


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(UnsupportedMedia, match="apps/v1 DaemonSet"):
        decoded(_body("apps/v1", "DaemonSet", b""))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{}", "magic bytes"),
        (_body("v1", "Pod", b"\x0a\xff"), "malformed"),
        (_body("v1", "Pod", b"\x0a\x05ab"), "ends within a field"),
        (_body("v1", "Pod", b"\x0b"), "wire type 3"),
        (_body("v1", "Pod", _field(1, 7)), "wrong wire type"),
        (_body("v1", "Pod", _field(1, _field(1, 7))), "wrong wire type"),
        (_body("v1", "Pod", _field(1, _field(1, b"\xff"))), "malformed"),
        (_body("v1", "Pod", b"\xff" * 11), "longer than 64 bits"),
        (MAGIC + _field(1, _field(1, 5)), "malformed"),
        (_body("v1", "Any", b"{", _field(4, "application/json")), "JSON inside"),
    ],
)
def test_malformed_bodies_are_refused_with_a_reason(body: bytes, words: str) -> None:
    with pytest.raises(ProtobufError, match=words):
        decoded(body)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_damaged_bodies_are_read_or_refused_but_nothing_else(pick: Any) -> None:
    body = bytearray(base64.b64decode(pick.draw(st.sampled_from(RECORDED))["body"]))
    for _ in range(pick.draw(st.integers(1, 4))):
        body[pick.draw(st.integers(4, len(body) - 1))] = pick.draw(st.integers(0, 255))
    try:
        found = decoded(bytes(body[: pick.draw(st.integers(4, len(body)))]))
    except ProtobufError:
        return
    assert isinstance(found, dict)


def test_every_line_of_the_tables_can_be_read() -> None:
    kinds = [case["name"].split() for case in RECORDED]
    for api_version, kind in kinds:
        message = wire.message_of(api_version, kind)
        assert message is not None
        assert message.by_number


GROUPS: dict[str, list[tuple[str, str, bool]]] = {
    "v1": [
        ("namespaces", "Namespace", False),
        ("configmaps", "ConfigMap", True),
        ("secrets", "Secret", True),
        ("serviceaccounts", "ServiceAccount", True),
        ("pods", "Pod", True),
    ],
    "batch/v1": [("jobs", "Job", True), ("cronjobs", "CronJob", True)],
    "scheduling.k8s.io/v1": [("priorityclasses", "PriorityClass", False)],
}


def _resources(version: str) -> Json:
    resources = [
        {
            "name": plural,
            "singularName": kind.lower(),
            "kind": kind,
            "namespaced": namespaced,
            "verbs": ["create", "get", "list"],
        }
        for plural, kind, namespaced in GROUPS[version]
    ]
    return {"kind": "APIResourceList", "groupVersion": version, "resources": resources}


def _answer(path: str) -> Json | None:
    """The least that kubectl needs to know of a server before it creates anything."""
    if path == "/version":
        return {"major": "1", "minor": "36", "gitVersion": "v1.36.0"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        versions = [version for version in GROUPS if "/" in version]
        groups = [
            {
                "name": version.partition("/")[0],
                "versions": [{"groupVersion": version, "version": "v1"}],
                "preferredVersion": {"groupVersion": version, "version": "v1"},
            }
            for version in versions
        ]
        return {"kind": "APIGroupList", "groups": groups}
    version = path.removeprefix("/apis/").removeprefix("/api/")
    return _resources(version) if version in GROUPS else None


class _Recorder(BaseHTTPRequestHandler):
    bodies: list[tuple[str, bytes]]

    def do_GET(self) -> None:
        found = _answer(self.path.partition("?")[0])
        self._send(404 if found is None else 200, found or {"kind": "Status", "code": 404})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.bodies.append((self.headers["content-type"], body))
        self._send(201, decoded(body) if body.startswith(MAGIC) else json.loads(body))

    def _send(self, status: int, found: Json) -> None:
        raw = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Kubectl:
    """Runs kubectl against a server that records what it is sent."""

    def __init__(self, url: str, home: Path, bodies: list[tuple[str, bytes]]) -> None:
        self.url, self.home, self.bodies = url, home, bodies

    def sends(self, *words: str) -> Json:
        self.bodies.clear()
        command = [str(KUBECTL), "--server", self.url, *words]
        env = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", "KUBECONFIG": "/dev/null"}
        subprocess.run(command, env=env, check=False, capture_output=True, timeout=HANG_S)
        media, body = self.bodies[0]
        assert "application/vnd.kubernetes.protobuf" == media
        return decoded(body)


@pytest.fixture
def kubectl(tmp_path: Path) -> Iterator[_Kubectl]:
    if not KUBECTL.exists():
        pytest.skip("kubectl is not installed beside Python")
    bodies: list[tuple[str, bytes]] = []
    recorder = type("Recorder", (_Recorder,), {"bodies": bodies})
    server = ThreadingHTTPServer(("127.0.0.1", 0), recorder)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield _Kubectl(f"http://127.0.0.1:{server.server_port}", tmp_path, bodies)
    server.shutdown()
    thread.join()
    server.server_close()


def test_jobs_and_others_that_kubectl_creates_are_read(kubectl: _Kubectl) -> None:
    pod = {
        "spec": {
            "containers": [{"name": "x", "image": "busybox", "command": ["sleep", "1"]}],
            "restartPolicy": "Never",
        },
    }
    job = kubectl.sends("create", "job", "x", "--image=busybox", "--", "sleep", "1")
    assert {"template": pod} == job["spec"]
    assert {"name": "x"} == job["metadata"]

    namespace = kubectl.sends("create", "namespace", "team")
    expected = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    assert expected == namespace

    config = kubectl.sends("create", "configmap", "c", "--from-literal=a=1")
    assert {"a": "1"} == config["data"]


def test_access_reviews_of_kubectl_are_read(kubectl: _Kubectl) -> None:
    review = kubectl.sends("auth", "can-i", "create", "jobs.batch", "-n", "team")

    wanted = {"namespace": "team", "verb": "create", "group": "batch", "resource": "jobs"}
    assert wanted.items() <= review["spec"]["resourceAttributes"].items()
