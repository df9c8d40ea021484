# SPDX-License-Identifier: Apache-2.0
"""`kuota delete`: objects by kind and name, by label, or those of manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .connect import Choice, conduct, server_options
from .filenames import filename_option

if TYPE_CHECKING:
    from .session import Session


@click.command("delete")
@click.argument("what", nargs=-1, metavar="[KIND NAME... | KIND/NAME...]")
@filename_option("Delete the objects that these manifests describe.")
@click.option("-l", "--selector", default="", metavar="LABELS", help="All with these labels.")
@click.option("--all", "everything", is_flag=True, help="All of the kind in the namespace.")
@click.option(
    "--ignore-not-found", "lenient", is_flag=True, help="What is not there counts as deleted."
)
@click.option(
    "--cascade",
    type=click.Choice(["background", "foreground", "orphan"]),
    default="background",
    show_default=True,
    help="What becomes of the objects that belong to it, such as the pods of a Job.",
)
@click.option("--grace-period", "grace_s", type=click.IntRange(0), metavar="SECONDS")
@click.option("--wait/--no-wait", default=True, help="Return when they are gone, or at once.")
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(0), metavar="SECONDS", help="Wait no longer."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@server_options
def command(
    what: tuple[str, ...],
    filenames: tuple[str, ...],
    selector: str,
    everything: bool,
    cascade: str,
    wait: bool,
    dry_run: bool,
    choice: Choice,
    **how: Any,
) -> None:
    """Delete objects. A Job takes its pods with it.

    \b
    Examples:
      kuota delete job train
      kuota delete job/a job/b workload/c
      kuota delete -f examples/three-teams
    """
    if bool(what) == bool(filenames):
        raise click.UsageError("say what to delete: KIND NAME, KIND/NAME, or -f FILE")
    _check(what, selector, everything)

    async def work(session: Session) -> int:
        from .deleting import Deleting, described, selected

        deleting = Deleting(
            session,
            propagation=cascade.capitalize(),
            wait=wait and not dry_run,
            dry_run=dry_run,
            **how,
        )
        if filenames:
            return await deleting.run(await described(session, filenames))
        return await deleting.run(await selected(session, what, selector, everything))

    conduct(choice, work)


def _check(what: tuple[str, ...], selector: str, everything: bool) -> None:
    """Nothing may be deleted that was not asked for in so many words."""
    by_name = len(what) > 1 or any("/" in word for word in what)
    if what and not by_name and not selector and not everything:
        raise click.UsageError(f"which {what[0]}? Give names, -l LABELS, or --all")
    if by_name and (selector or everything):
        raise click.UsageError("give either names, or -l LABELS or --all")
    if not what and (selector or everything):
        raise click.UsageError("-l and --all need a kind")
