# SPDX-License-Identifier: Apache-2.0
"""The format of scenario files, and how new results are written into them.

A scenario begins with a title, `# …`, and an empty simulation. Remarks may follow the title. Then
come blocks separated by empty lines: commands, a line `----`, and their results.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import msgspec

RULE = "----"

Answer = Callable[[str], list[str]]
"""What a command answers, line by line."""


class Block(msgspec.Struct, frozen=True):
    commands: tuple[str, ...]
    answers: tuple[str, ...]

    def answered(self, answer: Answer) -> Block:
        """The same commands with the answers they have now."""
        return Block(self.commands, tuple(line for each in self.commands for line in answer(each)))

    def text(self) -> str:
        return "\n".join([*self.commands, RULE, *self.answers])


class Story(msgspec.Struct, frozen=True):
    file: Path
    title: str
    remarks: tuple[str, ...]
    blocks: tuple[Block, ...]

    def text(self) -> str:
        head = "\n".join([f"# {self.title}", *self.remarks])
        return "\n\n".join([head, *(block.text() for block in self.blocks)])


def stories(file: Path) -> list[Story]:
    found: list[Story] = []
    for part in re.split(r"\n\n+", file.read_text().strip()):
        first, *rest = lines = part.splitlines()
        if first.startswith("# "):
            found.append(Story(file, first.removeprefix("# "), tuple(rest), ()))
        else:
            found[-1] = msgspec.structs.replace(
                found[-1], blocks=(*found[-1].blocks, _block(lines))
            )
    return found


def rewrite(story: Story) -> None:
    """Put the story in place of the one of the same title."""
    kept = [story if each.title == story.title else each for each in stories(story.file)]
    story.file.write_text("\n\n\n".join(each.text() for each in kept) + "\n")


def _block(lines: list[str]) -> Block:
    if RULE not in lines:
        return Block(tuple(lines), ())
    at = lines.index(RULE)
    return Block(tuple(lines[:at]), tuple(lines[at + 1 :]))
