# SPDX-License-Identifier: Apache-2.0
"""Commands that need a cluster are valid: shell syntax, kuota command lines, and API paths.

`tests/cluster/test_kube_docs.py` executes those that need nothing but a real API server.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import click
import pytest

from docs.pages import Block, blocks, pages
from kuota.cli.groups import KindGroup
from kuota.cli.main import main
from kuota.history.api import parse_query, parse_scope
from kuota.visibility.api import parse_path

ILLUSTRATIONS = [each for page in pages() for each in blocks(page) if each.illustration]
KUBECTL = ("get", "port-forward", "create", "set", "rollout", "apply", "delete", "diff")
_INLINE = re.compile(r"`(kuota [a-z][^`]*)`")
_PLACEHOLDER = re.compile(r"[A-Z]{2,}|…|\.\.\.")


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command, without redirections."""
    for line in text.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in lexer:
            if set(word) <= set("|&;<>"):
                yield words
                words = [">"] if set(word) <= set("<>") else []
            else:
                words.append(word)
        yield words


def parse(words: list[str]) -> None:
    """Parse a kuota command line without running it. Raises ClickException."""
    group: click.Group = main
    context = click.Context(main, info_name="kuota")
    while words and isinstance(group, click.Group):
        if isinstance(group, KindGroup):
            words = group.with_kind(context, words)
        found = group.get_command(context, words[0])
        assert found is not None, f"there is no command {words[0]}"
        name, words = words[0], words[1:]
        if not isinstance(found, click.Group):
            found.make_context(name, list(words), parent=context).close()
            return
        group, context = found, click.Context(found, info_name=name, parent=context)


@pytest.mark.parametrize("block", ILLUSTRATIONS, ids=str)
def test_every_illustrated_command_is_valid(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text("{}")
    subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)
    found = [words for words in commands(block.text) if words]
    assert found
    for words in found:
        if words[0] == "kuota":
            parse(words[1:])
        elif words[0] == "kubectl":
            verb = next(each for each in words[1:] if each in KUBECTL)
            assert verb, words
            for path in (each for each in words if each.startswith("/apis/")):
                assert parse_path(path) is not None or _is_report(path), path


def _is_report(path: str) -> bool:
    """Whether the history serves the path, and its parameters are valid."""
    parts = urlsplit(path)
    query = dict(parse_qsl(parts.query))
    parse_query(query, time.time())
    return parse_scope(parts.path, query) is not None


def test_an_invalid_command_line_is_found() -> None:
    with pytest.raises(click.UsageError):
        parse(["describe", "job", "train", "--namespaces=vision"])
    with pytest.raises(AssertionError, match="no command"):
        parse(["descripe"])


@pytest.mark.parametrize("page", ["docs/cluster.md", "docs/migrate.md"])
def test_every_command_in_the_text_exists(page: str) -> None:
    root = Path(__file__).parents[2]
    for text in _INLINE.findall((root / page).read_text(encoding="utf-8")):
        words = shlex.split(text)[1:]
        if _PLACEHOLDER.search(text):
            words = words[:1]
        context = click.Context(main, info_name="kuota")
        found = main.get_command(context, words[0])
        assert found is not None, text
        if len(words) > 1 and not isinstance(found, click.Group):
            known = {name for each in found.params for name in each.opts}
            assert {each.partition("=")[0] for each in words if each.startswith("--")} <= known, (
                text
            )
