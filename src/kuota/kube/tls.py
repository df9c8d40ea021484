# SPDX-License-Identifier: Apache-2.0
"""Whom to trust and what to show: TLS contexts from a connection's certificates."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from .config import Connection
from .errors import ConfigError


def trusting(connection: Connection) -> ssl.SSLContext:
    """A context that trusts the connection's authority; the system's ones when it names none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if connection.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif connection.authority:
        try:
            context.load_verify_locations(cadata=connection.authority.read())
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"the certificate authority is unusable: {error}") from None
    else:
        context.load_default_certs()
    return context


def show_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Present this client certificate on connections made from now on; raises ConfigError."""
    # Python loads keys from files only. The folder is ours alone and gone before we go on.
    with tempfile.TemporaryDirectory(prefix="kuota-") as folder:
        cert_file, key_file = Path(folder, "tls.crt"), Path(folder, "tls.key")
        cert_file.write_text(certificate)
        key_file.touch(mode=0o600)
        key_file.write_text(key)
        try:
            context.load_cert_chain(cert_file, key_file)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"the client certificate is unusable: {error}") from None
