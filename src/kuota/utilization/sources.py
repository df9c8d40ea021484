# SPDX-License-Identifier: Apache-2.0
"""Where readings of the GPUs of a cluster come from. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec


class DeviceSources(msgspec.Struct, frozen=True):
    """URLs of exporters, and the base URL of a Prometheus; empty if they are not used.

    A host name of an exporter that has several addresses, as that of a headless Service, stands for
    all of them.
    """

    exporters: tuple[str, ...] = ()
    prometheus: str = ""

    def __bool__(self) -> bool:
        return bool(self.exporters or self.prometheus)

    def faults(self) -> list[str]:
        """Return what is wrong with the URLs."""
        return [
            f"{each!r} is not a URL: use http://HOST:PORT/metrics for an exporter, and "
            "http://HOST:PORT for a Prometheus"
            for each in filter(None, (*self.exporters, self.prometheus))
            if not _is_url(each)
        ]


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
