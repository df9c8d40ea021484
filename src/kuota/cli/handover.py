# SPDX-License-Identifier: Apache-2.0
"""`kuota handover`: let Kueue own what Kuota wrote, so that it can go on in Kuota's place."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

import click

from .connect import Choice, Failed, conduct, server_options
from .output import FORMATS

if TYPE_CHECKING:
    from kuota.api.base import Key
    from kuota.api.config.shapes import Configuration

    from .session import Session


@click.command("handover")
@click.option("--dry-run", is_flag=True, help="Ask the server, and change nothing.")
@click.option("--force", is_flag=True, help="Also while a Kuota controller leads.")
@click.option("--config", type=click.File(), metavar="FILE", help="Kueue's configuration file.")
@click.option("-o", "--output", type=click.Choice(FORMATS), help="Say what became of each.")
@server_options
def command(
    dry_run: bool, force: bool, config: TextIO | None, output: str | None, choice: Choice
) -> None:
    """Hand the Workloads of all namespaces over to Kueue, which goes on in Kuota's place.

    Kueue takes a field away only where nobody else owns it, and Kuota's controller writes in its
    own name. This makes Kueue the owner of what Kuota owns in each status. No job is touched, and
    a Workload that has finished stays as it is. An admission that Kueue has given up already, and
    could not take away, is taken away: such a Workload is freed.

    Run it as soon as Kueue leads. May be repeated. That no Kuota controller leads is seen by the
    Lease, in namespace kueue-system unless -n or the configuration names another.

    \b
    Examples:
      kubectl -n kueue-system set image deployment/kueue-controller-manager manager=KUEUES_IMAGE
      kubectl -n kueue-system rollout status deployment/kueue-controller-manager
      kuota handover
    """
    lease = _lease(config, choice.namespace)

    async def work(session: Session) -> int:
        from .handing_over import HandingOver, alone

        if session.embedded:
            raise Failed("this server is Kuota's own: there is no Kueue to hand over to")
        if not force:
            await alone(session.client, lease)
        return await HandingOver(session.client, dry_run=dry_run).run(output)

    conduct(choice, work)


def _lease(config: TextIO | None, namespace: str) -> Key | None:
    """The Lease that a controller with this configuration holds; None where it needs none."""
    from kuota.api.base import Key
    from kuota.install.settings import NAMESPACE

    wanted = _configuration(config).leader_election
    if wanted is None or not wanted.leader_elect:
        return None
    return Key(wanted.resource_namespace or namespace or NAMESPACE, wanted.resource_name)


def _configuration(file: TextIO | None) -> Configuration:
    from kuota.api.config.defaults import defaulted
    from kuota.api.config.load import load
    from kuota.api.config.shapes import Configuration
    from kuota.api.faults import Invalid

    if file is None:
        return defaulted(Configuration())
    try:
        return load(file.read())
    except Invalid as error:
        faults = "\n".join(f"{file.name}: {each}" for each in error.errors)
        raise Failed(f"{faults}\nNothing was handed over.") from None
