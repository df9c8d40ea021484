# SPDX-License-Identifier: Apache-2.0
"""Completion indexes of a Job as text: `1,3-5` is the set of 1, 3, 4 and 5. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def parsed_indexes(text: str, bound: int | None = None) -> set[int]:
    """The indexes in the text; those from `bound` on are left out. Nonsense is no index."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            continue
        end = int(last) if dash else int(first)
        if bound is not None:
            end = min(end, bound - 1)
        found.update(range(int(first), end + 1))
    return found


def indexes_text(indexes: Iterable[int]) -> str:
    """The shortest text: runs of three and more, and of two as Kubernetes does, joined."""
    parts: list[str] = []
    first = last = None
    for index in sorted(indexes):
        if last is not None and index == last + 1:
            last = index
            continue
        if first is not None:
            parts.append(_run(first, last))
        first = last = index
    if first is not None:
        parts.append(_run(first, last))
    return ",".join(parts)


def _run(first: int, last: int | None) -> str:
    if last is None or last == first:
        return str(first)
    # Kubernetes writes a run of two as two numbers.
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"
