# SPDX-License-Identifier: Apache-2.0
"""Checks CEL selectors of devices without compiling them.

The compiler is an optional dependency, and Kubernetes' compiler knows functions that it lacks.
Therefore these checks reject only what no compiler accepts. They do not check types and functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..faults import quoted

_TEXT = re.compile(
    r"""//[^\n]* | [rRbB]{0,2} ( \"{3}.*?\"{3} | '{3}.*?'{3} )
    | \b[rR][bB]? ( "[^"\n]*" | '[^'\n]*' ) | \b[bB][rR] ( "[^"\n]*" | '[^'\n]*' )
    | (\b[bB])? ( "(\\.|[^"\\\n])*" | '(\\.|[^'\\\n])*' )""",
    re.VERBOSE | re.DOTALL,
)
_CLOSES = {")": "(", "]": "[", "}": "{"}

_FIELD_NAME = re.compile(r"\.\s*\??\s*(`[^`]*`|[A-Za-z_]\w*)")
_FIRST_NAME = re.compile(r"(?<!\w)([A-Za-z_]\w*)(?!\w)(?!\s*\()")
_MESSAGE = re.compile(r"\w\s*\{")
_DEVICE_FIELD = re.compile(r"(?<![\w.])device\s*\.\s*([A-Za-z_]\w*)")
_BOUND = re.compile(
    r"\b(?:all|exists|exists_one|existsOne|map|filter|bind|sortBy|transform\w+)\s*\(\s*"
    r"([A-Za-z_]\w*)\s*,(?:\s*([A-Za-z_]\w*)\s*,)?"
)
_FIELDS = ("attributes", "capacity", "driver")
_LITERALS = ("true", "false", "null", "in")
_TYPES = (
    *("bool", "bytes", "double", "dyn", "int", "list"),
    *("map", "null_type", "string", "type", "uint"),
)
_LIBRARIES = ("base64", "cel", "google", "lists", "math", "net", "optional", "sets", "strings")
"""The first parts of names of functions and types."""
_DECLARED = {"device", *_LITERALS, *_TYPES, *_LIBRARIES}


def cel_complaints(text: str) -> list[str]:
    """Return complaints about a selector that does not compile.

    An unterminated string, an unbalanced bracket, or a name that is not declared is detected.
    """
    bare = _TEXT.sub(" ", text)
    if '"' in bare or "'" in bare:
        return ["is not CEL: a quote is left open"]
    return _bracket_complaints(bare) or [
        f"refers to {quoted(name)}, which is not declared; use device.attributes, "
        "device.capacity or device.driver"
        for name in dict.fromkeys(_undeclared(bare))
    ]


def _bracket_complaints(bare: str) -> list[str]:
    waiting: list[str] = []
    for char in bare:
        if char in _CLOSES.values():
            waiting.append(char)
        elif char in _CLOSES and (not waiting or waiting.pop() != _CLOSES[char]):
            return [f"is not CEL: {char!r} closes nothing"]
    return [f"is not CEL: {waiting[-1]!r} is never closed"] if waiting else []


def _undeclared(bare: str) -> Iterator[str]:
    """Yield names without a declaration. `bare` contains no strings and comments."""
    if _MESSAGE.search(bare):
        return  # The fields of a message look like names of variables.
    bound = {name for names in _BOUND.findall(bare) for name in names}
    if "device" not in bound:
        for field in _DEVICE_FIELD.findall(bare):
            if field not in _FIELDS:
                yield f"device.{field}"
    for name in _FIRST_NAME.findall(_FIELD_NAME.sub(".", bare)):
        if name not in _DECLARED and name not in bound:
            yield name
