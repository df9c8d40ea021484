# SPDX-License-Identifier: Apache-2.0
"""`kuota uninstall`: removes the controller and, unless --keep-crds is set, all queues.

Webhooks are deleted first, so that the API server does not call a stopped controller. The
controller is deleted next, so that it does not react to later deletions. Users' objects follow,
with the finalizers that only a controller would remove. The definitions and the namespace are last.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from kuota.api.base import Json, Key
from kuota.api.crds import GROUP, KINDS, STORED
from kuota.install.deployment import namespace
from kuota.install.objects import DEPLOYMENTS, definitions, hooks, parts, resource_of
from kuota.install.settings import LABELS, NAMESPACE, SELECTED, Settings, everything
from kuota.kube.errors import ApiError, Conflict, NotFound, ServerError
from kuota.kube.resources import CRDS, JOBS, NAMESPACES, PODS, Resource, key_of

from .amounts import Number
from .connect import FAILED, Choice, Failed, conduct, rejection, server_options
from .output import counted, name_text
from .progress import Progress
from .session import until

if TYPE_CHECKING:
    from .session import Session

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_KUEUE_KINDS = tuple(
    Resource(GROUP, STORED, each.plural, each.name, namespaced=each.namespaced) for each in KINDS
)
_AT_ONCE = 16
_TRIES = 5
_PAUSE_S = 0.5


@click.command("uninstall")
@click.option(
    "--keep-crds",
    is_flag=True,
    help="Keep the definitions, the namespace, and all queues and workloads.",
)
@click.option("-y", "--yes", is_flag=True, help="Delete queues and workloads without asking.")
@click.option("--dry-run", is_flag=True, help="Print what would be deleted.")
@click.option(
    "--timeout",
    "timeout_s",
    type=Number(0, min_open=True),
    default=180.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for deletions.",
)
@server_options
def command(keep_crds: bool, yes: bool, dry_run: bool, timeout_s: float, choice: Choice) -> None:
    """Remove the controller and everything that was installed with it from a cluster.

    Webhooks are deleted first, so that they block no requests. Running Jobs continue; pending Jobs
    stay suspended. Without --keep-crds, all objects of Kueue's kinds are deleted too.

    \b
    Examples:
      kuota uninstall --dry-run
      kuota uninstall --keep-crds
    """

    async def work(session: Session) -> int:
        # These settings include no volume, so the records of the history stay.
        settings = everything(choice.namespace or NAMESPACE)
        uninstalling = Uninstalling(session, settings, keep=keep_crds, dry_run=dry_run)
        return await uninstalling.run(asked=yes, timeout_s=timeout_s)

    conduct(choice, work)


class ObjectToDelete(msgspec.Struct, frozen=True):
    """One object to delete."""

    resource: Resource
    key: Key

    def __str__(self) -> str:
        return name_text(self.resource, {"metadata": {"name": self.key.name}})


class Uninstalling:
    """One run of `kuota uninstall`. Objects that do not exist count as deleted."""

    def __init__(self, session: Session, settings: Settings, *, keep: bool, dry_run: bool) -> None:
        if session.embedded:
            raise Failed("this server is `kuota up`; `kuota down` stops it")
        self._session = session
        self._client = session.client
        self._settings = settings
        self._keep = keep
        self._dry_run = dry_run
        self._progress = Progress()
        self._failures = 0

    async def run(self, *, asked: bool, timeout_s: float) -> int:
        """Delete everything, wait until it is gone, and return the exit status."""
        try:
            return await self._run(asked, timeout_s)
        except TimeoutError:
            click.echo(
                f"Error: some objects still exist after {timeout_s:g} s; try again", err=True
            )
            return FAILED
        finally:
            self._progress.clear()

    async def _run(self, asked: bool, timeout_s: float) -> int:
        settings = self._settings
        installed = [*hooks(settings), *self._parts()]
        found = await self._present(installed)
        crds = [] if self._keep else await self._present(definitions(settings))
        owned = await self._users_objects(crds)
        if not found and not crds:
            click.echo(f"Kuota is not installed in namespace {settings.namespace}.")
            return 0
        if owned and not asked and not self._dry_run:
            _ask(owned)
        async with asyncio.timeout(timeout_s):
            await self._end(found)
            if not self._dry_run and not self._failures:
                # The ClusterRole aggregation controller may have recreated a deleted role.
                await self._end(await self._present(installed))
                await self._pods_gone()
            if crds and not self._failures:
                await self._end_definitions(crds)
            if not self._keep and not self._failures:
                await self._end_namespace()
        await self._tell_of_waiting_jobs()
        return FAILED if self._failures else 0

    def _parts(self) -> list[Json]:
        """Return all objects but the namespace: Deployments first, then aggregated roles."""
        own = namespace(self._settings)
        wanted = [each for each in reversed(parts(self._settings)) if each != own]
        wanted.sort(key=lambda each: "aggregationRule" not in each)
        wanted.sort(key=lambda each: each["kind"] != DEPLOYMENTS.kind)
        return wanted

    async def _present(self, objects: Sequence[Json]) -> list[tuple[ObjectToDelete, Json]]:
        """Return those of the objects that exist, with their current state, in the same order."""
        limit = asyncio.Semaphore(_AT_ONCE)

        async def live(obj: Json) -> tuple[ObjectToDelete, Json] | None:
            doomed = ObjectToDelete(resource_of(obj), key_of(obj))
            async with limit:
                try:
                    return doomed, await self._client.get(doomed.resource, doomed.key)
                except NotFound:
                    return None

        self._progress.show("looking for what is installed")
        found = await asyncio.gather(*map(live, objects))
        self._progress.show("")
        return [each for each in found if each is not None]

    async def _users_objects(
        self, crds: Sequence[tuple[ObjectToDelete, Json]]
    ) -> list[ObjectToDelete]:
        """Return the objects that are deleted together with the definitions."""
        served = {doomed.key.name for doomed, _ in crds}
        owned: list[ObjectToDelete] = []
        for resource in _KUEUE_KINDS:
            if resource.name in served:
                owned += [
                    ObjectToDelete(resource, key_of(each)) for each in await self._listed(resource)
                ]
        return owned

    async def _listed(self, resource: Resource) -> list[Json]:
        """List all objects of a kind. Retries server errors: the conversion webhook may be down."""
        for attempt in range(_TRIES):
            try:
                return (await self._client.list(resource)).items
            except NotFound:
                return []
            except ServerError:
                if attempt == _TRIES - 1:
                    raise
                await asyncio.sleep(_PAUSE_S)
        return []

    async def _end(self, found: Sequence[tuple[ObjectToDelete, Json]]) -> None:
        for doomed, live in found:
            await self._delete(doomed, live)
        if not self._dry_run:
            self._progress.show("waiting until all is gone")
            for doomed, live in found:
                await gone(self._session, doomed, str(live["metadata"].get("uid") or ""))
            self._progress.show("")

    async def _delete(self, doomed: ObjectToDelete, live: Json) -> None:
        uid = str(live["metadata"].get("uid") or "")
        try:
            await self._client.delete(
                doomed.resource,
                doomed.key,
                uid=uid,
                propagation="Background",
                dry_run=self._dry_run,
            )
        except NotFound:
            return
        except ApiError as error:
            self._failures += 1
            click.echo(f"Error: {doomed}: {rejection(error)}", err=True)
            return
        self._progress.clear()
        click.echo(f"{doomed} deleted{' (dry run)' if self._dry_run else ''}")

    async def _pods_gone(self) -> None:
        """Wait until the controller's pods are gone, so that it does not react to deletions."""
        selector = ",".join(f"{name}={value}" for name, value in SELECTED.items())
        listed = await self._client.list(PODS, self._settings.namespace, label_selector=selector)
        if listed.items:
            self._progress.show(f"waiting until {counted(len(listed.items), 'pod')} ended")
        for each in listed.items:
            await gone(self._session, ObjectToDelete(PODS, key_of(each)), each["metadata"]["uid"])
        self._progress.show("")

    async def _end_definitions(self, crds: Sequence[tuple[ObjectToDelete, Json]]) -> None:
        if not self._dry_run:
            for doomed, live in crds:
                await self._stop_converting(doomed, live)
            owned = await self._users_objects(crds)
            self._progress.show(f"deleting {_counted(owned)}" if owned else "")
            limit = asyncio.Semaphore(_AT_ONCE)
            await asyncio.gather(*(self._release(each, limit) for each in owned))
        await self._end(crds)

    async def _stop_converting(self, doomed: ObjectToDelete, live: Json) -> None:
        """Disable conversion: its webhook is gone, and deletion must not depend on it."""
        if live["spec"].get("conversion", {}).get("strategy") == "Webhook":
            without: Json = {"strategy": "None", "webhook": None}
            await self._client.patch(CRDS, doomed.key, {"spec": {"conversion": without}})

    async def _release(self, doomed: ObjectToDelete, limit: asyncio.Semaphore) -> None:
        """Delete the object and remove Kueue's finalizers, which no controller would remove."""
        async with limit:
            try:
                await self._delete_unheld(doomed)
            except NotFound:
                return
            except ApiError as error:
                self._failures += 1
                click.echo(f"Error: {doomed}: {rejection(error)}", err=True)

    async def _delete_unheld(self, doomed: ObjectToDelete) -> None:
        await self._client.delete(doomed.resource, doomed.key, propagation="Background")
        for attempt in range(_TRIES):
            live = await self._client.get(doomed.resource, doomed.key)
            held = live["metadata"].get("finalizers") or []
            others = [each for each in held if not each.startswith(f"{GROUP}/")]
            revision = live["metadata"]["resourceVersion"]
            body = {"metadata": {"finalizers": others or None, "resourceVersion": revision}}
            try:
                await self._client.patch(doomed.resource, doomed.key, body)
                return
            except Conflict:
                if attempt == _TRIES - 1:
                    raise

    async def _end_namespace(self) -> None:
        """Delete the namespace if an installation created it; others may use it otherwise."""
        found = await self._present([namespace(self._settings)])
        for doomed, live in found:
            labels = live["metadata"].get("labels") or {}
            if LABELS.items() <= labels.items():
                await self._end([(doomed, live)])
            else:
                click.echo(f"{NAMESPACES.plural[:-1]}/{doomed.key.name} was not made by an install")

    async def _tell_of_waiting_jobs(self) -> None:
        listed = await self._client.list(JOBS, label_selector=QUEUE_LABEL)
        waiting = [each for each in listed.items if each["spec"].get("suspend")]
        if waiting:
            click.echo(
                f"Note: {counted(len(waiting), 'Job')} with a queue name will stay suspended until "
                f"somebody resumes them: kubectl get jobs -A -l {QUEUE_LABEL}",
                err=True,
            )


def _ask(owned: Sequence[ObjectToDelete]) -> None:
    """Ask the user to confirm the deletion. Raises Failed or Abort otherwise."""
    loss = _counted(owned)
    if not sys.stdin.isatty():
        raise Failed(
            f"this would delete {loss}. Say --yes if that is meant, or --keep-crds to keep them."
        )
    click.confirm(f"This deletes {loss}. Go on?", abort=True)


def _counted(owned: Sequence[ObjectToDelete]) -> str:
    counts: dict[str, int] = {}
    for each in owned:
        counts[each.resource.kind] = counts.get(each.resource.kind, 0) + 1
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())


async def gone(session: Session, doomed: ObjectToDelete, uid: str) -> None:
    """Wait until the object with this UID no longer exists."""

    def done(obj: Json | None) -> bool:
        return obj is None or obj["metadata"].get("uid") != uid

    await until(session.client, doomed.resource, doomed.key, done)
