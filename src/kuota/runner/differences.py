# SPDX-License-Identifier: Apache-2.0
"""The merge patch that leads from one object to another. Pure."""

from __future__ import annotations

from kuota.api.base import Json


def merge_difference(old: Json, new: Json) -> Json:
    """What to send so that `old` becomes `new`; empty when they are the same.

    Objects are compared field by field and lists as a whole, as a merge patch treats them.
    """
    patch: Json = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            inside = merge_difference(before, value)
            if inside:
                patch[name] = inside
        elif value != before or name not in old:
            patch[name] = value
    return patch
