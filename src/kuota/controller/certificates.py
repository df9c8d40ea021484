# SPDX-License-Identifier: Apache-2.0
"""Selects the certificate of each server: from a directory, managed, or created at start.

The directories are the same as in Kueue.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from datetime import UTC, datetime
from pathlib import Path

from kuota.api.config.shapes import TLS, Configuration
from kuota.kube.clock import Clock

METRICS = Path("/etc/kueue/metrics/certs")
VISIBILITY = Path("/visibility")

_log = logging.getLogger(__name__)


def webhook_directory(config: Configuration) -> Path:
    """The directory with the certificate of the webhooks, if the admin provides it."""
    given = config.webhook.cert_dir
    # Python's tempfile.gettempdir requires a writable directory.
    temporary = os.environ.get("TMPDIR") or "/tmp"
    return Path(given or Path(temporary, "k8s-webhook-server", "serving-certs"))


def managed(config: Configuration) -> bool:
    """Whether the controller manages its certificates itself."""
    certs = config.internal_cert_management
    return certs is not None and bool(certs.enable)


def context(config: Configuration) -> ssl.SSLContext:
    """A TLS context as configured, without a certificate. Raises ValueError."""
    from kuota.pki.serving import serving_context

    wanted = config.tls or TLS()
    return serving_context(wanted.min_version, wanted.cipher_suites or ())


async def shown(
    to: ssl.SSLContext, directory: Path, own: bool, group: asyncio.TaskGroup, clock: Clock
) -> None:
    """Set the certificate of the context, and keep it current while the task group runs.

    If `own`, a self-signed certificate is created, which clients cannot verify, as in Kueue.
    Otherwise it is loaded from the directory, and created only if there is none.
    """
    if not own and (directory / "tls.crt").exists():
        from kuota.webhook.certificates import CertificateDirectory

        given = CertificateDirectory(directory, to, clock)
        group.create_task(given.run())
        await given.ready.wait()
        return
    if not own:
        _log.warning("no certificate in %s: using a self-signed one", directory)
    await asyncio.to_thread(_show_self_signed, to)


def _show_self_signed(to: ssl.SSLContext) -> None:
    from kuota.pki.certificate import self_signed
    from kuota.pki.serving import show

    show(to, self_signed(("localhost", "127.0.0.1"), datetime.now(UTC)))
