# SPDX-License-Identifier: Apache-2.0
"""TLS contexts of servers: what they allow, which certificate they show, and whether it is good.

A context takes another certificate while it is in use: connections made from then on see it.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import msgspec

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----")
_VERSIONS = {
    "": ssl.TLSVersion.TLSv1_2,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}


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


class BadCertificate(ValueError):
    """A certificate or key that OpenSSL does not take; the message has no secrets."""


def serving_context(version: str = "", suites: Sequence[str] = ()) -> ssl.SSLContext:
    """A server's context without a certificate. The names are those of Kueue's configuration.

    Raises ValueError for a version or a suite that is not known.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if version not in _VERSIONS:
        raise ValueError(f"no TLS version {version!r}: use VersionTLS12 or VersionTLS13")
    context.minimum_version = _VERSIONS[version]
    names = [_openssl_name(each) for each in suites]
    if names:
        try:
            context.set_ciphers(":".join(names))
        except ssl.SSLError:
            raise ValueError(f"none of these cipher suites: {', '.join(suites)}") from None
    return context


def show(context: ssl.SSLContext, pair: Pair) -> None:
    """Show this certificate from now on; raises BadCertificate and then changes nothing."""
    # A context that fails half-way shows a certificate without its key, so one is tried first.
    _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), pair)
    _load(context, pair)


def trusted_until(pair: Pair, authority: bytes, host: str) -> datetime | None:
    """When a client that trusts the authority stops talking to a server of that name.

    None when it does not even begin: wrong name, wrong key, expired, signed by somebody else.
    """
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        _load(server, pair)
        client.load_verify_locations(cadata=authority.decode("ascii"))
        shown = _handshake(server, client, host)
    except (ssl.SSLError, BadCertificate, ValueError):
        return None
    return min(_end(each) for each in (shown, *client.get_ca_certs()))


def unexpired(bundle: bytes, now: datetime) -> list[bytes]:
    """The authorities in a bundle of certificates that are still valid, in their order."""
    found = []
    for certificate in _CERTIFICATE.findall(bundle):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cadata=certificate.decode("ascii"))
        except (ssl.SSLError, ValueError):
            continue
        if all(_end(each) > now for each in context.get_ca_certs()):
            found.append(certificate + b"\n")
    return found


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> dict[str, object]:
    """The certificate that the client is shown, by a handshake in memory."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(back, there, server_hostname=host)
    answering = server.wrap_bio(there, back, server_side=True)
    for _ in range(10):
        done = [_shaken(each) for each in (asking, answering)]
        if all(done):
            break
    return dict(asking.getpeercert() or {})


def _shaken(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _end(certificate: object) -> datetime:
    assert isinstance(certificate, dict)
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), UTC)


def _load(context: ssl.SSLContext, pair: Pair) -> None:
    try:
        with _file(pair.certificate.rstrip() + b"\n" + pair.key) as path:
            context.load_cert_chain(path)
    except (ssl.SSLError, OSError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        raise BadCertificate(f"certificate or key cannot be used: {reason}") from None


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """A file with the content for as long as it is needed; Python loads keys from files only."""
    if hasattr(os, "memfd_create"):
        # In memory: the root file system of a container is often read-only.
        descriptor = os.memfd_create("kuota-tls", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile(prefix="kuota-") as file:
        file.write(content)
        file.flush()
        yield file.name


def _openssl_name(suite: str) -> str:
    """OpenSSL's name of a suite that is called as in the standards.

    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256" is "ECDHE-RSA-AES128-GCM-SHA256".)
    """
    key, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not cipher:
        raise ValueError(f"no cipher suite {suite!r}: those of TLS 1.3 cannot be chosen")
    cipher = cipher.replace("AES_", "AES").replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    return f"{'' if key == 'RSA' else key + '-'}{cipher}".replace("_CBC_", "_").replace("_", "-")
