# SPDX-License-Identifier: Apache-2.0
"""Pages and files: headers, caching, and paths that leave the directory."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dashboard.pods import log, put_pod
from dashboard.served import Served, serving
from kuota.dashboard.static_files import StaticFiles

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}


@pytest.mark.parametrize(
    ("path", "status"),
    [("", 200), ("workloads", 200), ("queues/a?x=1", 200), ("api/x", 404), ("static/x.js", 404)],
)
def test_every_response_protects_the_browser(path: str, status: int) -> None:
    async def work(served: Served) -> None:
        async with served.browser() as browser, browser.get(served.url(path)) as response:
            assert status == response.status
            for name, value in HEADERS.items():
                assert value == response.headers[name]
            policy = response.headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'; script-src 'self'; ")
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy

    serving(work)


def test_the_bare_path_leads_to_the_page() -> None:
    async def work(served: Served) -> None:
        async with (
            served.browser() as browser,
            browser.get(f"{served.base}/dashboard", allow_redirects=False) as response,
        ):
            assert (307, "/dashboard/") == (response.status, response.headers["Location"])

    serving(work)


def test_an_unchanged_file_is_not_sent_again() -> None:
    async def work(served: Served) -> None:
        async with served.browser() as browser:
            async with browser.get(served.url("static/index.html")) as response:
                etag = response.headers["ETag"]
            again = {"If-None-Match": etag}
            async with browser.get(served.url("static/index.html"), headers=again) as response:
                assert 304 == response.status

    serving(work)


ESCAPES = (
    "/dashboard/static/../../../../../../etc/passwd",
    "/dashboard/static/%2e%2e/%2e%2e/static_files.py",
    "/dashboard/static/..%2fstatic_files.py",
    "/dashboard/static//etc/passwd",
    "/dashboard/static/%2fetc%2fpasswd",
    "/dashboard/static/index.html%00.js",
    "/dashboard/static/",
    "/dashboard/static/.",
    "/dashboard/static/..\\static_files.py",
)


def test_no_path_leaves_the_directory() -> None:
    async def work(served: Served) -> None:
        for path in ESCAPES:
            status, body = await raw(served, f"GET {path} HTTP/1.1")
            assert status in (400, 404), path
            assert b"root:" not in body

    serving(work)


INJECTIONS = (
    "/dashboard/a%0d%0aSet-Cookie:%20x=y",
    "/dashboard/?a=%0d%0aX-Evil:%201",
    "/dashboard/api/x%0d%0aX-Evil:%201",
)


def test_a_request_adds_no_header_to_the_response() -> None:
    async def work(served: Served) -> None:
        for path in INJECTIONS:
            _, body = await raw(served, f"GET {path} HTTP/1.1")
            head = body.partition(b"\r\n\r\n")[0].lower()
            assert b"x-evil" not in head, path
            assert b"set-cookie" not in head, path

    serving(work)


def test_pages_are_only_read() -> None:
    async def work(served: Served) -> None:
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            status, _ = await raw(served, f"{method} /dashboard/ HTTP/1.1")
            assert 405 == status, method

    serving(work)


def test_only_files_of_known_types_are_served(tmp_path: Path) -> None:
    (tmp_path / "vendor").mkdir()
    (tmp_path / "vendor" / "lib.js").write_text("x" * 5000)
    (tmp_path / "vendor" / "SHA256SUMS").write_text("sums")
    (tmp_path / ".hidden").write_text("secret")
    assert {"vendor/lib.js"} == set(StaticFiles(tmp_path).paths)


async def raw(served: Served, line: str) -> tuple[int, bytes]:
    """Send a request that no client library would send, and return the whole response."""
    port = int(served.base.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{line}\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return int(answer.split(b" ")[1]), answer


async def _raw(served: Served, request: str) -> bytes:
    """All bytes of the response to a request, after which the server closes the connection."""
    url = urlsplit(served.base)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    head = f"{request} HTTP/1.1\r\nHost: {url.netloc}\r\nConnection: close\r\n"
    writer.write(f"{head}Authorization: Bearer ann-token\r\n\r\n".encode())
    try:
        return await reader.read()
    finally:
        writer.close()


def test_nothing_follows_the_headers_of_a_response_to_head() -> None:
    """A proxy would take it for the response to the request of another user."""

    async def work(served: Served) -> None:
        await put_pod(served, "vision", "train-0")
        for path, status in (
            ("stream?view=workloads", 405),
            ("stream?view=absent", 405),
            ("logs?namespace=vision&pod=train-0", 405),
            ("session", 200),
            ("history", 404),
        ):
            answer = await _raw(served, f"HEAD /dashboard/api/{path}")
            assert answer.startswith(f"HTTP/1.1 {status} ".encode()), path
            assert answer.endswith(b"\r\n\r\n"), path
            assert 1 == answer.count(b"\r\n\r\n"), path

    serving(work, logs=log)
