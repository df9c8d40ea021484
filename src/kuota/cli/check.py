# SPDX-License-Identifier: Apache-2.0
"""`kuota check`: validates manifests without a cluster.

Exit status: 0 if there are no faults (warnings are allowed), 1 if there are faults, 2 for wrong
usage or a file that cannot be read.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from . import output as printed
from .connect import PATH, filename_option
from .output import counted

if TYPE_CHECKING:
    from .findings import CheckResult

FAULTY = 1
UNREADABLE = 2


@click.command("check")
@click.argument("files", nargs=-1, type=PATH)
@filename_option()
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text")
@click.option(
    "--feature-gates", default="", metavar="NAME=BOOL,…", help="Feature gates, as for Kueue."
)
@click.option(
    "--for",
    "target",
    type=click.Choice(["up", "cluster"]),
    help="Where the manifests will be applied: to `kuota up`, which pulls no images, or to a "
    "cluster. The default is up if it runs on this machine.",
)
def command(
    files: tuple[str, ...],
    filenames: tuple[str, ...],
    output: str,
    feature_gates: str,
    target: str | None,
) -> None:
    """Validate manifests: syntax, fields, values, references, and objects without effect.

    Reads YAML and JSON, in either API version, and asks no cluster. Knows Kueue's kinds, and those
    that `kuota up` serves: Job, CronJob, Pod, ConfigMap, Node, JobSet, PyTorchJob and others. Of
    other kinds only the syntax is checked.

    \b
    Examples:
      kuota check -f queues.yaml
      kuota check -f manifests/ -f job.yaml
      kubectl get clusterqueues -o yaml | kuota check -f -
    """
    # Imported here so that `kuota --help` starts quickly.
    from kuota.api.faults import Invalid
    from kuota.api.gates import resolved

    from .findings import inspected
    from .manifests import load
    from .plugins import load_plugins

    load_plugins()
    paths = (*filenames, *files)
    if not paths:
        raise click.UsageError(
            "nothing to check: give a file with -f FILE, or - for standard input"
        )
    try:
        gates = resolved(feature_gates, None)
    except Invalid as error:
        raise click.BadParameter(str(error), param_hint="--feature-gates") from None
    verdict = inspected(load(paths), gates, pulls_images=(target or _target()) == "cluster")
    show(verdict, output)
    sys.exit(_status(verdict))


def _target() -> str:
    """Return the server to which commands such as `kuota apply` would send the manifests."""
    from kuota.up.state_dir import default_state_dir

    elsewhere = os.environ.get("KUBECONFIG")
    state_dir = default_state_dir()
    if elsewhere and elsewhere != str(state_dir.kubeconfig):
        return "cluster"
    return "up" if state_dir.running() is not None else "cluster"


def _status(verdict: CheckResult) -> int:
    if verdict.unreadable:
        return UNREADABLE
    return FAULTY if verdict.faults else 0


def show(verdict: CheckResult, output: str) -> None:
    """Print the result as "text", "json" or "yaml"."""
    if output == "text":
        for finding in verdict.findings:
            click.echo(str(finding))
        click.echo(_summary(verdict))
        return
    document = {
        "objects": verdict.objects,
        "skipped": verdict.skipped,
        "faults": verdict.faults,
        "warnings": verdict.warnings,
        "findings": verdict.findings,
    }
    printed.show(document, output)


def _summary(verdict: CheckResult) -> str:
    if not verdict.objects and not verdict.findings and not verdict.skipped:
        return "nothing to check: the input contains no objects"
    parts = [
        counted(verdict.objects, "object"),
        counted(verdict.faults, "fault"),
        counted(verdict.warnings, "warning"),
    ]
    if verdict.skipped:
        parts.append(f"{counted(verdict.skipped, 'other object')} skipped")
    return ", ".join(parts)
