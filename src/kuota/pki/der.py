# SPDX-License-Identifier: Apache-2.0
"""DER, the way certificates are written: the few types that they need, and PEM around it."""

from __future__ import annotations

import base64
import textwrap
from datetime import UTC, datetime


def tagged(tag: int, content: bytes) -> bytes:
    """One value."""
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def sequence(*parts: bytes) -> bytes:
    return tagged(0x30, b"".join(parts))


def integer(value: int) -> bytes:
    return tagged(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def bits(content: bytes) -> bytes:
    return tagged(0x03, b"\x00" + content)


def octets(content: bytes) -> bytes:
    return tagged(0x04, content)


def text(content: str) -> bytes:
    return tagged(0x0C, content.encode())


def time(when: datetime) -> bytes:
    when = when.astimezone(UTC)
    if when.year < 2050:
        return tagged(0x17, when.strftime("%y%m%d%H%M%SZ").encode())
    return tagged(0x18, when.strftime("%Y%m%d%H%M%SZ").encode())


def oid(dotted: str) -> bytes:
    first, second, *rest = map(int, dotted.split("."))
    content = bytes([first * 40 + second])
    for arc in rest:
        digits = [arc & 0x7F]
        while arc := arc >> 7:
            digits.append(0x80 | (arc & 0x7F))
        content += bytes(reversed(digits))
    return tagged(0x06, content)


def pem(label: str, der: bytes) -> bytes:
    lines = textwrap.fill(base64.b64encode(der).decode(), 64)
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n".encode()
