# SPDX-License-Identifier: Apache-2.0
"""One run of `kuota install`: definitions, then the controller, and last what depends on it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import aclosing

import click

from kuota.api.base import Json, Key
from kuota.install.kinds import DEPLOYMENTS, resource_of
from kuota.install.objects import definitions, hooks, parts
from kuota.install.settings import CONTROLLER, SELECTED, Settings
from kuota.kube.errors import ApiError, Gone, NotFound
from kuota.kube.requests import Patch, WriteOptions, patching
from kuota.kube.resources import PODS, key_of

from .applying import content
from .connect import FAILED, Failed, refusal
from .output import name_text
from .progress import Progress
from .session import Session

MANAGER = "kuota-install"
"""Field manager: what the controller writes into the same objects is not ours to undo."""


class Installing:
    """Applies everything. What one object is refused for does not hide what others are."""

    def __init__(self, session: Session, settings: Settings, *, force: bool) -> None:
        if session.embedded:
            raise Failed(
                "this server is Kuota's own, with everything inside: there is nothing to install. "
                "Name a cluster with --kubeconfig or --context."
            )
        self._session = session
        self._settings = settings
        self._options = WriteOptions(manager=MANAGER, force=force, validation="Strict")
        self._outcomes: Counter[str] = Counter()
        self._progress = Progress()

    async def run(self, timeout_s: float | None) -> int:
        """Install, and wait for the controller unless there is no timeout; the exit status."""
        try:
            return await self._run(timeout_s)
        finally:
            self._progress.clear()

    async def _run(self, timeout_s: float | None) -> int:
        settings = self._settings
        await self._apply([*definitions(settings), *parts(settings)])
        if self._outcomes["failed"]:
            click.echo("Webhooks were left as they were: they need all of the above.", err=True)
            return self._summed_up()
        if timeout_s is not None and not await self._there(timeout_s):
            click.echo(
                "Webhooks were left as they were: without the controller they would hold up "
                "everybody's jobs. Look at the pods, and install again.",
                err=True,
            )
            return FAILED
        await self._apply(hooks(settings))
        return self._summed_up()

    async def _apply(self, objects: Sequence[Json]) -> None:
        self._progress.show(f"applying {len(objects)} objects")
        for each in objects:
            name = name_text(resource_of(each), each)
            try:
                outcome = await self._applied(each)
            except ApiError as error:
                outcome = "failed"
                self._progress.clear()
                click.echo(f"Error: {name}: {_worded(error, each)}", err=True)
            self._outcomes[outcome] += 1
            if outcome in ("created", "configured"):
                self._progress.clear()
                click.echo(f"{name} {outcome}")
        self._progress.show("")

    async def _applied(self, obj: Json) -> str:
        resource, key = resource_of(obj), key_of(obj)
        try:
            before = await self._session.client.get(resource, key)
        except NotFound:
            before = None
        request = patching(resource, key, obj, Patch.APPLY, self._options)
        after, warnings = await self._session.answer(request)
        for each in warnings:
            click.echo(f"Warning: {name_text(resource, obj)}: {each}", err=True)
        if before is None:
            return "created"
        return "unchanged" if _said(after) == _said(before) else "configured"

    async def _there(self, timeout_s: float) -> bool:
        """Wait until every pod is of this installation and ready; False when it takes too long."""
        self._progress.show(f"waiting for {self._settings.replicas} pods of {CONTROLLER}")
        try:
            async with asyncio.timeout(timeout_s):
                await self._rolled_out()
        except TimeoutError:
            self._progress.clear()
            click.echo(f"Error: the controller is not there after {timeout_s:g} s", err=True)
            for each in await self._troubles():
                click.echo(f"  {each}", err=True)
            return False
        return True

    async def _rolled_out(self) -> None:
        client, key = self._session.client, Key(self._settings.namespace, CONTROLLER)
        only = f"metadata.name={key.name}"
        while True:
            listed = await client.list(DEPLOYMENTS, key.namespace, field_selector=only)
            if any(map(_complete, listed.items)):
                return
            changes = client.watch(
                DEPLOYMENTS, key.namespace, since=listed.revision, field_selector=only
            )
            try:
                async with aclosing(changes) as events:
                    async for event in events:
                        if event.type != "DELETED" and _complete(event.object):
                            return
            except Gone:
                continue

    async def _troubles(self) -> list[str]:
        """What the pods say about themselves."""
        selector = ",".join(f"{name}={value}" for name, value in SELECTED.items())
        listed = await self._session.client.list(
            PODS, self._settings.namespace, label_selector=selector
        )
        found = [each for pod in listed.items for each in _pod_troubles(pod)]
        return found or ["no pod has been made; does the cluster run its own controllers?"]

    def _summed_up(self) -> int:
        self._progress.clear()
        counted = self._outcomes
        words = [f"{counted[word]} {word}" for word in _OUTCOMES if counted[word]]
        click.echo(f"{sum(counted.values())} objects in all: {', '.join(words)}")
        return FAILED if counted["failed"] else 0


_OUTCOMES = ("created", "configured", "unchanged", "failed")


def _said(obj: Json) -> Json:
    """What people say in the object. Its status may change any time."""
    return {name: value for name, value in content(obj).items() if name != "status"}


def _worded(error: ApiError, obj: Json) -> str:
    if isinstance(error, NotFound) and obj["kind"] == "ServiceMonitor":
        return "the cluster has no such kind; install the Prometheus operator first"
    return refusal(error)


def _complete(deployment: Json) -> bool:
    """Whether the newest template is everywhere it should be, and answers."""
    wanted = int(deployment["spec"].get("replicas", 1))
    status = deployment.get("status") or {}
    seen = int(status.get("observedGeneration") or 0)
    counts = (int(status.get(name) or 0) for name in ("updatedReplicas", "availableReplicas"))
    return seen >= int(deployment["metadata"].get("generation") or 0) and min(counts) >= wanted


def _pod_troubles(pod: Json) -> Iterable[str]:
    status = pod.get("status") or {}
    name = pod["metadata"]["name"]
    for each in status.get("containerStatuses") or ():
        waiting = (each.get("state") or {}).get("waiting")
        if waiting:
            yield f"pod {name}: {waiting.get('reason', '')}: {waiting.get('message', '')}"
        elif not each.get("ready"):
            yield f"pod {name}: {each['name']} is not ready"
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            yield f"pod {name}: {condition.get('message', '')}"
