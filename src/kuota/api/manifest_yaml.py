# SPDX-License-Identifier: Apache-2.0
"""Reads YAML as kubectl does, and records the line of each field.

kubectl reads YAML 1.1 through Go: `y`, `on` and `no` are booleans and 0755 is octal, but 12:30:45
and 2026-01-01 are strings, and keys are always strings. JSON is valid YAML. A duplicate key in a
mapping is a fault, and so is any value that JSON cannot represent.
"""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec
import yaml

from .base import Json
from .faults import FieldError, Invalid, invalid

DEEPEST = 200
"""The most levels of nesting. The parser composes nodes recursively on the stack of the process,
which a text of 60,000 brackets exhausts."""
MOST_REPEATS = 100_000
"""The number of values that aliases may repeat, by default."""
_EXACT = 2.0**53
_TAG = "tag:yaml.org,2002:"
_WORD = "word"
_NULL = frozenset(["", "~", "null", "Null", "NULL"])
_TRUE = frozenset(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"])
_FALSE = frozenset(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"])
_INT = re.compile(r"[-+]?(0b[01][01_]*|0x[0-9a-fA-F][0-9a-fA-F_]*|0o?[0-7][0-7_]*|[1-9][0-9_]*|0)")
_FLOAT = re.compile(r"[-+]?(\.[0-9][0-9_]*|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?")
_BEYOND_JSON = {".inf": math.inf, ".nan": math.nan}


class Document(msgspec.Struct, frozen=True):
    """One YAML document: its value, the line (from 1) of each field by path, and its faults."""

    value: Any
    lines: dict[str, int]
    errors: tuple[FieldError, ...]


class _Loader(yaml.CSafeLoader):
    """Tags every unquoted, untagged scalar, which `_plain` then interprets."""

    yaml_implicit_resolvers = {None: [(_WORD, re.compile(""))]}


def scanned(text: str, most_repeats: int = MOST_REPEATS) -> list[Document]:
    """Return every document with its own faults.

    A syntax error ends the list with a document that has only that fault.
    """
    line = _too_deep_at(text)
    if line:
        return [Document(None, {}, (_fault("", f"line {line}: is nested too deeply"),))]
    found, read = [], _Reader(most_repeats)
    try:
        for root in yaml.compose_all(text, Loader=_Loader):
            if root is not None:
                found.append(read.document(root))
    except yaml.YAMLError as error:
        found.append(Document(None, {}, (_fault("", _syntax(error)),)))
    return [each for each in found if each.value is not None or each.errors]


def load_all(text: str, most_repeats: int = MOST_REPEATS) -> list[Json]:
    """Return the objects of a manifest. Raises Invalid, also if a document is not an object."""
    found = scanned(text, most_repeats)
    errors = [error for each in found for error in each.errors]
    if errors:
        raise Invalid(errors)
    odd = [each for each in found if not isinstance(each.value, dict)]
    if odd:
        message = "holds a document that is not an object with fields"
        raise Invalid([_fault("", f"line {each.lines['']}: {message}") for each in odd])
    return [each.value for each in found]


def _too_deep_at(text: str) -> int:
    """Return the first line that is nested too deeply; 0 if there is none.

    A syntax error ends the search, because the text is not composed beyond it either.
    """
    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > DEEPEST:
                    return event.start_mark.line + 1 if event.start_mark else 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    except yaml.YAMLError:
        pass
    return 0


class _Reader:
    """Converts composed nodes to JSON values and collects what JSON or kubectl would reject.

    The number of alias expansions is limited for all documents together.
    """

    def __init__(self, most_repeats: int) -> None:
        self.most_repeats = most_repeats
        self.errors: list[FieldError] = []
        self.lines: dict[str, int] = {}
        self.seen: set[int] = set()
        self.repeats = 0
        self.open: set[int] = set()

    def document(self, root: yaml.Node) -> Document:
        self.errors, self.lines, self.seen = [], {}, set()
        try:
            value = self.value(root, "")
        except Invalid as error:
            return Document(None, self.lines, error.errors)
        return Document(value, self.lines, tuple(self.errors))

    def value(self, node: yaml.Node, path: str) -> Any:
        self.lines.setdefault(path, _line(node))
        self.repeats += id(node) in self.seen
        if self.repeats > self.most_repeats or id(node) in self.open:
            raise Invalid([_fault(path, f"line {_line(node)}: an alias repeats without end")])
        self.seen.add(id(node))
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self.mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return [self.value(each, f"{path}[{i}]") for i, each in enumerate(node.value)]
            return self.scalar(node, path)
        finally:
            self.open.discard(id(node))

    def mapping(self, node: yaml.MappingNode, path: str) -> Json:
        result: Json = {}
        merged: Json = {}
        for key_node, value_node in node.value:
            if key_node.tag == _WORD and key_node.value == "<<":
                merged = self.merged(value_node, path) | merged
                continue
            key = self.key(key_node, path)
            at = f"{path}.{key}" if path else key
            if key in result:
                self.reject(at, key_node, f'key "{key}" is set twice')
            self.lines[at] = _line(key_node)
            result[key] = self.value(value_node, at)
        return merged | result

    def merged(self, node: yaml.Node, path: str) -> Json:
        """Return the mapping that `<<` merges. Of several, the first one with a key wins."""
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        result: Json = {}
        for source in sources:
            value = self.value(source, path)
            if isinstance(value, dict):
                result = value | result
            else:
                self.reject(path, source, "only a mapping can be merged with <<")
        return result

    def key(self, node: yaml.Node, path: str) -> str:
        value = self.scalar(node, path) if isinstance(node, yaml.ScalarNode) else None
        if value is None:
            self.reject(path, node, "a key must be a word")
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    def scalar(self, node: yaml.Node, path: str) -> Any:
        if node.tag == f"{_TAG}str":
            return node.value
        value = _plain(node.value)
        if node.tag != _WORD and not _tagged(value, node.tag):
            self.reject(path, node, f"{node.value!r} cannot be read as {node.tag}")
        elif isinstance(value, float) and not math.isfinite(value):
            self.reject(path, node, f"{node.value} is not a number that JSON knows")
        return value

    def reject(self, path: str, node: yaml.Node, message: str) -> None:
        self.errors.append(_fault(path, f"line {_line(node)}: {message}"))


def _plain(text: str) -> Any:
    """Interpret an unquoted scalar: null, a boolean, a number, or else a string."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    bare = text.replace("_", "")
    if _INT.fullmatch(text):
        return _integer(bare)
    if _FLOAT.fullmatch(text):
        return _number(float(bare))
    return _BEYOND_JSON.get(text.lstrip("+-").lower(), text)


def _tagged(value: Any, tag: str) -> bool:
    """Whether the value has the type of the explicit tag."""
    if tag in (f"{_TAG}int", f"{_TAG}float"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return (tag == f"{_TAG}bool" and isinstance(value, bool)) or (
        tag == f"{_TAG}null" and value is None
    )


def _integer(text: str) -> int:
    digits = text.lstrip("+-")
    octal = digits.startswith("0") and digits.isdigit()
    size = int(digits, 8 if octal else 0)
    return -size if text.startswith("-") else size


def _number(value: float) -> int | float:
    """Return 1e3 as 1000, as kubectl does, so that it is accepted where an integer is required."""
    return int(value) if abs(value) < _EXACT and value.is_integer() else value


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _syntax(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}: " if mark else ""
    return f"{where}not YAML: {getattr(error, 'problem', None) or error}"


def _fault(path: str, message: str) -> FieldError:
    return invalid(path, None, message)
