# SPDX-License-Identifier: Apache-2.0
"""`kuota`: the one command. Its sub-commands are imported when they are used, not before."""

from __future__ import annotations

from importlib import import_module

import click

from kuota import __version__

_COMMANDS = {
    "check": "Say what is wrong with manifests before a cluster does.",
    "crds": "Print the CustomResourceDefinitions of all kinds.",
    "plan": "Show who would get quota, who would wait, and why.",
}


class _Lazy(click.Group):
    """A group that knows its commands by name and help, and imports only the one that runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = import_module(f"kuota.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and name not in _COMMANDS and not name.startswith("-"):
            import difflib

            close = difflib.get_close_matches(name, _COMMANDS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(_COMMANDS)}"
            ctx.fail(f"No such command '{name}'; {hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kuota")
def main() -> None:
    """Ration scarce hardware among teams, with Kueue's objects and Kueue's decisions."""
