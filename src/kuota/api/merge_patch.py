# SPDX-License-Identifier: Apache-2.0
"""Applies, derives and combines JSON Merge Patches (RFC 7386).

Arguments are never modified. Parts that a patch does not change are shared with the result.
"""

from __future__ import annotations

from typing import Any

from .base import Json


def merged(document: Json, patch: Json) -> Json:
    """Apply `patch` to `document`: null removes a field, objects merge, anything else replaces."""
    result = dict(document)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            old = result.get(name)
            result[name] = merged(old if isinstance(old, dict) else {}, value)
        else:
            result[name] = value
    return result


def difference(before: Json, after: Json) -> Json:
    """Return the patch that turns `before` into `after`. It is empty if the two are equal.

    A merge patch cannot set a field to null, so a null in `after` means that the field is absent.
    """
    patch: Json = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            nested = difference(old, value)
            if nested:
                patch[name] = nested
        elif not equal(old, value):
            patch[name] = value
    return patch


def combined(first: Json, second: Json) -> Json:
    """Return one patch that has the effect of `first` followed by `second`.

    No such patch exists if `first` removes or replaces a whole field and `second` sets parts of it,
    because the result depends on the other fields of the object. Do not combine such a pair.
    """
    result = dict(first)
    for name, value in second.items():
        before = result.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            value = combined(before, value)
        result[name] = value
    return result


def equal(one: Any, other: Any) -> bool:
    """Compare two JSON values. Unlike in Python, true does not equal 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)
