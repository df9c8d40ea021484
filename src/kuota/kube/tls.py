# SPDX-License-Identifier: Apache-2.0
"""Whom to trust and what to show: TLS contexts from a connection's certificates."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from .config import Connection, Pem
from .errors import ConfigError


def trusting(connection: Connection) -> ssl.SSLContext:
    """A context that trusts the connection's authority; the system's ones when it names none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if connection.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif connection.authority:
        trust(context, connection.authority)
    else:
        context.load_default_certs()
    return context


def trust(context: ssl.SSLContext, authority: Pem) -> None:
    """Trust that authority too, on connections made from now on; raises ConfigError."""
    try:
        context.load_verify_locations(cadata=authority.read())
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"the certificate authority is unusable: {error}") from None


def show_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Present this client certificate on connections made from now on; raises ConfigError."""
    try:
        with _file(f"{certificate.rstrip()}\n{key}") as path:
            context.load_cert_chain(path)
    except (ssl.SSLError, ValueError, OSError) as error:
        raise ConfigError(f"the client certificate is unusable: {error}") from None


@contextmanager
def _file(text: str) -> Iterator[str]:
    """A file with that text for as long as it is needed: Python loads keys from files only."""
    if hasattr(os, "memfd_create"):
        # In memory: a key has no business on a disk, and a container's may be read-only.
        descriptor = os.memfd_create("kuota-tls", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
        return
    with tempfile.NamedTemporaryFile(prefix="kuota-") as file:
        file.write(text.encode())
        file.flush()
        yield file.name
