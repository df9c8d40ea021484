# SPDX-License-Identifier: Apache-2.0
"""Makes certificates (P-256, X.509v3) for servers: self-signed ones, and ones with an authority.

An authority signs once and its key is forgotten: who renews a certificate makes a new authority,
and nobody who reads a store can sign in the name of the old one.
"""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from . import curve
from .der import bits, integer, octets, oid, pem, sequence, tagged, text, time

YEAR = timedelta(days=365)
_EARLIER = timedelta(days=1)
_CERTIFICATE = "CERTIFICATE"
_KEY = "EC PRIVATE KEY"
_P256 = oid("1.2.840.10045.3.1.7")
_ECDSA_SHA256 = sequence(oid("1.2.840.10045.4.3.2"))
_TRUE = tagged(0x01, b"\xff")
# Bits of keyUsage, the leftmost first: 0 digital signature, 5 signs certificates, 6 signs lists.
_SIGNS_AND_SERVES = b"\x03\x02\x02\x84"
_SIGNS = b"\x03\x02\x01\x06"
_SERVES = b"\x03\x02\x07\x80"


class Pair(msgspec.Struct, frozen=True):
    """A certificate and its private key, both in PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "Pair(certificate and key)"


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """What a server shows, and the authority that its clients trust, in PEM."""

    authority: bytes
    pair: Pair


class _Issuer(msgspec.Struct, frozen=True):
    """Who signs: the name as it is written in DER, and the key."""

    name: bytes
    private: int
    identifier: bytes


def self_signed(hosts: Sequence[str], now: datetime) -> tuple[bytes, bytes]:
    """A certificate for the hosts that is its own authority, and its key, both in PEM."""
    private = curve.private_key()
    public = curve.public_key(private)
    name = _name("kuota")
    issuer = _Issuer(name, private, _identifier(public))
    own = [
        _extension("2.5.29.19", sequence(_TRUE, integer(0)), critical=True),
        _extension("2.5.29.15", _SIGNS_AND_SERVES, critical=True),
        *_serving(hosts),
    ]
    made = _signed(issuer, name, public, now, 10 * YEAR, own)
    return pem(_CERTIFICATE, made), _key_pem(private, public)


def chain(name: str, hosts: Sequence[str], now: datetime, lifetime: timedelta = YEAR) -> Chain:
    """A certificate for a server with these names, signed by a new authority called `name`."""
    written, private = _name(name), curve.private_key()
    public = curve.public_key(private)
    issuer = _Issuer(written, private, _identifier(public))
    vouching = [
        _extension("2.5.29.19", sequence(_TRUE, integer(0)), critical=True),
        _extension("2.5.29.15", _SIGNS, critical=True),
    ]
    authority = _signed(issuer, written, public, now, lifetime, vouching)
    serving, shown = curve.private_key(), _name(hosts[0])
    public = curve.public_key(serving)
    own = [
        _extension("2.5.29.19", sequence(), critical=True),
        _extension("2.5.29.15", _SERVES, critical=True),
        *_serving(hosts),
    ]
    leaf = _signed(issuer, shown, public, now, lifetime, own)
    return Chain(
        authority=pem(_CERTIFICATE, authority),
        pair=Pair(pem(_CERTIFICATE, leaf), _key_pem(serving, public)),
    )


def _signed(
    issuer: _Issuer,
    subject: bytes,
    public: bytes,
    now: datetime,
    lifetime: timedelta,
    extensions: list[bytes],
) -> bytes:
    # Clocks differ: what is made now is valid on machines that are behind, too.
    begin = now - _EARLIER
    body = sequence(
        tagged(0xA0, integer(2)),
        integer(secrets.randbits(127) + 1),
        _ECDSA_SHA256,
        issuer.name,
        sequence(time(begin), time(now + lifetime)),
        subject,
        sequence(sequence(oid("1.2.840.10045.2.1"), _P256), bits(public)),
        tagged(
            0xA3,
            sequence(
                *extensions,
                _extension("2.5.29.14", octets(_identifier(public))),
                _extension("2.5.29.35", sequence(tagged(0x80, issuer.identifier))),
            ),
        ),
    )
    r, s = curve.signature(body, issuer.private)
    return sequence(body, _ECDSA_SHA256, bits(sequence(integer(r), integer(s))))


def _serving(hosts: Sequence[str]) -> list[bytes]:
    return [
        _extension("2.5.29.37", sequence(oid("1.3.6.1.5.5.7.3.1"))),
        _extension("2.5.29.17", sequence(*map(_host, hosts))),
    ]


def _identifier(public: bytes) -> bytes:
    return hashlib.sha1(public, usedforsecurity=False).digest()


def _name(common: str) -> bytes:
    # A common name has 64 characters at most; clients go by the alternative names.
    return sequence(tagged(0x31, sequence(oid("2.5.4.3"), text(common[:64]))))


def _extension(dotted: str, value: bytes, *, critical: bool = False) -> bytes:
    return sequence(oid(dotted), *([_TRUE] if critical else []), octets(value))


def _host(host: str) -> bytes:
    try:
        return tagged(0x87, ipaddress.ip_address(host).packed)
    except ValueError:
        return tagged(0x82, host.encode("ascii"))


def _key_pem(private: int, public: bytes) -> bytes:
    key = sequence(
        integer(1),
        octets(private.to_bytes(32, "big")),
        tagged(0xA0, _P256),
        tagged(0xA1, bits(public)),
    )
    return pem(_KEY, key)
