# SPDX-License-Identifier: Apache-2.0
"""How many requests an API server has answered, from its metrics."""

from __future__ import annotations

import re
from collections import Counter

from kuota.kube.http_client import HttpTransport
from kuota.kube.requests import fetching

_LINE = re.compile(r"^apiserver_request_total\{(.*)\} ([0-9.e+]+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
WRITES = ("POST", "PUT", "PATCH", "APPLY", "DELETE")


async def counted(transport: HttpTransport) -> Counter[tuple[str, str]]:
    """The requests that the API server has answered, by verb and resource."""
    found: Counter[tuple[str, str]] = Counter()
    answer = await transport.send(fetching("/metrics"))
    for line in answer.body.decode().splitlines():
        if match := _LINE.match(line):
            labels = dict(_LABEL.findall(match[1]))
            resource = labels.get("resource", "")
            resource += f"/{labels['subresource']}" if labels.get("subresource") else ""
            found[labels.get("verb", ""), resource] += int(float(match[2]))
    return found
