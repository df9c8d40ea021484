# SPDX-License-Identifier: Apache-2.0
"""What metrics read of stored objects, as far as the engine does not know it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kuota.api.base import Json, Key
from kuota.api.workload import Workload


class Objects(Protocol):
    """The objects as they are stored."""

    def metadata(self, kind: str, key: Key) -> Json:
        """The metadata of a queue, cohort or workload; empty when there is none such."""

    def workloads(self) -> Iterable[Workload]:
        """Every Workload of a LocalQueue that could be read and has not finished."""


class NoObjects:
    """Nothing is stored: queues have no labels, and nobody says why they wait."""

    def metadata(self, kind: str, key: Key) -> Json:
        return {}

    def workloads(self) -> Iterable[Workload]:
        return ()
