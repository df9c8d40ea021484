# SPDX-License-Identifier: Apache-2.0
"""Command groups: help without truncated lines, and groups whose subcommands are kinds."""

from __future__ import annotations

from typing import Any

import click

ALIASES = {
    "cq": "clusterqueue",
    "clusterqueues": "clusterqueue",
    "lq": "localqueue",
    "localqueues": "localqueue",
    "queue": "localqueue",
    "queues": "localqueue",
    "rf": "resourceflavor",
    "flavor": "resourceflavor",
    "flavors": "resourceflavor",
    "resourceflavors": "resourceflavor",
    "wl": "workload",
    "kwl": "workload",
    "workloads": "workload",
    "cohorts": "cohort",
    "po": "pods",
    "pod": "pods",
    "jobs": "job",
}

_JOBS = ("job", "jobs")


class CommandGroup(click.Group):
    """A group whose help shows the complete first sentence of each subcommand."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        rows = [(name, _summary(each)) for name, each in found.items() if each is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _summary(command: click.Command) -> str:
    first, _, _ = (command.help or "").partition("\n\n")
    return " ".join(first.split())


class KindGroup(CommandGroup):
    """A group whose subcommands are kinds: `kuota stop cq`, `kuota list workloads`.

    A kind is found by any of its names, and KIND/NAME names an object. Jobs are listed by their
    workloads. `default` is the kind if none is given.
    """

    def __init__(
        self, *args: Any, jobs_are_workloads: bool = False, default: str = "", **kwargs: Any
    ) -> None:
        super().__init__(*args, **{"no_args_is_help": not default} | kwargs)
        self._jobs_are_workloads = jobs_are_workloads
        self._default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self.with_kind(ctx, args))

    def with_kind(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the arguments: first a kind, which is the default if they name none."""
        first = args[0] if args else ""
        kind, slash, name = first.partition("/")
        if slash and self.get_command(ctx, kind) is not None:
            return [kind, name, *args[1:]]
        named = bool(first) and not first.startswith("-")
        if not self._default or named or first in self.get_help_option_names(ctx):
            return args
        return [self._default, *args]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        word = cmd_name.lower()
        if word in _JOBS and self._jobs_are_workloads:
            word = "workload"
        return super().get_command(ctx, ALIASES.get(word, word))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            names = self.list_commands(ctx)
            hint = self._meant(ctx, args[0])
            if not hint and "job" in names:
                hint = f"; if it is a job: {ctx.command_path} job {args[0]}"
            ctx.fail(f"'{args[0]}' is not one of: {', '.join(names)}{hint}")
        return super().resolve_command(ctx, args)

    def _meant(self, ctx: click.Context, word: str) -> str:
        import difflib

        names = self.list_commands(ctx)
        jobs = _JOBS if self._jobs_are_workloads else ()
        close = difflib.get_close_matches(word.lower(), [*names, *ALIASES, *jobs], n=1)
        if close and close[0] in jobs:
            return f"; did you mean {close[0]}?"
        meant = ALIASES.get(close[0], close[0]) if close else ""
        return f"; did you mean {meant}?" if meant in names else ""
