# SPDX-License-Identifier: Apache-2.0
"""A self-signed certificate for the server of one machine, so that kubectl will send its token.

kubectl does not send the user's token to a server that speaks plain HTTP, even on loopback. The
server therefore needs a certificate; `kuota.pki` makes one when an installation first starts. Any
address but loopback requires a certificate that the administrator provides.
"""

from __future__ import annotations

import os
import ssl
from datetime import datetime
from pathlib import Path

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def server_context(directory: str | os.PathLike[str], now: datetime) -> ssl.SSLContext:
    """The context of a server whose certificate lies in the directory, which is made if absent.

    The files are `server.crt`, which clients trust, and `server.key`, for its owner's eyes only.
    """
    place = Path(directory)
    certificate, key = place / "server.crt", place / "server.key"
    if not certificate.exists() or not key.exists():
        from kuota.pki.certificate import self_signed

        place.mkdir(parents=True, exist_ok=True)
        made = self_signed(LOOPBACK, now)
        key.unlink(missing_ok=True)
        descriptor = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(made.key)
        certificate.write_bytes(made.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
