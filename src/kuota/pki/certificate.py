# SPDX-License-Identifier: Apache-2.0
"""Creates server certificates (P-256, X.509v3): self-signed, or signed by a new authority.

An authority signs once, and then its key is discarded. Renewing a certificate creates a new
authority, so nobody who reads a Secret can sign in the name of the old one.

This module imports `cryptography`, which takes time and memory. Import it where a certificate is
created, not at the top of a module.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .serving import Chain, Pair

_SELF_SIGNED_LIFETIME = timedelta(days=3650)
_CLOCK_SKEW = timedelta(days=1)
_AUTHORITY = x509.BasicConstraints(ca=True, path_length=0)
_LEAF = x509.BasicConstraints(ca=False, path_length=None)


class _Issuer(msgspec.Struct, frozen=True):
    """The name and the key of the signer of a certificate."""

    name: x509.Name
    key: ec.EllipticCurvePrivateKey


def self_signed(hosts: Sequence[str], now: datetime) -> Pair:
    """A self-signed certificate for the hosts, valid for ten years."""
    issuer = _Issuer(_name("kuota"), _new_key())
    usage = _usage(digital_signature=True, key_cert_sign=True)
    made = _builder(issuer, issuer.name, issuer.key, now, _SELF_SIGNED_LIFETIME)
    return _pair(_for_hosts(_restricted(made, _AUTHORITY, usage), hosts), issuer, issuer.key)


def chain(name: str, hosts: Sequence[str], now: datetime, lifetime: timedelta) -> Chain:
    """A certificate for a server with these names, signed by a new authority called `name`."""
    issuer = _Issuer(_name(name), _new_key())
    authority = _builder(issuer, issuer.name, issuer.key, now, lifetime)
    authority = _restricted(authority, _AUTHORITY, _usage(key_cert_sign=True, crl_sign=True))
    key = _new_key()
    leaf = _builder(issuer, _name(hosts[0]), key, now, lifetime)
    leaf = _for_hosts(_restricted(leaf, _LEAF, _usage(digital_signature=True)), hosts)
    return Chain(authority=_signed(authority, issuer), pair=_pair(leaf, issuer, key))


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _builder(
    issuer: _Issuer,
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key())
    key_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        .issuer_name(issuer.name)
        .subject_name(subject)
        .public_key(key.public_key())
        # Machines with a slow clock must accept the certificate too.
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(key_id, critical=False)
        .add_extension(issuer_id, critical=False)
    )


def _restricted(
    builder: x509.CertificateBuilder, constraints: x509.BasicConstraints, usage: x509.KeyUsage
) -> x509.CertificateBuilder:
    return builder.add_extension(constraints, critical=True).add_extension(usage, critical=True)


def _for_hosts(builder: x509.CertificateBuilder, hosts: Sequence[str]) -> x509.CertificateBuilder:
    names = x509.SubjectAlternativeName([_general_name(each) for each in hosts])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    return builder.add_extension(usage, critical=False).add_extension(names, critical=False)


def _signed(builder: x509.CertificateBuilder, issuer: _Issuer) -> bytes:
    return builder.sign(issuer.key, hashes.SHA256()).public_bytes(Encoding.PEM)


def _pair(
    builder: x509.CertificateBuilder, issuer: _Issuer, key: ec.EllipticCurvePrivateKey
) -> Pair:
    written = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    return Pair(_signed(builder, issuer), written)


def _name(common: str) -> x509.Name:
    # A common name has at most 64 characters; clients use the subject alternative names.
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
