# SPDX-License-Identifier: Apache-2.0
"""Names the WorkloadPriorityClass to choose where an explanation suggests a higher priority."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kuota.engine.explanation import Advice, Explanation, Suggestion


def with_priority_classes(found: Explanation, values: Mapping[str, int]) -> Explanation:
    """Return the explanation with the lowest sufficient class in each such suggestion.

    `values` are the priorities of all classes by name. Where none suffices, none is named.
    """
    named = tuple(_with_class(each, values) for each in found.suggestions)
    return msgspec.structs.replace(found, suggestions=named)


def _with_class(one: Suggestion, values: Mapping[str, int]) -> Suggestion:
    if one.advice is not Advice.RAISE_PRIORITY:
        return one
    sufficient = [(value, name) for name, value in values.items() if value >= one.amount]
    if not sufficient:
        return one
    value, name = min(sufficient)
    return msgspec.structs.replace(one, kind="WorkloadPriorityClass", where=name, value=str(value))
