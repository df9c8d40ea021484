# SPDX-License-Identifier: Apache-2.0
"""Finds expectations that nothing compares: a case must fail when one of its values is altered.

Reading an expectation does not imply comparing it: an adapter may drop a field from both sides.
An adapter declares intentional omissions in `ignores`, like inputs that it does not read.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from .case import Case
from .recorder import Path, matches
from .registry import Adapter, undeclared

SAMPLES = 2
"""How many values of one shape are altered per suite; paths that differ in an index are alike."""


class Alterations:
    """Alters the expectations of cases, a few of each shape."""

    def __init__(self, suites: Mapping[str, Adapter]) -> None:
        self._suites = suites
        self._tried: Counter[tuple[str, Path]] = Counter()

    def unnoticed(self, case: Case) -> list[str]:
        """The paths at which a case that passes also passes with another value."""
        adapter = self._suites[case.suite]
        ignored = [tuple(pattern.split(".")) for pattern in adapter.ignores]
        expected = case.record.get("expected") or {}
        found = []
        for path in _values(expected):
            shape = tuple("*" if step.isdigit() else step for step in path)
            if any(matches(("expected", *path), pattern) for pattern in ignored):
                continue
            if self._tried[case.suite, shape] < SAMPLES:
                self._tried[case.suite, shape] += 1
                if self._passes(adapter, case, _altered(expected, path)):
                    found.append(".".join(path))
        return found

    def _passes(self, adapter: Adapter, case: Case, expected: Any) -> bool:
        altered = replace(case, record=case.record | {"expected": expected})
        try:
            for run in altered.runs():
                adapter.compare(run)
                if undeclared(adapter, run):
                    return False
        except Exception:  # a difference, or an expectation that makes no sense: it was noticed
            return False
        return True


def _values(value: Any, at: Path = ()) -> Iterator[Path]:
    """The paths of all scalars, and of empty objects and lists right among the expectations."""
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from _values(each, (*at, key))
    elif isinstance(value, list) and value:
        for index, each in enumerate(value):
            yield from _values(each, (*at, str(index)))
    elif len(at) == 1 or value is None or not isinstance(value, dict | list):
        yield at


def _altered(expected: Any, path: Path) -> Any:
    """The expectation with another value at the path."""
    changed = copy.deepcopy(expected)
    inner = changed
    for step in path[:-1]:
        inner = inner[int(step)] if isinstance(inner, list) else inner[step]
    last: Any = int(path[-1]) if isinstance(inner, list) else path[-1]
    inner[last] = _other(inner[last])
    return changed


def _other(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}-altered"
        case list():
            return ["altered"]
        case dict():
            return {"altered": "altered"}
    return "altered"
