# SPDX-License-Identifier: Apache-2.0
"""The structural (OpenAPI v3) schema of every kind in every version."""

from __future__ import annotations

from .. import kueue, v1beta1
from ..base import Json
from ..constraints import constraints
from ..descriptions import descriptions
from .cel import CelRule, cel_rules
from .walk import Walker, copied

__all__ = ["CelRule", "cel_rules", "structural_schema"]

_KINDS = {"v1beta1": v1beta1.KINDS, "v1beta2": kueue.KINDS}

# One usage type serves both queues here; only a ClusterQueue borrows.
_LEFT_OUT = {
    "LocalQueue": frozenset(
        f"status.{name}[].resources[].borrowed"
        for name in ("flavorsReservation", "flavorsUsage", "flavorUsage")
    )
}


def structural_schema(kind: str, version: str) -> Json:
    """The schema of the whole object. KeyError for a kind or version that Kueue has not."""
    table = constraints(kind, version)
    left_out = _LEFT_OUT.get(kind, frozenset())
    walker = Walker(table, cel_rules(kind, version), descriptions(kind), left_out)
    return copied(walker.root(_KINDS[version][kind]))
