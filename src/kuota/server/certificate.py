# SPDX-License-Identifier: Apache-2.0
"""A self-signed certificate for the server of one machine, so that kubectl will send its token.

kubectl keeps the user's token to itself when a server speaks plain HTTP, even on loopback. So the
server needs a certificate, and `kuota up` must find one on a machine that has Python and nothing
else. `kuota.pki` makes one, once. A certificate of one's own takes its place for any address but
loopback.
"""

from __future__ import annotations

import os
import ssl
from datetime import datetime
from pathlib import Path

from kuota.pki.certificate import self_signed

LOOPBACK = ("localhost", "127.0.0.1", "::1")


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
