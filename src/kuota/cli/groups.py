# SPDX-License-Identifier: Apache-2.0
"""Command groups whose subcommands are kinds: `kuota stop cq`, `kuota list workloads`."""

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
}

_JOBS = ("job", "jobs")


class KindGroup(click.Group):
    """A group whose subcommands are kinds. A kind is found by any of its names."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        word = cmd_name.lower()
        return super().get_command(ctx, ALIASES.get(word, word))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            known = ", ".join(self.list_commands(ctx))
            ctx.fail(f"'{args[0]}' is not one of: {known}{self._meant(ctx, args[0])}")
        return super().resolve_command(ctx, args)

    def _meant(self, ctx: click.Context, word: str) -> str:
        import difflib

        names = self.list_commands(ctx)
        if word.lower() in _JOBS and "workload" in names:
            return "; for a Job, name its workload"
        close = difflib.get_close_matches(word.lower(), [*names, *ALIASES], n=1)
        meant = ALIASES.get(close[0], close[0]) if close else ""
        return f"; did you mean {meant}?" if meant in names else ""
