# SPDX-License-Identifier: Apache-2.0
"""A certificate that others put into a directory, and replace when they like."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path
from typing import NoReturn

from kuota.kube.clock import Clock, SystemClock
from kuota.pki.serving import BadCertificate, Pair, show

LOOKED_AT_EVERY_S = 1.0
_log = logging.getLogger(__name__)


class Directory:
    """Keeps a context up to date with `tls.crt` and `tls.key` of a directory.

    `ready` is set once there is one. Files that change are read again, both or neither.
    """

    def __init__(
        self, directory: str | Path, context: ssl.SSLContext, clock: Clock | None = None
    ) -> None:
        self.ready = asyncio.Event()
        self._files = (Path(directory) / "tls.crt", Path(directory) / "tls.key")
        self._context = context
        self._clock = clock or SystemClock()
        self._seen: tuple[object, ...] = ()
        self._told = ""

    async def run(self) -> NoReturn:
        """Follow the files until cancelled."""
        while True:
            self.look()
            await self._clock.sleep(LOOKED_AT_EVERY_S)

    def look(self) -> None:
        """Show what lies there now, if that is another certificate and can be used."""
        try:
            stats = [each.stat() for each in self._files]
            seen = tuple((each.st_mtime_ns, each.st_ino, each.st_size) for each in stats)
            if seen == self._seen:
                return
            certificate, key = (each.read_bytes() for each in self._files)
            show(self._context, Pair(certificate, key))
        except (OSError, BadCertificate) as error:
            # A pair that is being replaced does not match for a moment: it is looked at again.
            self._tell(f"no usable certificate in {self._files[0].parent}: {error}")
            return
        self._seen, self._told = seen, ""
        self.ready.set()

    def _tell(self, message: str) -> None:
        if message != self._told:
            _log.warning("%s", message)
            self._told = message
