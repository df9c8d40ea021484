# SPDX-License-Identifier: Apache-2.0
"""`kuota create`: queues, flavors and cohorts from flags, as kueuectl has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kuota.api.base import Json, Key
from kuota.api.faults import FieldError
from kuota.api.gates import resolved
from kuota.api.rules import faults, unknown_faults
from kuota.kube.errors import NotFound
from kuota.kube.resources import CLUSTER_QUEUES

from . import output as printed
from . import quotas, room
from .connect import FAILED, Choice, Failed, conduct, server_options
from .groups import KindGroup
from .kinds import NAMES
from .output import name_text, tidied

if TYPE_CHECKING:
    from .session import Session

_QUOTA = "FLAVOR:RESOURCE=AMOUNT[;RESOURCE=AMOUNT][,FLAVOR:…]"
_POLICIES = ["Never", "LowerPriority", "LowerOrNewerEqualPriority"]
_RECLAIM = ["Never", "LowerPriority", "Any"]


def _write_options(function: Any) -> Any:
    """What all of them take."""
    function = click.option(
        "--dry-run",
        type=click.Choice(["none", "client", "server"]),
        default="none",
        help="client: only print it. server: let the server check it, and store nothing.",
    )(function)
    return click.option(
        "-o", "--output", type=click.Choice(["text", "json", "yaml", "name"]), default="text"
    )(function)


def _quota_options(function: Any) -> Any:
    for name, words in (
        ("--lending-limit", "The most that others may use of it."),
        ("--borrowing-limit", "The most that it may use of others."),
        ("--nominal-quota", "What it owns."),
    ):
        function = click.option(name, multiple=True, metavar=_QUOTA, help=words)(function)
    return function


@click.group("create", cls=KindGroup)
def command() -> None:
    """Create a ClusterQueue, LocalQueue, ResourceFlavor or Cohort."""


@command.command("clusterqueue")
@click.argument("name")
@click.option("--cohort", default="", metavar="NAME", help="With whom it shares quota.")
@click.option("--queuing-strategy", type=click.Choice(["StrictFIFO", "BestEffortFIFO"]))
@click.option(
    "--namespace-selector",
    default="",
    metavar="KEY=VALUE[,KEY=VALUE]",
    help="Whose LocalQueues may use it; all without.",
)
@click.option("--reclaim-within-cohort", type=click.Choice(_RECLAIM))
@click.option("--preemption-within-cluster-queue", "within", type=click.Choice(_POLICIES))
@_quota_options
@_write_options
@server_options
def cluster_queue(
    name: str,
    cohort: str,
    queuing_strategy: str | None,
    namespace_selector: str,
    reclaim_within_cohort: str | None,
    within: str | None,
    nominal_quota: tuple[str, ...],
    borrowing_limit: tuple[str, ...],
    lending_limit: tuple[str, ...],
    dry_run: str,
    output: str,
    choice: Choice,
) -> None:
    """Create a ClusterQueue.

    \b
    Example:
      kuota create clusterqueue team-a --cohort lab \\
        --nominal-quota "gpus:cpu=64;nvidia.com/gpu=8" --borrowing-limit "gpus:nvidia.com/gpu=4"
    """
    labels = _pairs(namespace_selector, "--namespace-selector")
    preemption = {"reclaimWithinCohort": reclaim_within_cohort, "withinClusterQueue": within}
    spec: Json = {
        "cohortName": cohort or None,
        "queueingStrategy": queuing_strategy,
        "namespaceSelector": {"matchLabels": labels} if labels else {},
        "preemption": _stated(preemption) or None,
        "resourceGroups": quotas.groups(nominal_quota, borrowing_limit, lending_limit) or None,
    }
    _create("ClusterQueue", {"name": name}, {"spec": _stated(spec)}, dry_run, output, choice)


@command.command("cohort")
@click.argument("name")
@click.option("--parent", default="", metavar="NAME", help="The cohort that it is part of.")
@_quota_options
@_write_options
@server_options
def cohort(
    name: str,
    parent: str,
    nominal_quota: tuple[str, ...],
    borrowing_limit: tuple[str, ...],
    lending_limit: tuple[str, ...],
    dry_run: str,
    output: str,
    choice: Choice,
) -> None:
    """Create a Cohort, with quota of its own if you like."""
    groups = quotas.groups(nominal_quota, borrowing_limit, lending_limit)
    spec = _stated({"parentName": parent or None, "resourceGroups": groups or None})
    _create("Cohort", {"name": name}, {"spec": spec}, dry_run, output, choice)


@command.command("localqueue")
@click.argument("name")
@click.option("-c", "--clusterqueue", required=True, metavar="NAME", help="Where its quota is.")
@click.option(
    "-i", "--ignore-unknown-cq", "lenient", is_flag=True, help="Even if that is not there yet."
)
@_write_options
@server_options
def local_queue(
    name: str, clusterqueue: str, lenient: bool, dry_run: str, output: str, choice: Choice
) -> None:
    """Create a LocalQueue in a namespace."""
    needed = "" if lenient else clusterqueue
    fields = {"spec": {"clusterQueue": clusterqueue}}
    _create("LocalQueue", {"name": name}, fields, dry_run, output, choice, needed)


@command.command("resourceflavor")
@click.argument("name")
@click.option("--node-labels", default="", metavar="KEY=VALUE[,…]", help="Of its nodes.")
@click.option("--node-taints", default="", metavar="KEY[=VALUE]:EFFECT[,…]", help="Of its nodes.")
@click.option(
    "--tolerations",
    default="",
    metavar="KEY[=VALUE][:EFFECT][,…]",
    help="Given to the pods that use it.",
)
@_write_options
@server_options
def resource_flavor(
    name: str,
    node_labels: str,
    node_taints: str,
    tolerations: str,
    dry_run: str,
    output: str,
    choice: Choice,
) -> None:
    """Create a ResourceFlavor."""
    spec = {
        "nodeLabels": _pairs(node_labels, "--node-labels") or None,
        "nodeTaints": [quotas.taint(each) for each in _split(node_taints)] or None,
        "tolerations": [quotas.toleration(each) for each in _split(tolerations)] or None,
    }
    _create("ResourceFlavor", {"name": name}, {"spec": _stated(spec)}, dry_run, output, choice)


def _stated(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def _split(words: str) -> list[str]:
    return [each.strip() for each in words.split(",") if each.strip()]


def _pairs(words: str, option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for each in _split(words):
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"'{each}' is not KEY=VALUE", param_hint=option)
        pairs[key] = value
    return pairs


def _create(
    kind: str,
    metadata: Json,
    fields: Json,
    dry_run: str,
    output: str,
    choice: Choice,
    needed: str = "",
) -> None:
    """Check the object by the rules of `kuota check`, then create it; ends the command."""
    obj = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata} | fields
    namespace = choice.namespace or "default"
    faults = checked(obj | {"metadata": metadata | _placed(kind, namespace)})
    for each in faults:
        click.echo(f"{kind}/{metadata['name']} {each}", err=True)
    if faults:
        click.echo("nothing was created", err=True)
        raise click.exceptions.Exit(FAILED)
    if dry_run == "client":
        shown(kind, obj, "yaml" if output == "text" else output, "created (dry run)")
        return

    async def work(session: Session) -> int:
        placed = obj | {"metadata": metadata | _placed(kind, session.namespace)}
        try:
            made = await created(session, placed, needed, dry_run == "server")
        except LookupError as error:
            raise Failed(str(error.args[0])) from None
        shown(kind, made, output, "created (dry run)" if dry_run == "server" else "created")
        if kind in room.KINDS and dry_run != "server":
            await room.warn(session)
        return 0

    conduct(choice, work)


def _placed(kind: str, namespace: str) -> Json:
    return {"namespace": namespace} if kind == "LocalQueue" else {}


def checked(obj: Json) -> list[FieldError]:
    """Everything that is wrong with the object."""
    return [*faults(obj, None, resolved("", None)), *unknown_faults(obj)]


async def created(session: Session, obj: Json, needed: str, dry_run: bool) -> Json:
    """The object as stored. Raises LookupError if the ClusterQueue that it needs is not there."""
    if needed:
        try:
            await session.client.get(CLUSTER_QUEUES, Key("", needed))
        except NotFound:
            raise LookupError(
                f"there is no ClusterQueue {needed}; create it first, or give --ignore-unknown-cq"
            ) from None
    resource = NAMES[str(obj["kind"]).lower()]
    return await session.client.create(resource, obj, dry_run=dry_run, validation="Strict")


def shown(kind: str, obj: Json, output: str, word: str) -> None:
    resource = NAMES[kind.lower()]
    if output in printed.FORMATS:
        printed.show(tidied(obj), output)
    elif output == "name":
        click.echo(name_text(resource, obj))
    else:
        click.echo(f"{name_text(resource, obj)} {word}")
