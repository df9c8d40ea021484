# SPDX-License-Identifier: Apache-2.0
"""The code blocks of the documentation, and which of them a test executes.

A block of language `sh` is executed, unless its first line is a comment that begins with
"# Illustration" and gives the reason. The blocks of a page run in order, in one shell. A block of
language `yaml` is applied. A block of language `text` shows output or a picture. Blocks of
languages `python` and `toml` have tests of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
LANGUAGES = ("sh", "yaml", "text", "python", "toml")
ILLUSTRATION = re.compile(r"# Illustration: \S.+\.")
COMMAND = re.compile(r"\s*(\$ )?(kuota|kubectl|make|helm|docker|export|eval|python3?|pip|uv) \S")
_FENCE = re.compile(r"( *)```(.*)")


class Block(msgspec.Struct, frozen=True):
    """One fenced block; `line` is that of its opening fence."""

    page: str
    line: int
    language: str
    text: str

    @property
    def illustration(self) -> bool:
        return self.text.startswith("# Illustration")

    @property
    def executed(self) -> bool:
        return self.language in ("sh", "yaml") and not self.illustration

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Every page of README, docs and examples, relative to the root of the repository."""
    found = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    return sorted(str(each.relative_to(ROOT)) for each in found)


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page. An indented fence may be part of a list."""
    lines = iter(enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), start=1))
    for number, line in lines:
        opening = _FENCE.fullmatch(line)
        if opening is None:
            continue
        indent, language = opening.groups()
        body = []
        for _, inner in lines:
            if inner == f"{indent}```":
                break
            body.append(inner.removeprefix(indent))
        yield Block(page, number, language, "\n".join(body))


def indented_commands(page: str) -> Iterator[str]:
    """Commands in blocks that are only indented, and that nothing executes."""
    fenced = False
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), start=1):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and line.startswith("    ") and COMMAND.match(line):
            yield f"{page}:{number}: {line.strip()}"


def script(page: str) -> str:
    """The executed blocks of a page as one shell script; empty if there are none."""
    parts = []
    for block in blocks(page):
        if not block.executed:
            continue
        parts.append(f"echo '--- {block}' >&2")
        if block.language == "yaml":
            parts.append(f"kuota apply -f - <<'MANIFEST'\n{block.text}\nMANIFEST")
        else:
            parts.append(block.text)
    return "\n".join(parts)
