# SPDX-License-Identifier: Apache-2.0
"""Derives conditions of a template's lines from texts with and without them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate, groupby, product
from typing import TypeVar

T = TypeVar("T", bound=Hashable)
Render = Callable[[frozenset[str]], str]
"""Returns the text that is wanted where exactly these conditions hold."""


def conditional(render: Render, conditions: Sequence[str]) -> str:
    """Return a template that renders to each of the texts. A condition may only add lines."""
    lines = render(frozenset(conditions)).splitlines(keepends=True)
    needed: list[frozenset[str]] = [frozenset()] * len(lines)
    for each in conditions:
        without = render(frozenset(conditions) - {each}).splitlines(keepends=True)
        for at in _added(without, lines):
            needed[at] |= {each}
    _check(render, conditions, lines, needed)
    return "".join(_wrapped(lines, needed, conditions))


def either(condition: str, text: str, otherwise: str) -> str:
    """Return a template that renders to `text` where the condition holds, or to `otherwise`.

    The lines that both have in common are contained once.
    """
    new, old = text.splitlines(keepends=True), otherwise.splitlines(keepends=True)
    parts = []
    for tag, i, j, start, end in _steps(old, new):
        if tag == "equal":
            parts.append("".join(old[i:j]))
            continue
        negated = f"not {_argument(condition)}"
        parts.append(f"{{{{- if {condition if start < end else negated} }}}}\n")
        parts.append("".join(new[start:end]))
        parts.append("{{- else }}\n" if i < j and start < end else "")
        parts.append("".join(old[i:j]) + "{{- end }}\n")
    return "".join(parts)


def _added(before: list[str], after: list[str]) -> Iterator[int]:
    """Yield the indexes of lines that only `after` has.

    Whole blocks are compared first, because blocks such as rules have many lines in common.
    """
    blocks, longer = _blocks(before), _blocks(after)
    starts = [0, *accumulate(map(len, longer))]
    for tag, i, j, start, end in _steps(blocks, longer):
        if tag == "replace" and j - i == end - start:
            for old, new, at in zip(blocks[i:j], longer[start:end], starts[start:], strict=False):
                for kind, _, _, first, last in _steps(old, new):
                    yield from range(at + first, at + last) if kind != "equal" else ()
        elif tag != "equal":
            yield from range(starts[start], starts[end])


def _steps(before: Sequence[T], after: Sequence[T]) -> Sequence[tuple[str, int, int, int, int]]:
    return SequenceMatcher(None, before, after, autojunk=False).get_opcodes()


def _blocks(lines: list[str]) -> list[tuple[str, ...]]:
    """Divide at each line that is not indented."""
    found: list[list[str]] = []
    for each in lines:
        if not found or not each.startswith(" "):
            found.append([])
        found[-1].append(each)
    return [tuple(each) for each in found]


def _check(
    render: Render, conditions: Sequence[str], lines: list[str], needed: list[frozenset[str]]
) -> None:
    for chosen in product((False, True), repeat=len(conditions)):
        holding = frozenset(name for name, on in zip(conditions, chosen, strict=True) if on)
        made = "".join(line for line, by in zip(lines, needed, strict=True) if by <= holding)
        if made != render(holding):
            raise ValueError(f"lines of {sorted(holding)} are not added to those of others")


def _wrapped(lines: list[str], needed: list[frozenset[str]], order: Sequence[str]) -> Iterator[str]:
    for by, group in groupby(zip(lines, needed, strict=True), key=lambda each: each[1]):
        text = "".join(line for line, _ in group)
        words = [each for each in order if each in by]
        if not words:
            yield text
            continue
        condition = words[0] if len(words) == 1 else f"and {' '.join(map(_argument, words))}"
        yield f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"


def _argument(condition: str) -> str:
    return f"({condition})" if " " in condition else condition
