# SPDX-License-Identifier: Apache-2.0
"""The curve P-256 (FIPS 186-4), as far as one key and one signature need it.

Keys are used here on the machine that keeps them, a few times in years, so the time that an
operation takes tells nobody anything.
"""

from __future__ import annotations

import hashlib
import secrets

# y^2 = x^3 - 3x + b modulo _P, with a base point of order ORDER.
_P = 2**256 - 2**224 + 2**192 + 2**96 - 1
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_BASE = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
Point = tuple[int, int] | None


def private_key() -> int:
    return secrets.randbelow(ORDER - 1) + 1


def public_key(private: int) -> bytes:
    """The point that belongs to a private key, uncompressed."""
    x, y = _times(private, _BASE)
    return b"\x04" + x.to_bytes(32, "big") + y.to_bytes(32, "big")


def signature(message: bytes, private: int) -> tuple[int, int]:
    """ECDSA with SHA-256."""
    digest = int.from_bytes(hashlib.sha256(message).digest(), "big")
    while True:
        nonce = private_key()
        r = _times(nonce, _BASE)[0] % ORDER
        s = pow(nonce, -1, ORDER) * (digest + r * private) % ORDER
        if r and s:
            return r, s


def _plus(a: Point, b: Point) -> Point:
    """The sum of two points; None is the neutral one."""
    if a is None or b is None:
        return a or b
    if a[0] == b[0]:
        if (a[1] + b[1]) % _P == 0:
            return None
        slope = 3 * (a[0] * a[0] - 1) * pow(2 * a[1], -1, _P)
    else:
        slope = (b[1] - a[1]) * pow(b[0] - a[0], -1, _P)
    x = (slope * slope - a[0] - b[0]) % _P
    return x, (slope * (a[0] - x) - a[1]) % _P


def _times(factor: int, point: Point) -> tuple[int, int]:
    total: Point = None
    while factor:
        if factor & 1:
            total = _plus(total, point)
        point = _plus(point, point)
        factor >>= 1
    assert total is not None
    return total
