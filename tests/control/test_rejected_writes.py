# SPDX-License-Identifier: Apache-2.0
"""A rejected write of one object does not prevent those of others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from control.virtual import played
from kuota.api.base import Key
from kuota.control.node_failures import NodeFailures
from kuota.kube.errors import Invalid


def test_the_health_of_a_node_is_recorded_on_all_workloads() -> None:
    tried: list[Key] = []

    async def record(key: Key, view: object) -> None:
        tried.append(key)
        if key.name == "a":
            raise Invalid(422, "Invalid", "rejected")

    recorder: Any = SimpleNamespace(_record=record)
    keys, view = [Key("team", "a"), Key("team", "b")], object()
    with pytest.raises(Invalid):
        played(NodeFailures._record_all(recorder, keys, view))  # type: ignore[arg-type]
    assert tried == keys
