# SPDX-License-Identifier: Apache-2.0
"""The help of every command has examples, which are valid command lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from docs.test_illustrations import commands, parse
from kuota.cli.kubectl import PassThrough
from kuota.cli.main import main

_FILES = ("config.yaml", "kueue-config.yaml", "gpu-2.kubeconfig", "prices.yaml")
"""Files that must exist for an example to be valid."""


def leaves(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Yield all commands that are not groups, with their names."""
    if isinstance(command, PassThrough):
        return  # kubectl has its own help.
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command)
    for each in command.list_commands(context):
        found = command.get_command(context, each)
        assert found is not None
        yield from leaves(found, f"{name} {each}")


LEAVES = dict(leaves(main, "kuota"))


def examples(command: click.Command) -> str:
    """Return the examples in the help of a command. Continued lines are joined."""
    _, _, text = (command.help or "").replace("Examples:", "Example:").partition("Example:\n")
    return text.replace("\\\n", "")


@pytest.mark.parametrize("name", LEAVES)
def test_the_help_of_every_command_has_valid_examples(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for each in _FILES:
        (tmp_path / each).write_text("{}")
    found = [words for words in commands(examples(LEAVES[name])) if words]
    assert found, "no examples"
    for words in found:
        if "kuota" in words[:2]:
            parse(words[words.index("kuota") + 1 :])
