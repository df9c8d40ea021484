# SPDX-License-Identifier: Apache-2.0
"""A self-signed certificate for the server of one machine, so that kubectl will send its token.

kubectl keeps the user's token to itself when a server speaks plain HTTP, even on loopback. So the
server needs a certificate, and `kuota up` must find one on a machine that has Python and nothing
else. This makes one key (P-256) and one signature, once; what is served with it is OpenSSL's
business. A certificate of one's own takes its place for any address but loopback.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import os
import secrets
import ssl
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_LIFETIME = timedelta(days=3650)

# The curve P-256 (FIPS 186-4): y^2 = x^3 - 3x + b modulo _P, with a base point of order _N.
_P = 2**256 - 2**224 + 2**192 + 2**96 - 1
_N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_BASE = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
Point = tuple[int, int] | None


def server_context(directory: str | os.PathLike[str], now: datetime) -> ssl.SSLContext:
    """The context of a server whose certificate lies in the directory, which is made if absent.

    The files are `server.crt`, which clients trust, and `server.key`, for its owner's eyes only.
    """
    place = Path(directory)
    certificate, key = place / "server.crt", place / "server.key"
    if not certificate.exists() or not key.exists():
        place.mkdir(parents=True, exist_ok=True)
        certificate_pem, key_pem = self_signed(LOOPBACK, now)
        key.unlink(missing_ok=True)
        descriptor = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key_pem)
        certificate.write_bytes(certificate_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def self_signed(hosts: Sequence[str], now: datetime) -> tuple[bytes, bytes]:
    """A certificate for the hosts and its private key, both in PEM."""
    private = secrets.randbelow(_N - 1) + 1
    public = _encoded(_times(private, _BASE))
    body = _to_be_signed(hosts, public, now)
    signature = _sequence(*map(_integer, _signature(body, private)))
    certificate = _sequence(body, _ECDSA_SHA256, _bits(signature))
    key = _sequence(
        _integer(1),
        _tagged(0x04, private.to_bytes(32, "big")),
        _tagged(0xA0, _oid("1.2.840.10045.3.1.7")),
        _tagged(0xA1, _bits(public)),
    )
    return _pem("CERTIFICATE", certificate), _pem("EC PRIVATE KEY", key)


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


def _encoded(point: tuple[int, int]) -> bytes:
    return b"\x04" + point[0].to_bytes(32, "big") + point[1].to_bytes(32, "big")


def _signature(message: bytes, private: int) -> tuple[int, int]:
    """ECDSA with SHA-256."""
    digest = int.from_bytes(hashlib.sha256(message).digest(), "big")
    while True:
        nonce = secrets.randbelow(_N - 1) + 1
        r = _times(nonce, _BASE)[0] % _N
        s = pow(nonce, -1, _N) * (digest + r * private) % _N
        if r and s:
            return r, s


def _to_be_signed(hosts: Sequence[str], public: bytes, now: datetime) -> bytes:
    name = _sequence(_tagged(0x31, _sequence(_oid("2.5.4.3"), _tagged(0x0C, b"kuota"))))
    algorithm = _sequence(_oid("1.2.840.10045.2.1"), _oid("1.2.840.10045.3.1.7"))
    begin = now - timedelta(days=1)
    return _sequence(
        _tagged(0xA0, _integer(2)),
        _integer(secrets.randbits(127) + 1),
        _ECDSA_SHA256,
        name,
        _sequence(_time(begin), _time(begin + _LIFETIME)),
        name,
        _sequence(algorithm, _bits(public)),
        _tagged(0xA3, _sequence(*_extensions(hosts, public))),
    )


def _extensions(hosts: Sequence[str], public: bytes) -> list[bytes]:
    """It is its own authority, signs nothing else, and is for servers with these names."""
    identifier = hashlib.sha1(public, usedforsecurity=False).digest()
    return [
        _extension("2.5.29.19", _sequence(_tagged(0x01, b"\xff"), _integer(0)), critical=True),
        _extension("2.5.29.15", b"\x03\x02\x02\x84", critical=True),
        _extension("2.5.29.37", _sequence(_oid("1.3.6.1.5.5.7.3.1"))),
        _extension("2.5.29.17", _sequence(*map(_host, hosts))),
        _extension("2.5.29.14", _tagged(0x04, identifier)),
        _extension("2.5.29.35", _sequence(_tagged(0x80, identifier))),
    ]


def _extension(oid: str, value: bytes, *, critical: bool = False) -> bytes:
    flag = [_tagged(0x01, b"\xff")] if critical else []
    return _sequence(_oid(oid), *flag, _tagged(0x04, value))


def _host(host: str) -> bytes:
    try:
        return _tagged(0x87, ipaddress.ip_address(host).packed)
    except ValueError:
        return _tagged(0x82, host.encode("ascii"))


def _time(when: datetime) -> bytes:
    when = when.astimezone(UTC)
    if when.year < 2050:
        return _tagged(0x17, when.strftime("%y%m%d%H%M%SZ").encode())
    return _tagged(0x18, when.strftime("%Y%m%d%H%M%SZ").encode())


def _tagged(tag: int, content: bytes) -> bytes:
    """One value in DER."""
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def _sequence(*parts: bytes) -> bytes:
    return _tagged(0x30, b"".join(parts))


def _integer(value: int) -> bytes:
    return _tagged(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _bits(content: bytes) -> bytes:
    return _tagged(0x03, b"\x00" + content)


def _oid(text: str) -> bytes:
    first, second, *rest = map(int, text.split("."))
    content = bytes([first * 40 + second])
    for arc in rest:
        digits = [arc & 0x7F]
        while arc := arc >> 7:
            digits.append(0x80 | (arc & 0x7F))
        content += bytes(reversed(digits))
    return _tagged(0x06, content)


def _pem(label: str, der: bytes) -> bytes:
    lines = textwrap.fill(base64.b64encode(der).decode(), 64)
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n".encode()


_ECDSA_SHA256 = _sequence(_oid("1.2.840.10045.4.3.2"))
