# SPDX-License-Identifier: Apache-2.0
"""`kuota apply`: make the server hold what manifests say.

Everything is checked first by the rules of `kuota check`; with any fault nothing is sent at all.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from .connect import FAILED, Choice, conduct, server_options
from .filenames import filename_option

if TYPE_CHECKING:
    from .manifests import Manifest
    from .session import Session

UNREADABLE = 2


@click.command("apply")
@filename_option(required=True)
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml", "name"]), default="text")
@click.option("--dry-run", is_flag=True, help="Let the server check everything, and store nothing.")
@click.option(
    "--force-conflicts",
    is_flag=True,
    help="Take over fields that others manage, where they differ.",
)
@server_options
def command(
    filenames: tuple[str, ...], output: str, dry_run: bool, force_conflicts: bool, choice: Choice
) -> None:
    """Create or change objects so that they are as the manifests say (server-side apply).

    \b
    Examples:
      kuota apply -f examples/three-teams
      cat job.yaml | kuota apply -f -
    """
    manifests = _checked(filenames)

    async def work(session: Session) -> int:
        from .applying import Applying

        applying = Applying(session, dry_run=dry_run, force=force_conflicts)
        return await applying.run(manifests, output, bool(choice.namespace))

    conduct(choice, work)


def _checked(paths: tuple[str, ...]) -> list[Manifest]:
    """The objects to apply; ends the command when any has a fault."""
    from kuota.api.gates import resolved

    from .findings import Severity, inspected
    from .manifests import load

    manifests = load(paths)
    verdict = inspected(manifests, resolved("", None))
    faults = [each for each in verdict.findings if each.severity is Severity.ERROR]
    for each in faults:
        click.echo(str(each), err=True)
    wrong = [each for each in manifests if _is_configuration(each) and not each.found]
    for manifest in wrong:
        click.echo(
            f"{manifest.source}: Configuration is what the controller is started with, and no "
            "object of a server. Fix: give it to `kuota up --config FILE`.",
            err=True,
        )
    count = len(faults) + len(wrong)
    if count:
        click.echo(f"{count} fault{'' if count == 1 else 's'}: nothing was applied", err=True)
        sys.exit(UNREADABLE if verdict.unreadable else FAILED)
    kept = [each for each in manifests if each.object.get("kind") and not _is_configuration(each)]
    if not kept:
        raise click.UsageError("nothing to apply: the input holds no objects")
    return kept


def _is_configuration(manifest: Manifest) -> bool:
    return str(manifest.object.get("apiVersion", "")).startswith("config.kueue.x-k8s.io/")
