# SPDX-License-Identifier: Apache-2.0
"""OpenAPI v2, of which kubectl wants no more than that it is there.

Before it sends a `kind: List`, kubectl checks the items by this document, and passes what is not in
it. Each item is then checked by the server, as all objects are. So the document lists nothing.
"""

from __future__ import annotations

import msgspec

from .requests import JSON, Response

PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_TITLE, _VERSION = "Kuota", "v1.34.0"


def empty_document(accept: str) -> Response:
    """The document in the form that is asked for."""
    wanted = accept.replace("@", ".")
    if PROTOBUF in wanted:
        return Response(200, _protobuf(), PROTOBUF)
    document = {
        "swagger": "2.0",
        "info": {"title": _TITLE, "version": _VERSION},
        "paths": {},
        "definitions": {},
    }
    return Response(200, msgspec.json.encode(document), JSON)


def _protobuf() -> bytes:
    """Field 1 is the version of the form, 2 the info, of which 1 is the title and 2 the version."""
    about = _field(1, _TITLE.encode()) + _field(2, _VERSION.encode())
    return _field(1, b"2.0") + _field(2, about) + _field(8, b"") + _field(9, b"")


def _field(number: int, content: bytes) -> bytes:
    assert len(content) < 128  # so that its length is one byte
    return bytes([number << 3 | 2, len(content)]) + content
