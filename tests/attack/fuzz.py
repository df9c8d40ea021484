# SPDX-License-Identifier: Apache-2.0
"""Generates malformed requests from a seed: syntax, paths, parameters, bodies and patches."""

from __future__ import annotations

import gzip
import random
from typing import Any

from attack.fuzz_http import broken_headers, broken_path, broken_query, broken_syntax
from attack.fuzz_objects import (
    APPLY,
    COLLECTIONS,
    JSON,
    JSON_PATCH,
    OBJECTS,
    ODD_VALUES,
    PATCHES,
    PROTOBUF,
    YAML,
    Attempt,
    Generator,
    encoded,
    mutated,
    value_of,
)


def broken_object(rng: random.Random) -> Attempt:
    path, make = rng.choice(OBJECTS)
    body = encoded(mutated(rng, make()))
    query = rng.choice(["", "?fieldValidation=Strict", "?dryRun=All", "?fieldManager=" + "m" * 200])
    if rng.random() < 0.3:
        name = rng.choice(["seed", "fuzzed", "missing"])
        below = rng.choice(["", "/status", "/scale", "/eviction", "/binding", "/log", "/nothing"])
        return Attempt("PUT", f"{path}/{name}{below}{query}", {"Content-Type": JSON}, body)
    return Attempt("POST", path + query, {"Content-Type": JSON}, body)


def broken_bytes(rng: random.Random) -> Attempt:
    """Bodies that are not what their media type says."""
    whole = encoded(rng.choice(OBJECTS)[1]())
    text = rng.choice(
        [
            b"",
            b"null",
            b"[]",
            b'"a"',
            b"1",
            b"{",
            b"\xff\xfe",
            b"\x00",
            b'{"a":"\xff"}',
            b"{}{}",
            whole[: rng.randrange(len(whole))],
            whole + whole,
            b'{"metadata":{"name":"a\\ud800"}}',
            b'{"metadata":{"name":"a","name":"b"},"data":{"a":"b","a":"c"}}',
            b'{"a":' * 5000,
            b"[" * 100_000,
            b'{"data":' + b'{"a":' * 500 + b"1" + b"}" * 501,
            b'{"spec":1e400}',
            b'{"metadata":{"name":"a"},"data":{"a":' + b"9" * 5000 + b"}}",
            b"a: &a [*a]",
            b"a: &a [b,b]\nb: &b [*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c]",
            b"- " * 3000,
            b"a: !!python/object/apply:os.system [true]",
            b"%YAML 9.9\n---\n",
            b"{a: b",
            b"\t- a",
            b"k8s\x00",
            b"k8s\x00" + rng.randbytes(60),
            b"k8s\x00\n\x0c\n\x02v1\x12\x06Secret\x12\xff\xff\xff\x0f",
            rng.randbytes(rng.randrange(1, 200)),
        ]
    )
    media = rng.choice(
        [JSON, YAML, PROTOBUF, "text/plain", "application/cbor", "", "a/b;c=\x01", "*/*"]
    )
    encoding = rng.choice(
        ["", "", "", "gzip", "deflate", "br", "zstd", "nonsense", "identity", "gzip, gzip"]
    )
    headers = {"Content-Type": media.replace("\x01", "d")}
    if encoding:
        headers["Content-Encoding"] = encoding
        if rng.random() < 0.5:
            text = gzip.compress(text, mtime=0)[: rng.choice([None, 12])]
    method = rng.choice(["POST", "PUT", "PATCH", "DELETE"])
    path = rng.choice(COLLECTIONS)
    path += {"POST": "", "DELETE": "/fuzzed"}.get(method, "/seed")
    if method == "PATCH":
        headers["Content-Type"] = rng.choice([*PATCHES, media.replace("\x01", "d")])
    return Attempt(method, path + rng.choice(["", "?fieldManager=f&force=true"]), headers, text)


def broken_patch(rng: random.Random) -> Attempt:
    path, make = rng.choice(OBJECTS)
    media = rng.choice(PATCHES)
    body: Any = mutated(rng, make())
    if media == JSON_PATCH:
        body = operations(rng)
    elif rng.random() < 0.3:
        body = strategic(rng)
    elif media == APPLY and rng.random() < 0.4:
        body["metadata"] = {"managedFields": managed_fields(rng), "name": "seed"}
    below = rng.choice(["", "", "/status", "/scale"])
    query = rng.choice(
        ["", "?fieldManager=f", "?fieldManager=f&force=true", "?fieldValidation=Strict"]
    )
    return Attempt("PATCH", f"{path}/seed{below}{query}", {"Content-Type": media}, encoded(body))


def operations(rng: random.Random) -> Any:
    """JSON patches: wrong operations, deep paths, and copies that double the document."""
    bomb = [{"op": "copy", "from": "/data", "path": f"/data/{at}"} for at in range(40)]
    paths = [
        "",
        "/",
        "/metadata",
        "/metadata/name",
        "/spec/template",
        "/data/a",
        "/a/b/c",
        "a",
        "/-",
        "/0",
        "/data/~2",
        "/metadata/managedFields/0",
        "/metadata/managedFields",
        "/" * 3000,
        "/a" * 3000,
        "/metadata/labels",
        "/kind",
        "/apiVersion",
        "/metadata/uid",
        "/spec/podSets/0",
        "/\x00",
    ]
    ops = ["add", "remove", "replace", "move", "copy", "test", "nonsense", None, 1]
    if rng.random() < 0.1:
        return rng.choice([bomb, {}, None, [None], [[]], "a", [{"op": "add"}], bomb * 100])
    return [
        {
            "op": rng.choice(ops),
            "path": rng.choice(paths),
            "from": rng.choice(paths),
            "value": rng.choice(ODD_VALUES),
        }
        for _ in range(rng.randint(1, 6))
    ]


def strategic(rng: random.Random) -> Any:
    """Directives of strategic merge patches in the wrong places."""
    value = rng.choice(ODD_VALUES)
    directives = {
        "$patch": rng.choice(["delete", "replace", "merge", "nonsense", 1, None]),
        "$retainKeys": value,
        "$setElementOrder/containers": value,
        "$deleteFromPrimitiveList/finalizers": value,
        "containers": rng.choice([value, [value], [{"$patch": "delete"}], [{"name": value}]]),
    }
    inner = {key: each for key, each in directives.items() if rng.random() < 0.5}
    return {"spec": {"template": {"spec": inner}}, "metadata": rng.choice([inner, value])}


def managed_fields(rng: random.Random) -> Any:
    fields = rng.choice(
        [
            {},
            {"f:spec": value_of(rng)},
            {"k:{": {}},
            {"v:1": 1},
            {"i:x": {}},
            {".": {}},
            {"f:": {".": 1}},
        ]
    )
    entry = {
        "manager": rng.choice([*ODD_VALUES]),
        "operation": rng.choice(["Apply", "Update", "x", None, 1]),
        "apiVersion": rng.choice(["v1", "batch/v1", "a/b/c", "", None, {}]),
        "fieldsType": rng.choice(["FieldsV1", "x", None]),
        "fieldsV1": rng.choice([fields, value_of(rng)]),
        "subresource": rng.choice(["", "status", 1, None]),
        "time": rng.choice(["2026-01-01T00:00:00Z", "x", 1, None]),
    }
    return rng.choice([[entry], [entry] * 30, entry, value_of(rng), [value_of(rng)]])


GENERATORS: tuple[Generator, ...] = (
    broken_object,
    broken_object,
    broken_bytes,
    broken_patch,
    broken_patch,
    broken_query,
    broken_path,
    broken_headers,
    broken_syntax,
)


def attempts(
    seed: int, count: int, generators: tuple[Generator, ...] = GENERATORS
) -> list[Attempt]:
    """The same requests for the same seed."""
    rng = random.Random(seed)
    return [rng.choice(generators)(rng) for _ in range(count)]
