# SPDX-License-Identifier: Apache-2.0
"""Reads reports through an API server, on one machine and on a cluster alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kuota.kube.client import Client
from kuota.kube.errors import Forbidden, NotFound

from .api import GROUP, Report, path

NO_HISTORY = (
    "this server keeps no history, or does not let you ask for it; on a cluster, install it with "
    "history.enabled=true (docs/history.md)"
)


class NoHistory(Exception):
    """The API server serves no history. The message says how to get one."""

    def __init__(self) -> None:
        super().__init__(NO_HISTORY)


async def read_report(
    client: Client, report: Report, namespaces: Iterable[str] | None, query: Mapping[str, str]
) -> dict[str, Any]:
    """Return a report about one or more namespaces, or about all. Raises NoHistory and KubeError.

    The server checks that the caller may list the Workloads of each namespace.
    """
    names = None if namespaces is None else sorted(namespaces)
    within = names[0] if names is not None and len(names) == 1 else None
    several = {"namespaces": ",".join(names)} if names is not None and within is None else {}
    try:
        found: dict[str, Any] = await client.fetch(path(report, within), {**query, **several})
    except NotFound:
        raise NoHistory from None
    except Forbidden as error:
        # Without a history, nobody has the role that lets members ask for it.
        if GROUP in error.message:
            raise NoHistory from None
        raise
    return found
