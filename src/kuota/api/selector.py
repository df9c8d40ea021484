# SPDX-License-Identifier: Apache-2.0
"""Parses label selectors such as "team=eng, dep in (a, b), !legacy, rank>3"."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .base import LabelSelectorRequirement
from .match import SelectorError, check_requirement, holds

Requirements = tuple[LabelSelectorRequirement, ...]

_TOKEN = re.compile(r"\s*(==|!=|[=!,()<>]|[^\s=!,()<>]+)\s*")
_KEY = re.compile(
    r"(?:[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_PUNCTUATION = frozenset(["==", "!=", "=", "!", ",", "(", ")", "<", ">"])
_OPERATORS = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}
_SETS = {"in": "In", "notin": "NotIn"}
MOST_TERMS = 256
"""The number of requirements and values of one selector, which is evaluated for every object."""


def parse_selector(text: str) -> Requirements:
    """Parse all requirements of the text. An empty text has none."""
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != re.sub(r"\s+", "", text):
        raise SelectorError(f"{text!r}: cannot be read as a label selector")
    if not tokens:
        return ()
    if tokens.count(",") >= MOST_TERMS:
        raise SelectorError(f"a label selector has at most {MOST_TERMS} requirements and values")
    reader = _Reader(text, tokens)
    found = [reader.requirement()]
    while reader.peek() == ",":
        reader.take()
        found.append(reader.requirement())
    if reader.peek():
        raise reader.fault("a comma")
    return tuple(found)


def selects(requirements: Requirements, labels: Mapping[str, str] | None) -> bool:
    """Whether the labels match every requirement."""
    have = labels or {}
    return all(holds(each, have) for each in requirements)


class _Reader:
    def __init__(self, text: str, tokens: list[str]) -> None:
        self.text = text
        self.tokens = tokens
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def fault(self, wanted: str) -> SelectorError:
        found = repr(self.peek()) if self.peek() else "the end"
        return SelectorError(f"{self.text!r}: found {found} where {wanted} should be")

    def requirement(self) -> LabelSelectorRequirement:
        if self.peek() == "!":
            self.take()
            found = LabelSelectorRequirement(key=self.key(), operator="DoesNotExist")
        else:
            found = self._positive(self.key())
        check_requirement(found)
        return found

    def _positive(self, key: str) -> LabelSelectorRequirement:
        token = self.peek()
        if token in ("", ","):
            return LabelSelectorRequirement(key=key, operator="Exists")
        self.take()
        if token in _OPERATORS:
            return LabelSelectorRequirement(
                key=key, operator=_OPERATORS[token], values=[self.value()]
            )
        if token in _SETS:
            return LabelSelectorRequirement(key=key, operator=_SETS[token], values=self._set())
        self.at -= 1
        raise self.fault("one of = != in notin > < or a comma")

    def key(self) -> str:
        if _KEY.fullmatch(self.peek()) is None:
            raise self.fault("a label key")
        return self.take()

    def value(self) -> str:
        """Parse a label value. If there is none, return ""."""
        return "" if self.peek() in _PUNCTUATION or not self.peek() else self.take()

    def _set(self) -> list[str]:
        if self.take() != "(":
            self.at -= 1
            raise self.fault("an opening parenthesis")
        values = [self.value()]
        while self.peek() == ",":
            self.take()
            values.append(self.value())
        if self.take() != ")":
            self.at -= 1
            raise self.fault("a comma or a closing parenthesis")
        return sorted(set(values))
