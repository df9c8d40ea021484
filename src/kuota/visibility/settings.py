# SPDX-License-Identifier: Apache-2.0
"""Where the visibility API is served, and whose certificate it shows."""

from __future__ import annotations

from kuota.api.config.shapes import Configuration, InternalCertManagement, VisibilityServer
from kuota.engine.model import Struct

EVERYWHERE = "0.0.0.0"
PORT = 8082


class Serving(Struct):
    """`own` certificates are made by ourselves; others are read from files."""

    host: str = EVERYWHERE
    port: int = PORT
    own: bool = True


def serving(cfg: Configuration) -> Serving:
    """What a configuration asks for, whether its defaults are filled in or not."""
    server = cfg.visibility_server or VisibilityServer()
    certificates = cfg.internal_cert_management or InternalCertManagement()
    return Serving(
        host=server.bind_address or EVERYWHERE,
        port=PORT if server.bind_port is None else server.bind_port,
        own=certificates.enable is not False,
    )
