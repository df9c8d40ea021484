# SPDX-License-Identifier: Apache-2.0
"""Rules for the tls section, whose names are those of Go's crypto/tls."""

from __future__ import annotations

from collections.abc import Iterator

from ..faults import FieldError, invalid
from .shapes import TLS

TLS_12 = "VersionTLS12"
TLS_13 = "VersionTLS13"
CIPHER_SUITES = frozenset(
    {
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
        "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
        "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_RSA_WITH_AES_128_CBC_SHA",
        "TLS_RSA_WITH_AES_128_CBC_SHA256",
        "TLS_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_RSA_WITH_AES_256_CBC_SHA",
        "TLS_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_RSA_WITH_RC4_128_SHA",
    }
)


def tls_faults(tls: TLS | None) -> Iterator[FieldError]:
    if tls is None:
        return
    suites = tls.cipher_suites or []
    if tls.min_version == TLS_13 and suites:
        fix = f"remove cipherSuites, or set minVersion: {TLS_12}"
        yield invalid("tls.cipherSuites", suites, "cannot be chosen under TLS 1.3", fix)
    if tls.min_version not in ("", TLS_12, TLS_13):
        fix = f"use {TLS_12} or {TLS_13}"
        yield invalid("tls", tls.min_version, f"{tls.min_version!r} is not a minVersion", fix)
    unknown = [suite for suite in suites if suite not in CIPHER_SUITES]
    if unknown:
        yield invalid("tls", unknown, f"unknown cipher suites: {', '.join(unknown)}")
