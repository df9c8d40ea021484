# SPDX-License-Identifier: Apache-2.0
"""Provides the structural (OpenAPI v3) schema of every kind and version, and compiles it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from .. import kueue, v1beta1
from ..base import Json
from ..constraints import constraints
from ..structure import Compiler, SchemaNode
from .walk import Walker, copied

__all__ = ["VERSIONS", "structural_schema", "structure"]

VERSIONS = (v1beta1.V1BETA1, kueue.V1BETA2)
_KINDS = {"v1beta1": v1beta1.KINDS, "v1beta2": kueue.KINDS}

# Both queues share one usage type, but only a ClusterQueue borrows.
_NOT_BORROWED = frozenset(
    f"status.{name}[].resources[].borrowed"
    for name in ("flavorsReservation", "flavorsUsage", "flavorUsage")
)


def structural_schema(kind: str, version: str) -> Json:
    """Return the schema of the whole object. Raises KeyError if Kueue does not have the kind."""
    # Only CRDs and OpenAPI need these modules. A process that only validates starts faster.
    from ..descriptions import descriptions
    from .cel import cel_rules

    table, left_out = constraints(kind, version), _left_out(kind, version)
    walker = Walker(table, cel_rules(kind, version), descriptions(kind), left_out)
    return copied(walker.root(_KINDS[version][kind]))


def structure(obj: Any) -> SchemaNode | None:
    """Return the compiled schema of the object, or None if it is not of a Kueue kind."""
    if not isinstance(obj, dict) or obj.get("apiVersion") not in VERSIONS:
        return None
    kind = obj.get("kind")
    known = isinstance(kind, str) and kind in kueue.KINDS
    return _compiled(kind, obj["apiVersion"].rpartition("/")[2]) if known else None


@lru_cache(maxsize=64)
def _compiled(kind: str, version: str) -> SchemaNode:
    left_out = _left_out(kind, version)
    walker = Walker(constraints(kind, version), {}, {}, left_out, compact=False)
    return Compiler().node(walker.root(_KINDS[version][kind]))


def _left_out(kind: str, version: str) -> frozenset[str]:
    """Return the paths of fields that the type has, but not the kind in this version."""
    gone = v1beta1.GONE.get(kind, frozenset()) if version == "v1beta1" else frozenset()
    return gone | _NOT_BORROWED if kind == "LocalQueue" else gone
