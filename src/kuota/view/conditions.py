# SPDX-License-Identifier: Apache-2.0
"""Reads conditions of objects that are plain JSON."""

from __future__ import annotations

from kuota.api.base import Json


def condition(obj: Json, kind: str) -> Json | None:
    """Return the condition of this type; None if it was never set."""
    for each in (obj.get("status") or {}).get("conditions") or ():
        if each.get("type") == kind:
            found: Json = each
            return found
    return None


def holds(obj: Json, kind: str) -> bool:
    """Whether the condition of this type is True."""
    found = condition(obj, kind)
    return found is not None and found.get("status") == "True"


def message(obj: Json, kind: str) -> str:
    """Return the message of the condition of this type, or its reason; "" if it was never set."""
    found = condition(obj, kind)
    return "" if found is None else str(found.get("message") or found.get("reason") or "")
