# SPDX-License-Identifier: Apache-2.0
"""Malformed HTTP: parameters, paths, headers, and bytes that are not HTTP at all."""

from __future__ import annotations

import random
from urllib.parse import quote

from attack.fuzz_objects import COLLECTIONS, JSON, MAPS, PROTOBUF, Attempt, config_map, encoded


def broken_query(rng: random.Random) -> Attempt:
    """Parameters with the wrong type, wrong escapes, and selectors that are hard to parse."""
    names = (
        "limit",
        "resourceVersion",
        "timeoutSeconds",
        "continue",
        "labelSelector",
        "fieldSelector",
        "resourceVersionMatch",
        "sendInitialEvents",
        "dryRun",
        "fieldManager",
        "gracePeriodSeconds",
        "propagationPolicy",
        "tailLines",
        "sinceSeconds",
        "sinceTime",
        "limitBytes",
        "container",
        "includeObject",
        "pretty",
        "allowWatchBookmarks",
        "watch",
        "previous",
    )
    values = (
        "abc",
        "xyz",
        "-1",
        "0",
        "1",
        "99999999999999999999",
        "9" * 300,
        "1.5",
        "%zz",
        "%",
        "%ff%fe",
        "%00",
        "%ed%a0%80",
        "eyJ2IjoxfQ",
        "e30",
        "bnVsbA==",
        "W10=",
        "true",
        "1e9",
        "+1",
        "%D9%A3",
        "",
        "a in (" + ",".join(map(str, range(2000))) + ")",
        "a" * 3000,
        "(" * 2000,
        "!" * 2000,
        "a=" + "b," * 2000,
        "a in (((((",
        "a>b",
        "x notin ()",
        "a==b==c",
        "metadata.name=" + "\\" * 999,
        "\\,=" * 500,
        "metadata.name!=x,metadata.name=seed",
        quote("é=ü"),
        "a%3Db%2C" * 400,
    )
    parameters = "&".join(
        f"{rng.choice(names)}={rng.choice(values)}" for _ in range(rng.randint(1, 4))
    )
    if rng.random() < 0.02:
        parameters = "&".join(f"a{at}=1" for at in range(3000))
    # A watch must end by itself, so that the next request can follow on the connection.
    parameters = parameters.replace("watch=", "watches=").replace(
        "timeoutSeconds=", "timeoutSecond="
    )
    if rng.random() < 0.2:
        parameters += "&watch=true&timeoutSeconds=" + rng.choice(
            ["abc", "-5", "99999999999999999999", "1e3"]
        )
        parameters += "&resourceVersion=" + rng.choice(
            ["xyz", "-1", "18446744073709551616", "1" * 40]
        )
    path = rng.choice(COLLECTIONS) + rng.choice(["", "", "/seed", "/seed/log", "/seed/status"])
    method = rng.choice(["GET", "HEAD"])
    accept = rng.choice(["*/*", JSON, JSON + ";as=Table;v=v1;g=meta.k8s.io", PROTOBUF, "x", ",;=,"])
    return Attempt(method, f"{path}?{parameters}", {"Accept": accept})


def broken_path(rng: random.Random) -> Attempt:
    parts = (
        "api",
        "apis",
        "v1",
        "namespaces",
        "vision",
        "pods",
        "..",
        ".",
        "",
        "%2e%2e",
        "%2f",
        "%00",
        "%ff",
        "%zz",
        "%",
        "batch",
        "jobs",
        "seed",
        "log",
        "status",
        "x" * 1000,
        "a b",
        "é",
        "watch",
        "exec",
        "openapi",
        "v3",
        "v2",
        "metrics",
        "healthz",
        "livez",
        "%ed%a0%80",
        "proxy",
        "$(A)",
        "~",
        "*",
        "kueue.x-k8s.io",
        "v1beta1",
        "v1beta2",
        "visibility.kueue.x-k8s.io",
        "pendingworkloads",
        "clusterqueues",
        "localqueues",
        "scale",
        "version",
        "kuota.dev",
        "logs.kuota.dev",
    )
    path = "/" + "/".join(rng.choice(parts) for _ in range(rng.randint(0, 9)))
    methods = (
        "GET",
        "GET",
        "POST",
        "PUT",
        "PATCH",
        "DELETE",
        "HEAD",
        "OPTIONS",
        "TRACE",
        "BREW",
        "PROPFIND",
    )
    body = rng.choice([b"", b"{}", b"x"])
    quoted = quote(path.replace(" ", "%20"), safe="/%$()~*?&=")
    return Attempt(rng.choice(methods), quoted, {"Content-Type": JSON}, body)


def broken_headers(rng: random.Random) -> Attempt:
    value = rng.choice(
        ["", "x" * 7000, "\xff\xfe", "a,b,c", "\t", "é", "{}", "-1", "9" * 30, "chunked"]
    )
    name = rng.choice(
        [
            "Accept",
            "User-Agent",
            "X-Odd",
            "Impersonate-User",
            "Impersonate-Group",
            "Content-Type",
            "Cookie",
            "If-Match",
            "Range",
            "X-Forwarded-For",
            "Origin",
            "Upgrade",
            "Date",
            "Sec-WebSocket-Key",
            "Sec-WebSocket-Protocol",
        ]
    )
    body = encoded(config_map()) if rng.random() < 0.5 else b""
    headers = {name: value}
    return Attempt("POST" if body else "GET", MAPS, {"Content-Type": JSON} | headers, body)


def broken_syntax(rng: random.Random) -> Attempt:
    """Bytes that are not HTTP, or only almost."""
    raw = rng.choice(
        [
            b"\r\n\r\n",
            b"\x16\x03\x01\x02\x00" + rng.randbytes(50),
            rng.randbytes(200) + b"\r\n\r\n",
            b"GET\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"get / http/1.1\r\n\r\n",
            b"GET  / HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nA\r\n\r\n",
            b"GET / HTTP/1.1\r\n: b\r\n\r\n",
            b"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\n"
            + b"".join(b"A%d: b\r\n" % at for at in range(300))
            + b"\r\n",
            b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nA: " + b"b" * 70_000 + b"\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            b"POST / HTTP/1.1\r\nHost:\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\nzz\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"f" * 18
            + b"\r\n",
            b"GET http://[::1 HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET // HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET http://a:99999999/ HTTP/1.1\r\nHost: a\r\n\r\n",
            b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET * HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \xff\xfe\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic !!!\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81",
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nExpect: nonsense\r\n\r\n",
        ]
    )
    return Attempt(raw=raw)
