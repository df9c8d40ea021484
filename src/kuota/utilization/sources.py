# SPDX-License-Identifier: Apache-2.0
"""Where readings of the GPUs of a cluster come from. Pure.

An exporter is trusted because an admin named its address. In a Prometheus, series of exporters are
beside those of all other scraped pods, and any of these can serve metrics of the same name. The
admin therefore names labels that Prometheus gives to series of the exporters only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import msgspec


class DeviceSources(msgspec.Struct, frozen=True):
    """URLs of exporters, and the base URL of a Prometheus; empty if they are not used.

    `selector` has the label matchers of the exporters in that Prometheus. A host name of an
    exporter that has several addresses, as that of a headless Service, stands for all of them.
    """

    exporters: tuple[str, ...] = ()
    prometheus: str = ""
    selector: str = ""

    def __bool__(self) -> bool:
        return bool(self.exporters or self.prometheus)

    def faults(self) -> list[str]:
        """Return what is wrong with the URLs and the selector."""
        return [*self._url_faults(), *self._selector_faults()]

    def _selector_faults(self) -> Iterator[str]:
        if self.prometheus and not self.selector:
            yield (
                "a Prometheus needs a selector of the dcgm-exporters, because every pod that it "
                f"scrapes can serve metrics of their names: --dcgm-selector '{_EXAMPLE}'"
            )
        elif self.selector and not self.prometheus:
            yield "a selector is for --dcgm-prometheus only"
        elif self.selector and not _selects(self.selector):
            yield (
                f"{self.selector!r} is not a selector: use matchers of labels that Prometheus adds "
                f'to its targets, at least one of them LABEL="VALUE", such as {_EXAMPLE}'
            )

    def _url_faults(self) -> list[str]:
        return [
            f"{each!r} is not a URL: use http://HOST:PORT/metrics for an exporter, and "
            "http://HOST:PORT for a Prometheus"
            for each in filter(None, (*self.exporters, self.prometheus))
            if not _is_url(each)
        ]


_EXAMPLE = 'job="nvidia-dcgm-exporter",namespace="gpu-operator"'
_MATCHER = re.compile(r'\s*([A-Za-z_]\w*)\s*(=~|!~|!=|=)\s*"((?:[^"\\\n]|\\.)*)"\s*', re.ASCII)
_BY_TARGET = "exported_"
"""The prefix of labels that a target has chosen itself."""


def _selects(selector: str) -> bool:
    """Whether these are label matchers that select few targets.

    The name of the metric is not for the selector, and labels of the target prove nothing.
    """
    found, at = [], 0
    while True:
        matcher = _MATCHER.match(selector, at)
        if matcher is None:
            return False
        found.append(matcher.groups())
        at = matcher.end()
        if at == len(selector):
            break
        if selector[at] != ",":
            return False
        at += 1
    exact = any(sign == "=" and value for _, sign, value in found)
    own = any(name == "__name__" or name.startswith(_BY_TARGET) for name, _, _ in found)
    return exact and not own


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
