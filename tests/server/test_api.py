# SPDX-License-Identifier: Apache-2.0
"""The server responds to any request with a valid response and keeps running."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kuota.server.requests import Request, Response
from server.full_objects import DEFINITION, FULL, THING
from server.served import ADMIN, APPLY, CRDS, JOBS, KUEUE, MAPS, MERGE, PODS, Local, job, pod

PATHS = (
    JOBS,
    PODS,
    MAPS,
    CRDS,
    "/api/v1/namespaces",
    "/api/v1/nodes",
    "/api/v1/namespaces/default/events",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces/default/services",
    "/apis/events.k8s.io/v1/namespaces/default/events",
    "/apis/batch/v1/namespaces/default/cronjobs",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    f"{KUEUE}/clusterqueues",
    f"{KUEUE}/namespaces/default/workloads",
    "/apis/kueue.x-k8s.io/v1beta1/clusterqueues",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
)
MEDIA = (
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json-patch+json",
    MERGE,
    "application/strategic-merge-patch+json",
    APPLY,
    "text/html",
    "",
)
NAMES = (
    "a",
    "spec",
    "metadata",
    "status",
    "template",
    "containers",
    "name",
    "labels",
    "finalizers",
)
WORDS = (
    *("resources", "limits", "conditions", "items", "ownerReferences", "managedFields", "versions"),
    *("schema", "openAPIV3Schema", "properties", "type", "podSets", "nominalQuota", "data", "kind"),
    *("apiVersion", "parallelism", "completions", "selector", "matchLabels", "uid", "names"),
    *("resourceGroups", "flavors", "deletionTimestamp", "generation", "podFailurePolicy", "rules"),
)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.sampled_from(("1Gi", "v1", "Job", "Indexed", "Never", "2026-01-01T00:00:00Z")),
)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from((*NAMES, *WORDS)) | st.text(max_size=5), inner, max_size=4),
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def api() -> Iterator[Local]:
    local = Local()
    local.ask("POST", JOBS, job("there"))
    local.ask("POST", PODS, pod("there"))
    local.ask("POST", f"{KUEUE}/clusterqueues", {"metadata": {"name": "there"}, "spec": {}})
    for path, body in FULL:
        local.ask("POST", path, body)
    yield local
    local.close()


def check(response: Response) -> None:
    """Either a good answer, or a Status that says what the client did wrong."""
    assert response.status < 500, response.body
    if response.status >= 400:
        assert isinstance(response.body, bytes)
        status = msgspec.json.decode(response.body)
        assert ("Status", "Failure", response.status) == (
            status["kind"],
            status["status"],
            status["code"],
        )
        assert status["message"]


quick = settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@given(path=st.sampled_from(PATHS), body=anything, strict=st.sampled_from(["", "Strict", "Warn"]))
@quick
def test_any_json_may_be_created(api: Local, path: str, body: Any, strict: str) -> None:
    check(api.raw("POST", path, body, fieldValidation=strict))


@given(path=st.sampled_from(PATHS), spec=anything, status=anything, metadata=anything)
@quick
def test_any_spec_may_be_created(
    api: Local, path: str, spec: Any, status: Any, metadata: Any
) -> None:
    body = {"metadata": {"generateName": "x-", "labels": metadata}, "spec": spec, "status": status}
    check(api.raw("POST", path, body))


@given(
    path=st.sampled_from((f"{JOBS}/there", f"{PODS}/there", f"{KUEUE}/clusterqueues/there")),
    below=st.sampled_from(("", "/status")),
    media=st.sampled_from(MEDIA),
    body=anything,
    field=st.sampled_from(("metadata", "spec", "status")),
)
@quick
def test_any_patch_may_be_sent(
    api: Local, path: str, below: str, media: str, body: Any, field: str
) -> None:
    check(api.raw("PATCH", path + below, body, media=media, dryRun="All"))
    check(api.raw("PATCH", path + below, {field: body}, media=media, dryRun="All"))


@given(
    method=st.sampled_from(("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW")),
    parts=st.lists(
        st.sampled_from(
            ("api", "apis", "v1", "batch", "namespaces", "default", "jobs", "there", "log")
        )
        | st.text(max_size=4),
        max_size=8,
    ),
    query=st.dictionaries(
        st.sampled_from(
            ("watch", "limit", "continue", "resourceVersion", "labelSelector", "dryRun")
        ),
        st.text(max_size=6),
        max_size=2,
    ),
    media=st.sampled_from(MEDIA),
    body=st.binary(max_size=30),
)
@quick
def test_any_request_is_answered(
    api: Local, method: str, parts: list[str], query: dict[str, str], media: str, body: bytes
) -> None:
    request = Request(
        method=method,
        path="/" + "/".join(parts),
        query={key: value for key, value in query.items() if key != "watch"},
        headers={"content-type": media},
        body=body,
        user=ADMIN,
    )
    check(api.run(api.api.handle(request)))


@pytest.mark.slow
@given(data=st.data(), value=anything)
@quick
def test_any_definition_that_is_taken_can_be_served(data: st.DataObject, value: Any) -> None:
    local = Local()
    try:
        changed = put(DEFINITION, data.draw(st.sampled_from(spots(DEFINITION))), value)
        check(local.raw("POST", CRDS, changed))
        things = "/apis/x.io/v1/namespaces/default/things"
        check(local.raw("POST", things, THING))
        check(local.raw("GET", things, accept="application/json;as=Table;v=v1;g=meta.k8s.io"))
        check(local.raw("GET", f"{things}/full/scale"))
        check(local.raw("GET", "/apis/x.io/v1beta1/things"))
        check(local.raw("GET", "/openapi/v3/apis/x.io/v1"))
        check(local.raw("GET", "/apis", accept="application/json;as=APIGroupDiscoveryList;v=v2"))
    finally:
        local.close()


def spots(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside a document."""
    found = [path] if path else []
    if isinstance(value, dict):
        parts: Any = value.items()
    else:
        parts = enumerate(value) if isinstance(value, list) else ()
    for step, each in parts:
        found += spots(each, (*path, step))
    return found


def put(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of the document with another value at the path."""
    if not path:
        return value
    copied = dict(document) if isinstance(document, dict) else list(document)
    copied[path[0]] = put(document[path[0]], path[1:], value)
    return copied


@given(data=st.data(), full=st.sampled_from(FULL), value=anything)
@quick
def test_any_field_may_hold_anything(
    api: Local, data: st.DataObject, full: tuple[str, Any], value: Any
) -> None:
    path, body = full
    changed = put(body, data.draw(st.sampled_from(spots(body))), value)
    name = body["metadata"]["name"]
    check(api.raw("POST", path, changed, dryRun="All"))
    where, media = f"{path}/{name}", "application/json"
    check(api.raw("PATCH", where, changed, media=APPLY, dryRun="All", fieldManager="f"))
    check(api.raw("PATCH", where, changed, media=MERGE, dryRun="All"))
    check(api.raw("PUT", where, changed, media=media, dryRun="All"))
    check(api.raw("PUT", f"{where}/status", changed, media=media, dryRun="All"))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"\xff\xfe",
        b"[" * 5000,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b'{"metadata":{"name":"' + b"n" * 100_000 + b'"}}',
        b'{"metadata":{"name":"../../etc"}}',
        b'{"metadata":null}',
        b'{"metadata":{"name":{"a":1}}}',
        b'{"metadata":{"name":"a","labels":[1]}}',
        b'{"metadata":{"name":"a","ownerReferences":[null]}}',
        b'{"metadata":{"name":"a","managedFields":[{"fieldsV1":{"f:x":3}}]}}',
        b'{"metadata":{"name":"a","creationTimestamp":5}}',
        b'{"metadata":{"name":"a\\u0000b"}}',
        b'{"metadata":{"generateName":"\\ud800"}}',
        b'{"spec":1e999}',
        b'{"spec":{"a":123456789012345678901234567890}}',
    ],
)
@pytest.mark.parametrize("path", [JOBS, MAPS, CRDS, f"{KUEUE}/clusterqueues"])
def test_malformed_bodies_are_the_clients_fault(api: Local, path: str, body: bytes) -> None:
    for media in ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf"):
        answer = api.raw("POST", path, body, media=media, dryRun="All")
        check(answer)
    for media in MEDIA:
        check(api.raw("PATCH", f"{path}/there", body, media=media, dryRun="All"))
    check(api.raw("PUT", f"{path}/there", body, dryRun="All"))
    check(api.raw("DELETE", f"{path}/there", body, dryRun="All"))


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/api/v2", 404),
        ("GET", "/apis/none", 404),
        ("GET", "/apis/batch/v9/jobs", 404),
        ("GET", f"{JOBS}/there/nothing", 404),
        ("GET", f"{JOBS}/there/status/more", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/openapi/v1", 404),
        ("GET", "/openapi/v3/apis/none/v1", 404),
        ("POST", "/apis", 405),
        ("POST", f"{JOBS}/there", 405),
        ("PUT", JOBS, 405),
        ("PATCH", JOBS, 405),
        ("BREW", JOBS, 405),
        ("DELETE", f"{JOBS}/there/status", 405),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 405),
        ("GET", f"{PODS}/there/binding", 405),
        ("GET", f"{PODS}/there/log", 501),
    ],
)
def test_paths_and_methods_that_are_not_served(
    api: Local, method: str, path: str, code: int
) -> None:
    assert code == api.refusal(method, path, {})["code"]
