# SPDX-License-Identifier: Apache-2.0
"""Keeps control characters in texts of other users from reaching the terminal.

Messages, annotations and commands in objects are arbitrary text. Escape sequences in them could
move the cursor, forge output, or change the terminal. Everything that commands print is filtered,
except for what is written with `echo_raw`, whose caller has escaped foreign text.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable
from typing import Any, TextIO, cast

import click

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters except tab and newline, and those that reorder text."""


def escaped(text: str) -> str:
    r"""The text with control characters as \uXXXX, which JSON and YAML read as well."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


class FilteredStream:
    """A text stream that escapes control characters. Its `buffer` is not filtered."""

    def __init__(self, stream: TextIO) -> None:
        self.unfiltered = stream

    def write(self, text: str) -> int:
        return self.unfiltered.write(escaped(text))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unfiltered, name)


def filter_output() -> None:
    """Filter standard output and standard error of this process from now on."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, FilteredStream):
            _replace_unknown_characters(stream)
            setattr(sys, name, FilteredStream(stream))


def _replace_unknown_characters(stream: TextIO) -> None:
    """Print a question mark for what the encoding of a terminal lacks, instead of failing."""
    if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="replace")


def unfiltered(stream: TextIO) -> TextIO:
    """The stream without the filter."""
    found = cast(object, stream)
    return found.unfiltered if isinstance(found, FilteredStream) else stream


def echo_raw(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print text with escape sequences of our own. Foreign parts must be escaped."""
    click.echo(text, file=unfiltered(sys.stderr if err else sys.stdout), nl=nl)
