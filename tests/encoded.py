# SPDX-License-Identifier: Apache-2.0
"""A Configuration as JSON, for comparison."""

from __future__ import annotations

import msgspec

from kuota.api.base import Json
from kuota.api.config import Configuration


def encoded(cfg: Configuration) -> Json:
    """The configuration in the form of v1beta2, without what is empty."""
    found: Json = msgspec.to_builtins(cfg, enc_hook=str)
    return found | {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
