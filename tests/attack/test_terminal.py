# SPDX-License-Identifier: Apache-2.0
"""Escape sequences in objects never reach the terminal of whoever looks at them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import click
import pytest
import yaml
from rich.table import Table
from rich.text import Text

from kuota.cli.main import main
from kuota.cli.output import show, show_table
from kuota.cli.progress import Progress
from kuota.cli.safe_console import SafeConsole
from kuota.cli.tables import print_parts
from kuota.cli.terminal import escaped, filter_output

ATTACKS = (
    "\x1b[2J\x1b[H",  # clear the screen
    "\x1b]0;title\x07",  # set the title
    "\x1b]52;c;cm0gLXJmIH4K\x07",  # write the clipboard
    "\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "\x9b2J",  # the same with one character
    "over\rwritten",
    "\x08\x7f",
    "\u202egnp.exe",  # reversed text
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextmanager
def on_a_terminal() -> Iterator[Terminal]:
    """Standard output and standard error of a command that runs on a terminal."""
    found = Terminal()
    with redirect_stdout(found), redirect_stderr(found):
        filter_output()
        yield found


def harmless(terminal: Terminal, text: str) -> bool:
    """Whether the attack was printed, but not as it was."""
    return text not in terminal.getvalue() and escaped(text) in terminal.getvalue()


@pytest.mark.parametrize("text", ATTACKS)
def test_texts_of_others_are_printed_without_control_characters(text: str) -> None:
    with on_a_terminal() as terminal:
        click.echo(f"message: {text}")
    assert harmless(terminal, text)


@pytest.mark.parametrize("text", ATTACKS)
def test_tables_and_progress_are_safe(text: str) -> None:
    with on_a_terminal() as terminal:
        show_table(["name", "message"], [["a", text]])
    assert harmless(terminal, text)
    with on_a_terminal() as terminal:
        progress = Progress()
        progress.show(text)
        progress.say(text)
    assert harmless(terminal, text)


def test_no_cell_of_a_table_begins_another_line() -> None:
    with on_a_terminal() as terminal:
        show_table(["name", "message"], [["a", "b\nforged"]])
    assert "b forged" in terminal.getvalue()


@pytest.mark.parametrize("text", ATTACKS)
def test_colored_tables_are_safe_and_read_no_markup(text: str) -> None:
    table = Table("cell")
    table.add_row(text)
    table.add_row(Text(text, style="red"))
    table.add_row("[link=http://evil.example]click[/link]")
    with on_a_terminal() as terminal:
        print_parts([table], 200)
        SafeConsole().print(text)
    shown = terminal.getvalue()
    assert text not in shown
    assert "[link=" in shown
    assert "\x1b]" not in shown


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_json_and_yaml_stay_readable(form: str) -> None:
    values = {str(at): text for at, text in enumerate(ATTACKS)}
    with on_a_terminal() as terminal:
        show(values, form)
    assert values == yaml.safe_load(terminal.getvalue())
    assert not any(text in terminal.getvalue() for text in ATTACKS)


def test_errors_are_filtered_too() -> None:
    with on_a_terminal() as terminal, pytest.raises(SystemExit):
        main(["describe", "--no-such-option\x1b[2J"])
    assert "\x1b" not in terminal.getvalue()
