# SPDX-License-Identifier: Apache-2.0
"""`kuota handover`: transfers the ownership of fields of Workloads from Kuota to Kueue.

Kueue may run at the same time: each write is conditional on the resource version. The command is
idempotent: it does not change a Workload that is already handed over.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import aclosing
from typing import TYPE_CHECKING, TextIO

import click
import msgspec

from kuota.api import faults
from kuota.api.base import Json, Key
from kuota.api.fieldsets import FieldSetError
from kuota.bridge.handover import KUOTA, handed_over, has_stale_admission, is_finished
from kuota.install.settings import NAMESPACE
from kuota.kube.client import Client
from kuota.kube.clock import SystemClock
from kuota.kube.errors import ApiError, Conflict, Gone, Invalid, NotFound, ServerError
from kuota.kube.lease import holder_named
from kuota.kube.requests import PAGE, Selection
from kuota.kube.resources import WORKLOADS, key_of

from . import output
from .connect import FAILED, Choice, Failed, conduct, rejection, server_options
from .output import FORMATS
from .progress import Progress

if TYPE_CHECKING:
    from kuota.api.config.shapes import Configuration

    from .session import Session

HANDED_OVER, FREED, UNCHANGED, FINISHED, FAULTY = (
    "handed over",
    "freed",
    "unchanged",
    "finished",
    "failed",
)
_TRIES = 8


@click.command("handover")
@click.option("--dry-run", is_flag=True, help="Validate on the server without changing anything.")
@click.option(
    "--force", is_flag=True, help="Do not check whether a Kuota controller is the leader."
)
@click.option("--config", type=click.File(), metavar="FILE", help="A configuration file of Kueue.")
@click.option(
    "-o", "--output", type=click.Choice(FORMATS), help="Print the result for each Workload."
)
@server_options
def command(
    dry_run: bool, force: bool, config: TextIO | None, output: str | None, choice: Choice
) -> None:
    """Transfer the ownership of all Workloads from Kuota to Kueue.

    Kueue can remove a field only if no other manager owns it, and Kuota's controller writes under
    its own name. This command makes Kueue the owner of every status field that Kuota owns. Jobs
    and finished Workloads are not changed. If Kueue has already released the quota of a Workload
    but could not remove its admission, the admission is removed; the Workload is "freed".

    Run it as soon as Kueue is the leader. The command is idempotent. It is rejected while a Kuota
    controller holds the Lease, by default in namespace kueue-system.

    \b
    Examples:
      kubectl -n kueue-system set image deployment/kueue-controller-manager manager=KUEUES_IMAGE
      kubectl -n kueue-system rollout status deployment/kueue-controller-manager
      kuota handover
    """
    lease = _lease(config, choice.namespace)

    async def work(session: Session) -> int:
        if session.embedded:
            raise Failed("this server is `kuota up`; there is no Kueue to hand over to")
        if not force:
            await alone(session.client, lease)
        return await HandingOver(session.client, dry_run=dry_run).run(output)

    conduct(choice, work)


def _lease(config: TextIO | None, namespace: str) -> Key | None:
    """Return the Lease of a controller with this configuration; None without leader election."""
    wanted = _configuration(config).leader_election
    if wanted is None or not wanted.leader_elect:
        return None
    return Key(wanted.resource_namespace or namespace or NAMESPACE, wanted.resource_name)


def _configuration(file: TextIO | None) -> Configuration:
    from kuota.api.config.defaults import defaulted
    from kuota.api.config.load import load
    from kuota.api.config.shapes import Configuration

    if file is None:
        return defaulted(Configuration())
    try:
        return load(file.read())
    except faults.Invalid as error:
        found = "\n".join(f"{file.name}: {each}" for each in error.errors)
        raise Failed(f"{found}\nNothing was handed over.") from None


class HandoverResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome for one Workload."""

    namespace: str
    name: str
    outcome: str
    error: str = ""


async def alone(client: Client, lease: Key | None) -> None:
    """Check that no Kuota controller is the leader. Raises Failed if one is."""
    if lease is None:
        click.echo(
            "Note: without leader election, a running Kuota controller cannot be detected.",
            err=True,
        )
        return
    progress = Progress()
    progress.show(f"checking whether a Kuota controller holds the Lease {lease}")
    try:
        holder = await holder_named(client, lease, KUOTA, SystemClock())
    finally:
        progress.clear()
    if holder:
        raise Failed(
            f"{holder}, a Kuota controller, holds the Lease {lease} and would write under its own "
            "name again.\nReplace it with Kueue first, or use --force."
        )


class HandingOver:
    """One run of `kuota handover`. An error in one Workload does not prevent the others."""

    def __init__(self, client: Client, *, dry_run: bool = False) -> None:
        self._client = client
        self._dry_run = dry_run
        self._outcomes: dict[Key, HandoverResult] = {}
        self._progress = Progress()

    async def run(self, form: str | None = None) -> int:
        """Hand over all Workloads, print the result, and return the exit status."""
        try:
            await self._all()
        except ServerError as error:
            raise Failed(
                f"{rejection(error)}\nHanded over so far: {self._counted()[HANDED_OVER]}. The "
                "webhooks must be served: wait for Kueue, and run the command again."
            ) from None
        finally:
            self._progress.clear()
        counts = self._counted()
        if form:
            output.show(list(self._outcomes.values()), form)
        else:
            click.echo(_summary(counts, self._dry_run))
        return FAILED if counts[FAULTY] else 0

    async def _all(self) -> None:
        try:
            await self._paged(PAGE)
        except Gone:
            # The continue token expired by compaction. A single request does not need one.
            await self._paged(None)

    async def _paged(self, limit: int | None) -> None:
        async with aclosing(self._client.pages(WORKLOADS, Selection(), limit=limit)) as pages:
            async for page in pages:
                await asyncio.gather(*map(self._settle, page.items))
                self._progress.show(f"{output.counted(len(self._outcomes), 'Workload')} examined")

    async def _settle(self, workload: Json) -> None:
        key = key_of(workload)
        error = ""
        try:
            outcome = await self._settled(workload)
        except NotFound:
            return
        except (Invalid, Conflict, FieldSetError) as fault:
            outcome, error = FAULTY, rejection(fault) if isinstance(fault, ApiError) else str(fault)
            click.echo(f"Error: workload {key}: {error}", err=True)
        if outcome != UNCHANGED or key not in self._outcomes:
            self._outcomes[key] = HandoverResult(key.namespace, key.name, outcome, error)

    async def _settled(self, workload: Json) -> str:
        """Hand over one Workload, and retry after conflicts. Raises Conflict after _TRIES."""
        for _ in range(_TRIES - 1):
            try:
                return await self._attempt(workload)
            except Conflict:
                workload = await self._client.get(WORKLOADS, key_of(workload))
        return await self._attempt(workload)

    async def _attempt(self, workload: Json) -> str:
        if is_finished(workload):
            return FINISHED
        managed = workload["metadata"].get("managedFields") or []
        owned = handed_over(managed)
        if owned != managed:
            workload = await self._patch(workload, {"metadata": {"managedFields": owned}})
        if has_stale_admission(workload):
            await self._patch(workload, {"status": {"admission": None}}, "status")
            return FREED
        return HANDED_OVER if owned != managed else UNCHANGED

    async def _patch(self, workload: Json, body: Json, subresource: str = "") -> Json:
        """Patch the Workload. Raises Conflict if it has changed since it was read."""
        version = {"resourceVersion": workload["metadata"]["resourceVersion"]}
        return await self._client.patch(
            WORKLOADS,
            key_of(workload),
            body | {"metadata": body.get("metadata", {}) | version},
            subresource=subresource,
            dry_run=self._dry_run,
        )

    def _counted(self) -> Counter[str]:
        return Counter(each.outcome for each in self._outcomes.values())


def _summary(counts: Counter[str], dry_run: bool) -> str:
    words = (HANDED_OVER, FREED, UNCHANGED, FINISHED, FAULTY)
    said = ", ".join(f"{counts[word]} {word}" for word in words if counts[word])
    found = f"{counts.total()} Workloads{': ' if said else ''}{said}"
    return f"{found} (dry run)" if dry_run else found
