# SPDX-License-Identifier: Apache-2.0
"""CelRule, one condition that the API server checks, and what it says when it fails."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class CelRule(msgspec.Struct, frozen=True):
    rule: str
    message: str


Rules = Mapping[str, tuple[CelRule, ...]]
