# SPDX-License-Identifier: Apache-2.0
"""The cost of one request is bounded, and each malformed part has its status."""

from __future__ import annotations

import gc
import gzip
import json
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kuota.api.manifest_yaml import scanned
from kuota.api.selector import MOST_TERMS
from kuota.api.status import StatusError
from kuota.server.bodies import (
    MOST_NAMESPACED_VALUES,
    MOST_VALUES,
    read_yaml,
)
from kuota.server.http_bodies import decompressed
from kuota.server.patch import MOST_OPERATIONS
from kuota.server.protobuf import MAGIC, MOST_FIELDS
from kuota.server.requests import ADMINS, SYSTEM_USER, User
from kuota.server.selectors import MOST_FIELD_TERMS
from server.served import ANN, APPLY, JOBS, MAPS, MERGE, Local, config_map, job

SYSTEM = User(SYSTEM_USER, (ADMINS,))
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.fixture
def api() -> Any:
    local = Local()
    local.ask("POST", MAPS, config_map("a", b="c"))
    local.ask("POST", JOBS, job("a", suspend=True))
    yield local
    local.close()


@pytest.mark.parametrize(
    ("media", "body"),
    [
        ("application/json", json.dumps({"data": dict.fromkeys(range(MOST_VALUES + 1))}).encode()),
        ("application/json", b'{"data":[' + b"[]," * MOST_VALUES + b"[]]}"),
        (YAML, b"data: [" + b"a," * (2 * MOST_VALUES) + b"]"),
    ],
    ids=["fields", "items", "yaml"],
)
def test_a_body_with_too_many_values_is_too_large(api: Local, media: str, body: bytes) -> None:
    refused = api.refusal("POST", MAPS, body, media=media)
    assert (413, "RequestEntityTooLarge") == (refused["code"], refused["reason"])


def test_commas_within_a_text_are_not_values(api: Local) -> None:
    api.ask("POST", MAPS, config_map("csv", rows="," * (2 * MOST_VALUES)))


@pytest.mark.parametrize("body", [b"[" * 200_000, b"a: " + b"[" * 200_000, b"- " * 200_000])
def test_deep_yaml_is_rejected_before_it_is_composed(api: Local, body: bytes) -> None:
    assert api.refusal("POST", MAPS, body, media=YAML)["code"] in (400, 413)


def test_a_protobuf_body_has_a_limited_number_of_fields(api: Local) -> None:
    body = MAGIC + b"\x18\x00" * (MOST_FIELDS + 1)
    refused = api.refusal("POST", MAPS, body, media=PROTOBUF)
    assert (400, True) == (refused["code"], "fields" in refused["message"])


def test_a_json_patch_has_a_limited_number_of_operations(api: Local) -> None:
    ops = [{"op": "add", "path": "/data/x", "value": "y"}] * (MOST_OPERATIONS + 1)
    assert 413 == api.refusal("PATCH", f"{MAPS}/a", ops, media=JSON_PATCH)["code"]


def test_a_json_patch_has_a_limited_amount_of_work(api: Local) -> None:
    data = {f"k{at}": "" for at in range(9000)}
    api.ask("PATCH", f"{MAPS}/a", {"data": data}, media=MERGE, user=SYSTEM)
    ops = [{"op": "add", "path": "/data/x", "value": "y"}] * 9000
    refused = api.refusal("PATCH", f"{MAPS}/a", ops, media=JSON_PATCH, user=SYSTEM)
    assert (422, True) == (refused["code"], "more than this server allows" in refused["message"])


def test_what_a_json_patch_moves_is_validated_in_its_new_place(api: Local) -> None:
    for op in ("copy", "move"):
        ops = [{"op": op, "from": "/metadata/managedFields", "path": "/spec/template"}]
        assert 400 == api.refusal("PATCH", f"{JOBS}/a", ops, media=JSON_PATCH)["code"]


@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": {"$retainKeys": [1, {}]}},
        {"metadata": {"finalizers": [{"$patch": "replace"}, 1]}},
        {"spec": {"template": {"spec": {"containers": [{"$patch": "replace"}, 1]}}}},
    ],
)
def test_odd_directives_of_a_strategic_patch_are_rejected(api: Local, patch: Any) -> None:
    assert api.refusal("PATCH", f"{JOBS}/a", patch, media=STRATEGIC)["code"] in (400, 422)


def test_a_strategic_patch_merges_long_lists_in_linear_time(api: Local) -> None:
    # Quadratic time would take minutes.
    tolerations = [{"key": f"k{at}", "operator": "Exists"} for at in range(15_000)]
    env = [{"name": f"n{at}", "value": "v"} for at in range(15_000)]
    containers = [{"name": "main", "env": env, "$setElementOrder/env": env}]
    spec = {"containers": containers, "tolerations": tolerations}
    patch = {"spec": {"template": {"spec": spec}}}
    assert api.raw("PATCH", f"{JOBS}/a", patch, media=STRATEGIC).status < 500


@pytest.mark.parametrize(
    ("body", "encoding", "code"),
    [
        pytest.param(b"not gzip", "gzip", 400, id="not-gzip"),
        pytest.param(gzip.compress(b"{}")[:-4], "gzip", 400, id="truncated"),
        pytest.param(gzip.compress(b"{}") + b"more", "gzip", 400, id="trailing-bytes"),
        pytest.param(gzip.compress(b"x" * 5_000_000), "gzip", 413, id="bomb"),
        pytest.param(b"not deflate", "deflate", 400, id="not-deflate"),
    ],
)
def test_malformed_compression_is_rejected(body: bytes, encoding: str, code: int) -> None:
    with pytest.raises(StatusError) as error:
        decompressed(body, encoding, 1_000_000)
    assert code == error.value.code


def test_compressed_bodies_are_read() -> None:
    text = json.dumps({"a": "b"}).encode()
    assert text == decompressed(gzip.compress(text), "gzip", 1000)
    assert text == decompressed(zlib.compress(text), "deflate", 1000)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"limit": "abc"}, 400),
        ({"limit": "-1"}, 400),
        ({"resourceVersion": "xyz"}, 400),
        ({"resourceVersion": "999999999"}, 504),
        ({"continue": "garbage"}, 400),
        ({"continue": "e30"}, 400),
        ({"labelSelector": "a in ((("}, 400),
        ({"labelSelector": "!" * 30_000}, 400),
        ({"fieldSelector": "\\" * 30_000}, 400),
        ({"watch": "true", "timeoutSeconds": "9" * 40}, 400),
    ],
)
def test_odd_parameters_have_their_status(api: Local, query: dict[str, str], code: int) -> None:
    assert code == api.refusal("GET", MAPS, **query)["code"]


@pytest.fixture
def member(api: Local) -> Local:
    """A server whose default namespace belongs to the team of `ANN`."""
    label = {"metadata": {"labels": {"kuota.dev/team": "team-a"}}}
    api.ask("PATCH", "/api/v1/namespaces/default", label, media=MERGE)
    return api


def keys(prefix: str, count: int = MOST_NAMESPACED_VALUES - 10) -> dict[str, str]:
    return {f"{prefix}{at}": "x" for at in range(count)}


MANY = config_map("many", **keys("k", MOST_NAMESPACED_VALUES + 1))


@pytest.mark.parametrize(
    ("method", "path", "media", "body"),
    [
        ("POST", MAPS, "application/json", MANY),
        (
            "POST",
            MAPS,
            YAML,
            b"".join(b"k%d: x\n" % at for at in range(MOST_NAMESPACED_VALUES + 1)),
        ),
        ("PUT", f"{MAPS}/a", "application/json", MANY),
        ("PATCH", f"{MAPS}/a", MERGE, {"data": MANY["data"]}),
        ("PATCH", f"{MAPS}/a", STRATEGIC, {"data": MANY["data"]}),
        ("PATCH", f"{MAPS}/a", APPLY, json.dumps(MANY).encode()),
        ("DELETE", f"{MAPS}/a", "application/json", MANY),
    ],
    ids=["create", "yaml", "replace", "merge", "strategic", "apply", "delete"],
)
def test_objects_of_members_have_fewer_values(
    member: Local, method: str, path: str, media: str, body: Any
) -> None:
    refused = member.refusal(method, path, body, media=media, user=ANN, fieldManager="m")
    assert (413, True) == (
        refused["code"],
        f"{MOST_NAMESPACED_VALUES} fields" in refused["message"],
    )


@pytest.mark.parametrize("media", [MERGE, STRATEGIC, JSON_PATCH, APPLY])
def test_a_patch_with_too_many_values_is_not_decoded(
    member: Local, media: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # To look for duplicate fields in 3 MB of empty objects took two seconds.
    body = b'{"a":[' + b'{"b":1},' * MOST_NAMESPACED_VALUES + b"{}]}"
    decode = msgspec.json.decode

    def decoded(content: Any, **options: Any) -> Any:
        assert content != body, "it is decoded"
        return decode(content, **options)

    monkeypatch.setattr(msgspec.json, "decode", decoded)
    monkeypatch.setattr(json, "loads", lambda *_, **__: pytest.fail("it is decoded"))
    options: dict[str, Any] = {"media": media, "user": ANN, "fieldValidation": "Strict"}
    answer = member.raw("PATCH", f"{MAPS}/a", body, fieldManager="m", **options)
    assert 413 == answer.status


REPEATED = "data: {a: &a [" + "x," * 4_000 + "], b: [*a, *a]}"
NESTED = "".join(f"k{at}: &a{at} [{f'*a{at - 1},' * 9 if at else 'x'}]\n" for at in range(9))
MERGED = f"a: &a {{{','.join(f'k{at}: v' for at in range(900))}}}\nb: {{<<: [{'*a,' * 900}]}}"


@pytest.mark.parametrize("text", [REPEATED, NESTED, MERGED], ids=["repeated", "nested", "merged"])
def test_aliases_do_not_multiply_the_values_of_a_request(member: Local, text: str) -> None:
    refused = member.raw("POST", MAPS, text.encode(), media=YAML, user=ANN)
    assert refused.status in (400, 413)
    with pytest.raises(StatusError, match=r"an alias repeats|more than 5000"):
        read_yaml(text.encode(), MOST_NAMESPACED_VALUES)
    (read,) = scanned(text, most_repeats=3_000)
    assert len(read.lines) < 10_000, "nothing is read beyond the limit"


def test_patches_cannot_make_an_object_larger_than_a_request(member: Local) -> None:
    statuses = [
        member.raw("PATCH", f"{MAPS}/a", {"data": keys(f"k{at}-")}, media=MERGE, user=ANN).status
        for at in range(4)
    ]
    assert [200, 413, 413] == [statuses[0], *statuses[2:]]
    member.ask("PATCH", f"{MAPS}/a", {"data": None}, media=MERGE, user=ANN)


def test_an_object_that_is_too_large_can_shrink(member: Local) -> None:
    body = config_map("large", **{f"k{at}": "x" for at in range(3 * MOST_NAMESPACED_VALUES)})
    member.ask("POST", MAPS, body, user=SYSTEM)
    one_less, one_more = {"data": {"k0": None}}, {"data": {"k0": "xx"}}
    member.ask("PATCH", f"{MAPS}/large", one_less, media=MERGE, user=ANN)
    assert 413 == member.refusal("PATCH", f"{MAPS}/large", one_more, media=MERGE, user=ANN)["code"]


def test_long_texts_cannot_be_exchanged_for_many_values(member: Local) -> None:
    member.ask("POST", MAPS, config_map("text", a="x" * 900_000), user=ANN)
    for at in range(2):
        patch = {"data": keys(f"k{at}-")}
        answer = member.raw("PATCH", f"{MAPS}/text", patch, media=MERGE, user=ANN)
    exchange = {"data": {**keys("z"), "a": None}}
    assert 413 == member.raw("PATCH", f"{MAPS}/text", exchange, media=MERGE, user=ANN).status
    assert answer.status in (200, 413)


def test_field_managers_cannot_multiply_the_size_of_an_object(member: Local) -> None:
    config = json.dumps(config_map("a", **keys("k", MOST_NAMESPACED_VALUES // 3))).encode()
    statuses = [
        member.raw(
            "PATCH", f"{MAPS}/a", config, media=APPLY, user=ANN, fieldManager=f"m{at}"
        ).status
        for at in range(8)
    ]
    assert (200, 413) == (statuses[0], statuses[-1])


def test_an_object_has_a_limited_size_for_everybody(api: Local) -> None:
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    labels = {"matchLabels": {"a": "b"}}
    template = job("d")["spec"]["template"]
    spec = {"containers": template["spec"]["containers"]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    about = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    api.ask("POST", deployments, about | {"spec": {"selector": labels, "template": template}})

    def grown(at: int) -> int:
        env = [{"name": f"K{at}", "value": "x" * 2_000_000}]
        patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "env": env}]}}}}
        return api.raw("PATCH", f"{deployments}/d", patch, media=STRATEGIC).status

    assert [200, 200, 200, 413] == [grown(at) for at in range(4)]


def test_objects_of_admins_in_namespaces_have_as_few_values(api: Local) -> None:
    # A ConfigMap with 60,000 values took one to three seconds of the event loop.
    patch = {"data": MANY["data"]}
    for method, path, media, body in (
        ("POST", MAPS, "application/json", MANY),
        ("PATCH", f"{MAPS}/a", MERGE, patch),
        ("PATCH", f"{MAPS}/a", APPLY, json.dumps(MANY).encode()),
    ):
        assert 413 == api.refusal(method, path, body, media=media, fieldManager="m")["code"]
    patches = [{"data": keys(f"k{at}-", 2_000)} for at in range(4)]
    statuses = [api.raw("PATCH", f"{MAPS}/a", each, media=MERGE).status for each in patches]
    assert [200, 200, 413, 413] == statuses


def test_definitions_of_kinds_may_have_many_values(api: Local) -> None:
    names = {"plural": "odds", "singular": "odd", "kind": "Odd", "listKind": "OddList"}
    fields = {f"p{at}": {"type": "string"} for at in range(MOST_NAMESPACED_VALUES)}
    schema = {"openAPIV3Schema": {"type": "object", "properties": fields}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    group = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "odds.example.com"},
        "spec": group,
    }
    api.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)


@pytest.mark.parametrize(
    "query",
    [
        {"labelSelector": ",".join(f"a{at}!=b" for at in range(MOST_TERMS + 1))},
        {"labelSelector": f"a notin ({','.join(f'b{at}' for at in range(MOST_TERMS + 1))})"},
        {"fieldSelector": ",".join(["metadata.name!=b"] * (MOST_FIELD_TERMS + 1))},
    ],
    ids=["requirements", "values", "fields"],
)
@pytest.mark.parametrize("watch", ["", "true"])
def test_a_selector_has_a_limited_number_of_terms(
    api: Local, query: dict[str, str], watch: str
) -> None:
    refused = api.refusal("GET", MAPS, watch=watch, **query)
    assert (400, True) == (refused["code"], "selector has at most" in refused["message"])


def managed(fields: Any) -> dict[str, Any]:
    entry = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    return {"managedFields": [entry | {"fieldsV1": fields}]}


LARGE = "x" * 100_000
CACHED: dict[str, Callable[[str], tuple[str, str, Any]]] = {
    "many fields": lambda each: (
        "PUT",
        f"{MAPS}/a",
        config_map("a")
        | {
            "metadata": {"name": "a"}
            | managed({"f:data": {f"f:{each}-{at}": {} for at in range(5000)}})
        },
    ),
    "long fields": lambda each: (
        "PUT",
        f"{MAPS}/a",
        config_map("a") | {"metadata": {"name": "a"} | managed({f"f:{each}{LARGE}": {}})},
    ),
    "long keys of items": lambda each: (
        "PUT",
        f"{MAPS}/a",
        config_map("a")
        | {"metadata": {"name": "a"} | managed({f'k:{{"name":"{each}{LARGE}"}}': {}})},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("attack", CACHED)
def test_large_texts_of_clients_are_not_cached(api: Local, attack: str) -> None:
    def send(count: int) -> None:
        for at in range(count):
            method, path, body = CACHED[attack](f"{count}-{at}")
            api.raw(method, path, json.dumps(body).encode())
        api.raw("PUT", f"{MAPS}/a", json.dumps(config_map("a")).encode())

    send(3)
    gc.collect()
    tracemalloc.start()
    try:
        send(30)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert grown < 1 << 20
