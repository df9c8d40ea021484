# SPDX-License-Identifier: Apache-2.0
"""Which certificate each of our servers shows: given in a directory, managed, or made on the spot.

Where Kueue looks for certificates that others provide, we look too.
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
    """Where the certificate of the webhooks lies when somebody provides it."""
    given = config.webhook.cert_dir
    # Python's own idea of the directory insists on being able to write there.
    temporary = os.environ.get("TMPDIR") or "/tmp"
    return Path(given or Path(temporary, "k8s-webhook-server", "serving-certs"))


def managed(config: Configuration) -> bool:
    """Whether certificates are ours to make."""
    certs = config.internal_cert_management
    return certs is not None and bool(certs.enable)


def context(config: Configuration) -> ssl.SSLContext:
    """A server's context as configured, without a certificate. Raises ValueError."""
    from kuota.pki.serving import serving_context

    wanted = config.tls or TLS()
    return serving_context(wanted.min_version, wanted.cipher_suites or ())


async def shown(
    to: ssl.SSLContext, directory: Path, own: bool, group: asyncio.TaskGroup, clock: Clock
) -> None:
    """Have the context show a certificate, and keep it current for as long as the group lives.

    `own` ones are made here, and nobody can check them: so it is with Kueue. Others are looked for
    in the directory, and made only where there is none.
    """
    if not own and (directory / "tls.crt").exists():
        from kuota.webhook.certificates import CertificateDirectory

        given = CertificateDirectory(directory, to, clock)
        group.create_task(given.run())
        await given.ready.wait()
        return
    if not own:
        _log.warning("no certificate in %s: using one that nobody can check", directory)
    await asyncio.to_thread(_show_self_signed, to)


def _show_self_signed(to: ssl.SSLContext) -> None:
    from kuota.pki.certificate import self_signed
    from kuota.pki.serving import show

    show(to, self_signed(("localhost", "127.0.0.1"), datetime.now(UTC)))
