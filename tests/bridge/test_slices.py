# SPDX-License-Identifier: Apache-2.0
"""Slices of elastic Jobs: which Workload replaces which."""

from __future__ import annotations

from bridge.objects import workload
from kuota.api.base import Key
from kuota.bridge.inbound_workload import REPLACES, replaces


def test_a_slice_names_the_one_it_replaces() -> None:
    assert replaces(workload("b", annotations={REPLACES: "ml/a"})) == Key("ml", "a")
    assert replaces(workload("b", annotations={REPLACES: "a"})) == Key("ml", "a")
    assert replaces(workload("a")) is None
