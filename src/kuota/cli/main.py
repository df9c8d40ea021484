# SPDX-License-Identifier: Apache-2.0
"""`kuota`: the entry point. A subcommand is imported only when it runs."""

from __future__ import annotations

from importlib import import_module

import click

from kuota import __version__

from .terminal import filter_output

_SECTIONS = {
    "One machine": {
        "up": "Start the control plane of this machine.",
        "down": "Stop the control plane of this machine; running pods continue.",
        "status": "Show whether the control plane of this machine runs, and where.",
        "token": "Manage tokens of other users of this machine.",
        "gpus": "Show the GPUs of this machine, their holders and utilization.",
        "backup": "Back up all objects of this machine to a file.",
        "restore": "Restore the objects of this machine from a backup.",
        "demo": "Watch three teams share eight simulated GPUs.",
    },
    "Jobs and queues": {
        "run": "Run a command as soon as there is quota for it.",
        "list": "List workloads, queues, flavors or pods.",
        "describe": "Show an object in detail, and why a job waits.",
        "logs": "Print the logs of a job or a pod.",
        "watch": "Watch quota, queues and jobs in the terminal.",
        "dashboard": "Open the web dashboard, signed in.",
        "stop": "Stop a queue, a workload or a job.",
        "resume": "Resume a stopped queue, workload or job.",
        "topology": "Show topology domains with free capacity, and where a job runs.",
    },
    "Manifests and objects": {
        "check": "Validate manifests before you apply them.",
        "plan": "Show which jobs would get quota, which would wait, and why.",
        "apply": "Apply manifests to the server.",
        "create": "Create a queue, a flavor or a cohort.",
        "get": "Show objects, as kubectl does.",
        "edit": "Edit an object, as kubectl does.",
        "patch": "Change fields of an object, as kubectl does.",
        "delete": "Delete objects, as kubectl does.",
        "crds": "Print the CustomResourceDefinitions of all kinds.",
    },
    "History": {
        "history": "Show which jobs ran, and what they used.",
        "usage": "Report what teams, queues or users used.",
        "export": "Export the history for cost tools.",
    },
    "Clusters": {
        "install": "Install the controller in a cluster.",
        "uninstall": "Remove the controller from a cluster.",
        "controller": "Run the controller on a cluster, in place of Kueue.",
        "import": "Charge pods that already run to quota.",
        "handover": "Hand a cluster back to Kueue.",
        "cluster": "Manage the worker clusters of a MultiKueue manager.",
    },
}
_COMMANDS = {name: words for section in _SECTIONS.values() for name, words in section.items()}
_SYNONYMS = {
    "cancel": "delete",
    "explain": "describe",
    "jobs": "list",
    "kill": "delete",
    "log": "logs",
    "gpu": "gpus",
    "nvidia-smi": "gpus",
    "ls": "list",
    "ps": "list",
    "rm": "delete",
    "ui": "dashboard",
    "kueueviz": "dashboard",
    "sacct": "history",
    "sbatch": "run",
    "scancel": "delete",
    "sinfo": "watch",
    "squeue": "list",
    "srun": "run",
    "sreport": "usage",
    "start": "up",
    "submit": "run",
    "top": "watch",
    "why": "describe",
}
"""Names that other programs use for our commands."""
_PLACES = {
    "backup": "machine:backup",
    "down": "machine:down",
    "import": "import_pods:command",
    "list": "listing:command",
    "restore": "machine:restore",
    "resume": "stop:resume",
    "status": "machine:status",
}
"""Commands that are not `command` in the module of their name."""
_INTERRUPTED = 130
"""The exit status after Ctrl-C, as that of shells."""
_KUBECTL = ("delete", "edit", "get", "patch")
"""Commands that are passed to kubectl."""
_ONLY_KUBECTL = (
    *("annotate", "api-resources", "attach", "auth", "config", "cp", "diff", "events", "exec"),
    *("label", "port-forward", "replace", "rollout", "scale", "taint", "wait"),
)
"""Commands that only kubectl has."""
_OPTIONS_OF_COMMANDS = ("-n", "--namespace", "--kubeconfig", "--context", "-A", "-o", "--output")
"""Options that kubectl also accepts before the command."""


class _Lazy(click.Group):
    """A group that lists its commands from a table, and imports only the command that runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        if cmd_name in _KUBECTL:
            from .kubectl import PassThrough

            return PassThrough(cmd_name)
        module, _, name = _PLACES.get(cmd_name, f"{cmd_name}:command").partition(":")
        command = getattr(import_module(f"kuota.cli.{module}"), name)
        assert isinstance(command, click.Command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name not in _OPTIONS_OF_COMMANDS:
                raise
            raise click.UsageError(
                f"{error.option_name} belongs after the command, as in `kuota list -n NAME`", ctx
            ) from None

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("\nInterrupted.", err=True)
            ctx.exit(_INTERRUPTED)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _COMMANDS))
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), commands[name]) for name in commands])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and name not in _COMMANDS and not name.startswith("-"):
            ctx.fail(f"No such command '{name}'; {_meant(name)}")
        return super().resolve_command(ctx, args)


def _meant(name: str) -> str:
    """Return a hint for somebody who used a command that does not exist."""
    import difflib

    if name in _ONLY_KUBECTL:
        return f'use kubectl: eval "$(kuota status -o env)"; kubectl {name} …'
    meant = _SYNONYMS.get(name)
    close = [meant] if meant else difflib.get_close_matches(name, _COMMANDS, n=1)
    return f"did you mean {close[0]}?" if close else f"there are: {', '.join(_COMMANDS)}"


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kuota")
def main() -> None:
    """Share scarce hardware among teams, with Kueue's objects and Kueue's decisions."""
    filter_output()


if __name__ == "__main__":
    main()
