# SPDX-License-Identifier: Apache-2.0
"""The structural (OpenAPI v3) schema of every kind in every version, also compiled for checks."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from .. import kueue, v1beta1
from ..base import Json
from ..constraints import constraints
from ..structure import Compiler, Node
from .walk import Walker, copied

__all__ = ["VERSIONS", "structural_schema", "structure"]

VERSIONS = (v1beta1.V1BETA1, kueue.V1BETA2)
_KINDS = {"v1beta1": v1beta1.KINDS, "v1beta2": kueue.KINDS}

# One usage type serves both queues here; only a ClusterQueue borrows.
_NOT_BORROWED = frozenset(
    f"status.{name}[].resources[].borrowed"
    for name in ("flavorsReservation", "flavorsUsage", "flavorUsage")
)


def structural_schema(kind: str, version: str) -> Json:
    """The schema of the whole object. KeyError for a kind or version that Kueue has not."""
    # Only CRDs and OpenAPI need these, and a process that merely checks objects starts sooner.
    from ..descriptions import descriptions
    from .cel import cel_rules

    table, left_out = constraints(kind, version), _left_out(kind, version)
    walker = Walker(table, cel_rules(kind, version), descriptions(kind), left_out)
    return copied(walker.root(_KINDS[version][kind]))


def structure(obj: Any) -> Node | None:
    """The compiled schema that the object is checked by; None if it is of no kind of Kueue."""
    if not isinstance(obj, dict) or obj.get("apiVersion") not in VERSIONS:
        return None
    kind = obj.get("kind")
    known = isinstance(kind, str) and kind in kueue.KINDS
    return _compiled(kind, obj["apiVersion"].rpartition("/")[2]) if known else None


@lru_cache(maxsize=64)
def _compiled(kind: str, version: str) -> Node:
    left_out = _left_out(kind, version)
    walker = Walker(constraints(kind, version), {}, {}, left_out, compact=False)
    return Compiler().node(walker.root(_KINDS[version][kind]))


def _left_out(kind: str, version: str) -> frozenset[str]:
    """The paths of fields that the type has, but the kind in that version does not."""
    gone = v1beta1.GONE.get(kind, frozenset()) if version == "v1beta1" else frozenset()
    return gone | _NOT_BORROWED if kind == "LocalQueue" else gone
