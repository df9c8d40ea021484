# SPDX-License-Identifier: Apache-2.0
"""Every command in the documentation is executed by a test, or says that it is an illustration."""

from __future__ import annotations

import re

import pytest

from docs.pages import COMMAND, ILLUSTRATION, LANGUAGES, ROOT, blocks, indented_commands, pages

EXAMPLES = ROOT / "examples"


@pytest.mark.parametrize("page", pages())
def test_every_block_has_a_language_that_says_what_becomes_of_it(page: str) -> None:
    unknown = [str(each) for each in blocks(page) if each.language not in LANGUAGES]
    assert [] == unknown, f"use one of {LANGUAGES}"


@pytest.mark.parametrize("page", pages())
def test_no_command_hides_where_nothing_executes_it(page: str) -> None:
    assert [] == list(indented_commands(page)), "put it into a block of language sh"
    hidden = [
        f"{block}: {line}"
        for block in blocks(page)
        if block.language == "text"
        for line in block.text.splitlines()
        if COMMAND.match(line)
    ]
    assert [] == hidden, "put it into a block of language sh"


@pytest.mark.parametrize("page", pages())
def test_an_illustration_gives_its_reason(page: str) -> None:
    for block in blocks(page):
        if block.illustration:
            assert ILLUSTRATION.fullmatch(block.text.splitlines()[0]), f"{block}: why?"


@pytest.mark.parametrize("example", sorted(each.name for each in EXAMPLES.iterdir()))
def test_every_manifest_of_an_example_is_used_by_its_page(example: str) -> None:
    page = EXAMPLES / example / "README.md"
    text = "\n".join(block.text for block in blocks(str(page.relative_to(ROOT))) if block.executed)
    folder = f"examples/{example}"
    numbered = f"{folder}/[1-9]-*.yaml" in text or re.search(rf"-f {folder}( |$)", text, re.M)
    for manifest in (EXAMPLES / example).glob("*.yaml"):
        named = f"{folder}/{manifest.name}" in text
        assert named or (numbered and manifest.name[0].isdigit()), manifest.name
