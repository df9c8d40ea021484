# SPDX-License-Identifier: Apache-2.0
"""`kuota import`: adopts pods that run already, so that their quota is charged.

All pods are checked before the first write. Each step is idempotent, so an import that was
interrupted can be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
import msgspec
import yaml

from kuota.api import faults, kueue, names
from kuota.api.base import Json, Key
from kuota.api.core import PriorityClass, is_terminated
from kuota.bridge.inbound_workload import AccountingContext
from kuota.bridge.job_pass.workload import PriorityClasses
from kuota.bridge.pod_import import (
    ImportContext,
    ImportFault,
    ImportRule,
    PodImport,
    imported,
    parsed_rules,
)
from kuota.kube import resources as kinds
from kuota.kube.client import Client
from kuota.kube.clock import SystemClock
from kuota.kube.errors import AlreadyExists, ApiError
from kuota.kube.resources import key_of

from . import output
from .connect import FAILED, PATH, Choice, conduct, rejection, server_options
from .output import FORMATS
from .progress import Progress

if TYPE_CHECKING:
    from .session import Session

READY, IMPORTED, SKIPPED, FAULTY = "ready", "imported", "skipped", "failed"
_WORKERS = 8


@click.command("import")
@click.option("--queuelabel", metavar="KEY", help="The label of pods that determines their queue.")
@click.option(
    "--queuemapping", metavar="VALUE=QUEUE,...", help="LocalQueues by the value of --queuelabel."
)
@click.option("--queuemapping-file", type=PATH, metavar="FILE", help="Rules, as YAML.")
@click.option("--add-labels", default="", metavar="KEY=VALUE,...", help="More labels for pods.")
@click.option(
    "--exclude-resource-prefixes", default="", metavar="PREFIX,...", help="Ignore these resources."
)
@click.option(
    "--dry-run", type=bool, default=True, show_default=True, help="Check without writing."
)
@click.option("-o", "--output", type=click.Choice(FORMATS), help="Print the result for each pod.")
@server_options
def command(
    queuelabel: str | None,
    queuemapping: str | None,
    queuemapping_file: str | None,
    add_labels: str,
    exclude_resource_prefixes: str,
    dry_run: bool,
    output: str | None,
    choice: Choice,
) -> None:
    """Adopt running pods, as Kueue's importer does.

    Every pod of the namespaces (-n A,B) gets the queue name that the mapping determines, and a
    Workload that is admitted to the first flavor of its ClusterQueue, whether or not that has free
    quota. Pods that have ended are ignored. Nothing is written before all pods pass the checks, and
    only with --dry-run=false.

    \b
    Examples:
      kuota import -n team --queuelabel team --queuemapping vision=main,audio=main
      kuota import -n team --queuemapping-file rules.yaml --dry-run=false

    docs/cluster.md describes the file of rules.
    """
    namespaces = [each for each in choice.namespace.split(",") if each]
    if not namespaces:
        raise click.UsageError("name the namespaces of the pods: -n NAMESPACE,...")
    rules = _rules(queuelabel, queuemapping, queuemapping_file)
    labels = _labels(add_labels)
    excluded = tuple(each for each in exclude_resource_prefixes.split(",") if each)

    async def work(session: Session) -> int:
        accounting = AccountingContext(excluded_prefixes=excluded)
        context = await _context(session.client, namespaces, rules, labels, accounting)
        run = PodsImport(session.client, context, dry_run=dry_run)
        return await run.all_of(namespaces, output)

    conduct(Choice(choice.kubeconfig, choice.context, namespaces[0]), work)


def _rules(label: str | None, mapping: str | None, file: str | None) -> list[ImportRule]:
    if (label is None) != (mapping is None) or (label is None) == (file is None):
        raise click.UsageError("use --queuelabel and --queuemapping, or --queuemapping-file")
    if file is None:
        pairs = _pairs(mapping or "", "--queuemapping")
        return [
            ImportRule(labels={label or "": value}, local_queue=to) for value, to in pairs.items()
        ]
    try:
        with click.open_file(file, encoding="utf-8") as opened:
            return parsed_rules(yaml.safe_load(opened))
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file}: cannot be parsed: {error}") from None
    except faults.Invalid as error:
        found = "\n".join(f"{file}: {each}" for each in error.errors)
        raise click.ClickException(found) from None


def _pairs(given: str, option: str) -> dict[str, str]:
    pairs = [each.partition("=") for each in given.split(",") if each]
    if not all(key and equals and value for key, equals, value in pairs):
        raise click.BadParameter("must be a list of KEY=VALUE", param_hint=option)
    return {key: value for key, _, value in pairs}


def _labels(given: str) -> dict[str, str]:
    pairs = _pairs(given, "--add-labels")
    wrong = [
        f"{key}={value}: {message}"
        for key, value in pairs.items()
        for message in (*names.qualified_name(key), *names.label_value(value))
    ]
    if wrong:
        raise click.BadParameter("; ".join(wrong), param_hint="--add-labels")
    return pairs


async def _context(
    client: Client,
    namespaces: Iterable[str],
    rules: list[ImportRule],
    labels: Mapping[str, str],
    accounting: AccountingContext,
) -> ImportContext:
    """Read the objects that an import depends on."""
    local = [
        each for name in namespaces for each in (await client.list(kinds.LOCAL_QUEUES, name)).items
    ]
    queues = (await client.list(kinds.CLUSTER_QUEUES)).items
    flavors = (await client.list(kinds.RESOURCE_FLAVORS)).items
    pods = (await client.list(kinds.PRIORITY_CLASSES)).items
    workloads = (await client.list(kinds.WORKLOAD_PRIORITY_CLASSES)).items
    return ImportContext(
        rules=rules,
        local_queues={key_of(each): each for each in local},
        cluster_queues=_decoded(queues, kueue.ClusterQueue),
        flavors=frozenset(key_of(each).name for each in flavors),
        classes=PriorityClasses(
            pods=_decoded(pods, PriorityClass),
            workloads=_decoded(workloads, kueue.WorkloadPriorityClass),
        ),
        labels=labels,
        accounting=accounting,
    )


def _decoded(objects: Iterable[Json], type_: Any) -> dict[str, Any]:
    return {key_of(each).name: msgspec.convert(each, type_) for each in objects}


class ImportResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome for one pod."""

    namespace: str
    name: str
    outcome: str
    queue: str = ""
    error: str = ""


class PodsImport:
    """One run of `kuota import`."""

    def __init__(self, client: Client, context: ImportContext, *, dry_run: bool) -> None:
        self._client = client
        self._context = context
        self._dry_run = dry_run
        self._outcomes: list[ImportResult] = []
        self._progress = Progress()
        self._clock = SystemClock()

    async def all_of(self, namespaces: Iterable[str], form: str | None) -> int:
        """Check all pods, import them, print the result, and return the exit status."""
        try:
            planned = [found for name in namespaces for found in await self._checked(name)]
            failed = any(each.outcome == FAULTY for each in self._outcomes)
            if not failed and not self._dry_run:
                await self._write(planned)
        finally:
            self._progress.clear()
        return self._report(form)

    async def _checked(self, namespace: str) -> list[tuple[Key, PodImport]]:
        """Check the pods of a namespace, and return what is written for them."""
        self._progress.show(f"checking the pods of namespace {namespace}")
        found = []
        for pod in (await self._client.list(kinds.PODS, namespace)).items:
            if is_terminated(pod):
                continue
            key = key_of(pod)
            try:
                plan = imported(pod, self._context, self._clock.now().timestamp())
            except ImportFault as fault:
                self._note(key, FAULTY, error=str(fault))
                continue
            queue = plan.workload["spec"]["queueName"] if plan is not None else ""
            self._note(key, READY if plan is not None else SKIPPED, queue)
            if plan is not None:
                found.append((key, plan))
        return found

    async def _write(self, planned: list[tuple[Key, PodImport]]) -> None:
        workers = asyncio.Semaphore(_WORKERS)

        async def one(key: Key, plan: PodImport) -> None:
            queue = plan.workload["spec"]["queueName"]
            async with workers:
                try:
                    await self._import(key, plan)
                    self._note(key, IMPORTED, queue)
                except ApiError as error:
                    self._note(key, FAULTY, queue, rejection(error))
            self._progress.show(f"importing {output.counted(len(planned), 'pod')}")

        self._outcomes = [each for each in self._outcomes if each.outcome == SKIPPED]
        await asyncio.gather(*(one(*each) for each in planned))

    async def _import(self, key: Key, plan: PodImport) -> None:
        await self._client.patch(kinds.PODS, key, {"metadata": {"labels": dict(plan.labels)}})
        with suppress(AlreadyExists):
            await self._client.create(kinds.WORKLOADS, plan.workload)
        name = Key(key.namespace, plan.workload["metadata"]["name"])
        stored = await self._client.get(kinds.WORKLOADS, name)
        if not (stored.get("status") or {}).get("admission"):
            status: Json = {"status": plan.status}
            await self._client.patch(kinds.WORKLOADS, name, status, subresource="status")

    def _note(self, key: Key, outcome: str, queue: str = "", error: str = "") -> None:
        self._outcomes.append(ImportResult(key.namespace, key.name, outcome, queue, error))
        if error:
            click.echo(f"Error: pod {key}: {error}", err=True)

    def _report(self, form: str | None) -> int:
        found = sorted(self._outcomes, key=lambda each: (each.namespace, each.name))
        counts = dict.fromkeys((READY, IMPORTED, SKIPPED, FAULTY), 0)
        for each in found:
            counts[each.outcome] += 1
        if form:
            output.show(found, form)
        else:
            words = ", ".join(f"{number} {word}" for word, number in counts.items() if number)
            click.echo(f"{output.counted(len(found), 'pod')}{': ' if words else ''}{words}")
        if counts[FAULTY]:
            if not counts[IMPORTED]:
                click.echo("Nothing was written.", err=True)
            return FAILED
        if self._dry_run and counts[READY]:
            click.echo("This was a check; add --dry-run=false to import the pods.", err=True)
        return 0
