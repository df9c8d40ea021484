# SPDX-License-Identifier: Apache-2.0
"""The owner references of an object."""

from __future__ import annotations

from .base import Json
from .rules.report import child, elements, mapping


def owners(obj: Json) -> list[Json]:
    """Return the owner references of an object."""
    return [mapping(each) for each in elements(child(obj, "metadata").get("ownerReferences"))]


def controller_of(obj: Json) -> Json | None:
    """Return the owner reference of the controller of an object; None if it has none."""
    return next((each for each in owners(obj) if each.get("controller") is True), None)
