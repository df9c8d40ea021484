# SPDX-License-Identifier: Apache-2.0
"""The JSON paths of printer columns and scale subresources.

Supports fields (`.a.b`, `['a']`, a dot escaped by a backslash), indexes (`[0]`), all items (`[*]`)
and filters by equality (`[?(@.type=='Ready')]`), which CustomResourceDefinitions use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

_STEP = re.compile(
    r"\.(?P<field>(?:[^.\[\]\\]|\\.)+)"
    r"|\[(?P<quote>['\"])(?P<quoted>.*?)(?P=quote)\]"
    r"|\[(?P<index>-?\d+)\]"
    r"|(?P<every>\[\*\]|\.\*)"
    r"|\[\?\(\s*@(?P<where>(?:\.(?:[^.\[\]\\=!<>\s]|\\.)+)+)\s*==\s*(?P<equal>[^)]*?)\s*\)\]"
)

Step = Callable[[Any], Iterator[Any]]


class PathError(ValueError):
    """An invalid path, or one with unsupported syntax."""


@lru_cache(1024)
def steps(path: str) -> tuple[Step, ...]:
    """The steps of a path such as `.status.conditions[?(@.type=='Ready')].status`."""
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if text and text[0] not in ".[":
        text = "." + text
    found: list[Step] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            raise PathError(f"{path!r} cannot be read from {text[at:]!r} on")
        found.append(_step(match))
        at = match.end()
    return tuple(found)


def values(obj: Any, path: str) -> list[Any]:
    """All values at the path, in order; null counts as absent."""
    reached = [obj]
    for step in steps(path):
        reached = [below for each in reached for below in step(each) if below is not None]
    return reached


def first(obj: Any, path: str) -> Any:
    """The first value at the path; None if there is none."""
    found = values(obj, path)
    return found[0] if found else None


def _step(match: re.Match[str]) -> Step:
    if match["where"] is not None:
        equal = match["equal"]
        quoted = equal[:1] in ("'", '"') and equal[-1:] == equal[:1]
        return partial(_filter, match["where"], equal[1:-1] if quoted else equal)
    if match["every"] is not None:
        return _every
    if match["index"] is not None:
        return partial(_at, int(match["index"]))
    name = match["quoted"]
    if name is None:
        name = re.sub(r"\\(.)", r"\1", match["field"])
    return partial(_field, name)


def _field(name: str, value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield value.get(name)


def _at(index: int, value: Any) -> Iterator[Any]:
    if isinstance(value, list) and -len(value) <= index < len(value):
        yield value[index]


def _every(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _filter(where: str, wanted: str, value: Any) -> Iterator[Any]:
    for each in value if isinstance(value, list) else ():
        found = first(each, where)
        if found is not None and _spelt(found) == wanted:
            yield each


def _spelt(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
