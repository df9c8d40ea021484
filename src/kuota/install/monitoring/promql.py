# SPDX-License-Identifier: Apache-2.0
"""Reads the metrics and labels of PromQL expressions, so that none refers to what does not exist.

This is not a parser of PromQL: it knows which words are metrics and which are labels. Prometheus
itself checks the syntax (`tests/observability`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import msgspec

from kuota.metrics.all_metrics import ROLE, samples

_TOKEN = re.compile(
    r'(?P<text>"(?:[^"\\]|\\.)*")|(?P<variable>\$\w+)|(?P<number>\d[\w.]*)'
    r"|(?P<word>[A-Za-z_:][\w:]*)|(?P<sign>[=!]~|!=|[^\s])"
)
_LABEL_LISTS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_WORDS = frozenset({"and", "or", "unless", "bool", "offset", "Inf", "NaN"}) | _LABEL_LISTS
_NOT_FOLLOWER = f'{ROLE}!="follower"'
"""Followers show the same gauges as the leader, so every query leaves them out."""
_OF_KUOTA = 'job=~"$job"'
"""Other programs have series of the same names, so that the job has to be selected."""
_OWN = ("kueue_", "kuota_", "multikueue_")
_TARGET = frozenset({"job", "instance"})
"""The labels that Prometheus adds to every series."""


class Token(msgspec.Struct, frozen=True):
    """A word, sign, number, variable or text of an expression."""

    kind: str
    text: str
    start: int
    end: int


class Selector(msgspec.Struct, frozen=True):
    """A metric in an expression, with the labels that it is matched by."""

    name: str
    labels: tuple[str, ...]
    end: int
    braced: bool


def tokens(expression: str) -> list[Token]:
    """Return the tokens of an expression."""
    return [
        Token(str(found.lastgroup), found[0], found.start(), found.end())
        for found in _TOKEN.finditer(expression)
    ]


def selectors(expression: str) -> list[Selector]:
    """Return the metrics of an expression, in order."""
    found = tokens(expression)
    listed = _in_lists(found)
    made, at = [], 0
    while at < len(found):
        token, follows = found[at], found[at + 1].text if at + 1 < len(found) else ""
        function = follows in ("(", "by", "without")
        if token.kind != "word" or token.text in _WORDS or at in listed or function:
            at += 1
            continue
        close = at + 1
        labels: list[str] = []
        if follows == "{":
            close = next(i for i in range(at, len(found)) if found[i].text == "}")
            labels = [each.text for each in found[at + 2 : close] if each.kind == "word"]
        made.append(Selector(token.text, tuple(labels), token.end, follows == "{"))
        at = close + 1 if follows == "{" else at + 1
    return made


def grouped_labels(expression: str) -> set[str]:
    """Return the labels that an expression aggregates or matches by."""
    found = tokens(expression)
    return {found[at].text for at in _in_lists(found) if found[at].kind == "word"}


def _in_lists(found: list[Token]) -> set[int]:
    """Return the positions of tokens in lists of labels, such as those after `by`."""
    inside: set[int] = set()
    for at, token in enumerate(found):
        opens = at + 1 < len(found) and found[at + 1].text == "("
        if token.text in _LABEL_LISTS and opens:
            close = next(i for i in range(at, len(found)) if found[i].text == ")")
            inside.update(range(at + 2, close))
    return inside


def faults(expression: str, known: Mapping[str, frozenset[str]] | None = None) -> Iterator[str]:
    """Yield the metrics and labels of an expression that do not exist."""
    known = known if known is not None else samples()
    present: set[str] = set()
    for each in selectors(expression):
        labels = known.get(each.name)
        if labels is None:
            yield f"there is no series {each.name}"
            continue
        labels |= _TARGET
        present |= labels
        for label in each.labels:
            if label not in labels:
                yield f"{each.name} has no label {label}; it has {', '.join(sorted(labels))}"
    for label in sorted(grouped_labels(expression) - present):
        yield f"no series of {expression!r} has the label {label}"


def is_own(name: str) -> bool:
    """Whether only Kueue and Kuota have series of this name."""
    return name.startswith(_OWN)


def of_leader(expression: str) -> str:
    """Return the expression without the series of followers."""
    known = samples()
    return _matched(expression, lambda name: ROLE in known.get(name, frozenset()), _NOT_FOLLOWER)


def of_job(expression: str) -> str:
    """Return the expression with series of the selected job only, also where others have them."""
    return _matched(expression, lambda name: not is_own(name), _OF_KUOTA)


def _matched(expression: str, chosen: Callable[[str], bool], matcher: str) -> str:
    """Return the expression with one more matcher for the chosen metrics."""
    for each in reversed(selectors(expression)):
        if not chosen(each.name):
            continue
        rest = expression[each.end :]
        if each.braced:
            brace = rest.index("{") + 1
            comma = "" if rest[brace:].lstrip().startswith("}") else ","
            rest = rest[:brace] + matcher + comma + rest[brace:]
        else:
            rest = "{" + matcher + "}" + rest
        expression = expression[: each.end] + rest
    return expression
