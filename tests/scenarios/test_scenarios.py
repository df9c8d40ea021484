# SPDX-License-Identifier: Apache-2.0
"""Every scenario has the recorded results."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from scenarios.play import Play
from scenarios.script import Story, rewrite, stories

STORIES = [
    pytest.param(story, id=f"{file.stem}: {story.title}")
    for file in sorted(Path(__file__).parent.glob("*.txt"))
    for story in stories(file)
]


@pytest.mark.parametrize("story", STORIES)
def test_the_story_ends_as_it_is_written(story: Story, pytestconfig: pytest.Config) -> None:
    play = Play()
    played = replace(story, blocks=tuple(block.answered(play.do) for block in story.blocks))
    if pytestconfig.getoption("--rewrite", default=False):
        rewrite(played)
    else:
        assert story.text() == played.text()


def test_titles_are_distinguished() -> None:
    titles = [param.id for param in STORIES]
    assert len(set(titles)) == len(titles)
