# SPDX-License-Identifier: Apache-2.0
"""Whoever asks a server without a history learns that, whatever the server says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kuota.history.api import Report
from kuota.history.client import NoHistory, read_report
from kuota.kube.errors import ApiError, Forbidden, NotFound


class Refusing:
    """A client whose requests are all refused."""

    def __init__(self, error: ApiError) -> None:
        self._error = error

    async def fetch(self, path: str, query: dict[str, str]) -> None:
        raise self._error


def _read(error: ApiError) -> None:
    client: Any = Refusing(error)
    asyncio.run(read_report(client, Report.JOBS, ["vision"], {}))


def test_without_a_history_members_are_refused_before_the_path_is_looked_up() -> None:
    group = 'cannot list resource "jobs" in API group "history.kuota.dev" in the namespace "vision"'
    for error in (NotFound(404, "NotFound", ""), Forbidden(403, "Forbidden", group)):
        with pytest.raises(NoHistory, match=r"history\.enabled=true"):
            _read(error)


def test_who_may_not_read_a_namespace_is_told_so() -> None:
    with pytest.raises(Forbidden):
        _read(Forbidden(403, "Forbidden", 'User "ann" cannot list workloads'))
