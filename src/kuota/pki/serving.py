# SPDX-License-Identifier: Apache-2.0
"""TLS contexts of servers: protocol options, the certificate, and whether clients trust it.

The certificate of a context can be replaced while it is in use. New connections see the new one.
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
    """The certificate of a server and the authority that its clients trust, in PEM."""

    authority: bytes
    pair: Pair


class BadCertificate(ValueError):
    """OpenSSL rejects a certificate or key. The message contains no secrets."""


def serving_context(version: str = "", suites: Sequence[str] = ()) -> ssl.SSLContext:
    """A server context without a certificate. Names are those of Kueue's configuration.

    Raises ValueError for an unknown version or cipher suite.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if version not in _VERSIONS:
        raise ValueError(f"unknown TLS version {version!r}: use VersionTLS12 or VersionTLS13")
    context.minimum_version = _VERSIONS[version]
    names = [_openssl_name(each) for each in suites]
    if names:
        try:
            context.set_ciphers(":".join(names))
        except ssl.SSLError:
            raise ValueError(f"no usable cipher suite among: {', '.join(suites)}") from None
    return context


def show(context: ssl.SSLContext, pair: Pair) -> None:
    """Use this certificate from now on. Raises BadCertificate, and then changes nothing."""
    # Loading may fail after the certificate and before its key, so it is tried on another context
    # first.
    _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), pair)
    _load(context, pair)


def trusted_until(pair: Pair, authority: bytes, host: str) -> datetime | None:
    """When a client that trusts the authority stops accepting a server with this name.

    None if it does not accept it at all: wrong name, wrong key, expired, or another signer.
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
    """The certificates of a bundle that have not expired, in their order."""
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
    """The certificate that a client receives, determined by a handshake in memory."""
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
    """A temporary file with this content, because Python loads keys only from files."""
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
    """OpenSSL's name of a cipher suite with a standard name.

    For example, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256.
    """
    key, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not cipher:
        raise ValueError(
            f"unknown cipher suite {suite!r}: the suites of TLS 1.3 cannot be selected"
        )
    cipher = cipher.replace("AES_", "AES").replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    return f"{'' if key == 'RSA' else key + '-'}{cipher}".replace("_CBC_", "_").replace("_", "-")
