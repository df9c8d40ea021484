# SPDX-License-Identifier: Apache-2.0
"""The files of the pages, read once. A path is looked up in a table, never on the disk."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Collection
from pathlib import Path

import msgspec
from aiohttp import web

from .responses import SECURITY_HEADERS, not_found

DIRECTORY = Path(__file__).parent / "static"
INDEX = "index.html"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
"""Other files, such as notes and checksums, are not served."""
_SMALLEST = 1024
"""Smaller files are not worth compressing."""


class StaticFile(msgspec.Struct, frozen=True):
    """The content of one file. `packed` is empty if compression does not help."""

    content_type: str
    body: bytes
    packed: bytes
    etag: str


class StaticFiles:
    """All files below a directory, by relative path."""

    def __init__(self, directory: Path = DIRECTORY) -> None:
        self._files = {
            str(path.relative_to(directory)): _loaded(path)
            for path in sorted(directory.rglob("*"))
            if path.is_file() and path.suffix in _TYPES
        }

    @property
    def paths(self) -> Collection[str]:
        """The paths of the files that are served."""
        return self._files.keys()

    def response(self, path: str, request: web.BaseRequest) -> web.Response:
        """Return the file. Raises StatusError if there is none of that name."""
        found = self._files.get(path)
        if found is None:
            raise not_found("the dashboard has no such file")
        headers = {
            **SECURITY_HEADERS,
            # Files have no version in their names, so browsers ask whether theirs is current.
            "Cache-Control": "no-cache",
            "Content-Type": found.content_type,
            "ETag": found.etag,
            "Vary": "Accept-Encoding",
        }
        if found.etag in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers=headers)
        body = found.body
        if found.packed and "gzip" in request.headers.get("Accept-Encoding", ""):
            headers["Content-Encoding"] = "gzip"
            body = found.packed
        return web.Response(body=body, headers=headers)


def _loaded(path: Path) -> StaticFile:
    body = path.read_bytes()
    packed = gzip.compress(body, mtime=0) if len(body) >= _SMALLEST else b""
    return StaticFile(
        content_type=_TYPES[path.suffix],
        body=body,
        packed=packed if len(packed) < len(body) else b"",
        etag=f'"{hashlib.sha256(body).hexdigest()[:32]}"',
    )
