# SPDX-License-Identifier: Apache-2.0
"""`kuota create`: creates queues, flavors and cohorts from the flags of kueuectl."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from kuota.api.base import Json, Key
from kuota.api.gates import resolved
from kuota.api.kueue import V1BETA2
from kuota.api.quantity import QuantityError, parse
from kuota.api.rules import faults, unknown_faults
from kuota.kube.errors import NotFound
from kuota.kube.resources import CLUSTER_QUEUES, Resource

from . import kubectl, room
from . import output as printed
from .connect import FAILED, Choice, Failed, conduct, server_options
from .groups import KindGroup
from .kinds import NAMES
from .output import name_text, tidied

if TYPE_CHECKING:
    from .session import Session

_QUOTA = "FLAVOR:RESOURCE=AMOUNT[;RESOURCE=AMOUNT][,FLAVOR:…]"
_POLICIES = ["Never", "LowerPriority", "LowerOrNewerEqualPriority"]
_RECLAIM = ["Never", "LowerPriority", "Any"]
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
Amounts = dict[str, dict[str, str]]
"""Amounts by flavor and resource, in the order of the command line."""


class CreateOptions(msgspec.Struct, frozen=True):
    """Where and how an object is created."""

    dry_run: str
    output: str
    choice: Choice


def _write_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that all create commands share; the command gets them as one `target`."""

    @click.option(
        "-o", "--output", type=click.Choice(["text", "json", "yaml", "name"]), default="text"
    )
    @click.option(
        "--dry-run",
        type=click.Choice(["none", "client", "server"]),
        default="none",
        help="client: print the object. server: validate it without storing it.",
    )
    @server_options
    @functools.wraps(function)
    def wrapped(dry_run: str, output: str, choice: Choice, **own: Any) -> None:
        function(target=CreateOptions(dry_run, output, choice), **own)

    return wrapped


def _quota_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the options for quota; the command gets them as resource `groups`."""

    @functools.wraps(function)
    def wrapped(
        nominal_quota: tuple[str, ...],
        borrowing_limit: tuple[str, ...],
        lending_limit: tuple[str, ...],
        **own: Any,
    ) -> None:
        function(groups=_groups(nominal_quota, borrowing_limit, lending_limit), **own)

    made: Callable[..., None] = wrapped
    for name, words in (
        ("--lending-limit", "The most that others may use of it."),
        ("--borrowing-limit", "The most that it may use of others."),
        ("--nominal-quota", "What it owns."),
    ):
        made = click.option(name, multiple=True, metavar=_QUOTA, help=words)(made)
    return made


class _CreateGroup(KindGroup):
    """Creates queues, flavors and cohorts. kubectl creates everything else that it can."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing and kubectl.creates(args):
            kubectl.run("create", args)
        return super().parse_args(ctx, args)


@click.group("create", cls=_CreateGroup)
def command() -> None:
    """Create a ClusterQueue, LocalQueue, ResourceFlavor or Cohort.

    Files (-f) and other kinds, such as namespaces, are passed to `kubectl create`. Use it for
    manifests with a generateName, which cannot be applied.

    \b
    Examples:
      kuota create clusterqueue team-a --nominal-quota "gpus:nvidia.com/gpu=8"
      kuota create namespace vision
      kuota create -f job.yaml
    """


@command.command("clusterqueue")
@click.argument("name")
@click.option("--cohort", default="", metavar="NAME", help="The cohort to share quota with.")
@click.option("--queuing-strategy", type=click.Choice(["StrictFIFO", "BestEffortFIFO"]))
@click.option(
    "--namespace-selector",
    default="",
    metavar="KEY=VALUE[,KEY=VALUE]",
    help="Namespaces whose LocalQueues may use it; all by default.",
)
@click.option("--reclaim-within-cohort", type=click.Choice(_RECLAIM))
@click.option("--preemption-within-cluster-queue", "within", type=click.Choice(_POLICIES))
@_quota_options
@_write_options
def cluster_queue(
    name: str,
    cohort: str,
    queuing_strategy: str | None,
    namespace_selector: str,
    reclaim_within_cohort: str | None,
    within: str | None,
    groups: list[Json],
    target: CreateOptions,
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
        "resourceGroups": groups or None,
    }
    _create("ClusterQueue", name, _stated(spec), target)


@command.command("cohort")
@click.argument("name")
@click.option("--parent", default="", metavar="NAME", help="The parent cohort.")
@_quota_options
@_write_options
def cohort(name: str, parent: str, groups: list[Json], target: CreateOptions) -> None:
    """Create a Cohort, optionally with its own quota.

    \b
    Example:
      kuota create cohort lab --parent institute --nominal-quota "gpus:nvidia.com/gpu=4"
    """
    spec = _stated({"parentName": parent or None, "resourceGroups": groups or None})
    _create("Cohort", name, spec, target)


@command.command("localqueue")
@click.argument("name")
@click.option(
    "-c", "--clusterqueue", required=True, metavar="NAME", help="The ClusterQueue that it uses."
)
@click.option(
    "-i",
    "--ignore-unknown-cq",
    "lenient",
    is_flag=True,
    help="Create it even if the ClusterQueue does not exist.",
)
@_write_options
def local_queue(name: str, clusterqueue: str, lenient: bool, target: CreateOptions) -> None:
    """Create a LocalQueue in a namespace.

    \b
    Example:
      kuota create localqueue gpu -n vision -c team-a
    """
    needed = "" if lenient else clusterqueue
    _create("LocalQueue", name, {"clusterQueue": clusterqueue}, target, needed)


@command.command("resourceflavor")
@click.argument("name")
@click.option("--node-labels", default="", metavar="KEY=VALUE[,…]", help="The labels of its nodes.")
@click.option(
    "--node-taints", default="", metavar="KEY[=VALUE]:EFFECT[,…]", help="The taints of its nodes."
)
@click.option(
    "--tolerations",
    default="",
    metavar="KEY[=VALUE][:EFFECT][,…]",
    help="Tolerations that are added to its pods.",
)
@_write_options
def resource_flavor(
    name: str, node_labels: str, node_taints: str, tolerations: str, target: CreateOptions
) -> None:
    """Create a ResourceFlavor.

    \b
    Examples:
      kuota create resourceflavor gpus
      kuota create resourceflavor a100 --node-labels gpu=a100 --node-taints gpu=true:NoSchedule
    """
    spec = {
        "nodeLabels": _pairs(node_labels, "--node-labels") or None,
        "nodeTaints": [_taint(each) for each in _split(node_taints)] or None,
        "tolerations": [_toleration(each) for each in _split(tolerations)] or None,
    }
    _create("ResourceFlavor", name, _stated(spec), target)


def _stated(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def _split(words: str, separator: str = ",") -> list[str]:
    return [each.strip() for each in words.split(separator) if each.strip()]


def _pairs(words: str, option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for each in _split(words):
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"'{each}' is not KEY=VALUE", param_hint=option)
        pairs[key] = value
    return pairs


def _create(kind: str, name: str, spec: Json, target: CreateOptions, needed: str = "") -> None:
    """Check the object by the rules of `kuota check`, create it, and exit the process.

    `needed` names a ClusterQueue that must exist.
    """
    resource, dry_run = NAMES[kind.lower()], target.dry_run == "server"

    def placed(namespace: str) -> Json:
        metadata = {"name": name} | ({"namespace": namespace} if resource.namespaced else {})
        return {"apiVersion": V1BETA2, "kind": kind, "metadata": metadata, "spec": spec}

    local = placed(target.choice.namespace or "default")
    wrong = [*faults(local, None, resolved("", None)), *unknown_faults(local)]
    for each in wrong:
        click.echo(f"{kind}/{name} {each}", err=True)
    if wrong:
        click.echo("nothing was created", err=True)
        raise click.exceptions.Exit(FAILED)
    if target.dry_run == "client":
        local["metadata"] = {"name": name}
        _show(resource, local, "yaml" if target.output == "text" else target.output, "")
        return

    async def work(session: Session) -> None:
        if needed:
            await _check_cluster_queue(session, needed)
        obj = placed(session.namespace)
        made = await session.client.create(resource, obj, dry_run=dry_run, validation="Strict")
        _show(resource, made, target.output, f"created{' (dry run)' if dry_run else ''}")
        if kind in room.KINDS and not dry_run:
            await room.warn(session)

    conduct(target.choice, work)


async def _check_cluster_queue(session: Session, name: str) -> None:
    """Raises Failed if the ClusterQueue does not exist."""
    try:
        await session.client.get(CLUSTER_QUEUES, Key("", name))
    except NotFound:
        raise Failed(
            f"there is no ClusterQueue {name}; create it first, or give --ignore-unknown-cq"
        ) from None


def _show(resource: Resource, obj: Json, output: str, word: str) -> None:
    if output in printed.FORMATS:
        printed.show(tidied(obj), output)
    else:
        name = name_text(resource, obj)
        click.echo(name if output == "name" else f"{name} {word}")


def _groups(nominal: Sequence[str], borrowing: Sequence[str], lending: Sequence[str]) -> list[Json]:
    """Return the resource groups. Flavors with the same resources form one group."""
    own = _amounts(nominal, "--nominal-quota")
    limits: dict[str, Amounts] = {}
    for field, option, given in (
        ("borrowingLimit", "--borrowing-limit", borrowing),
        ("lendingLimit", "--lending-limit", lending),
    ):
        limits[field] = _amounts(given, option)
        for flavor, resources in limits[field].items():
            for resource in resources:
                if resource not in own.get(flavor, {}):
                    raise click.BadParameter(
                        f"{flavor}:{resource} has no --nominal-quota; give it one, 0 if need be",
                        param_hint=option,
                    )
    made: dict[tuple[str, ...], Json] = {}
    for flavor, resources in own.items():
        covered = tuple(sorted(resources))
        group = made.setdefault(covered, {"coveredResources": list(resources), "flavors": []})
        group["flavors"].append(_flavor(flavor, group["coveredResources"], resources, limits))
    return list(made.values())


def _flavor(
    name: str, order: Sequence[str], own: dict[str, str], limits: dict[str, Amounts]
) -> Json:
    """Return the quotas of one flavor. Resources are in the order of the group."""
    resources = []
    for resource in order:
        quota: Json = {"name": resource, "nominalQuota": own[resource]}
        for field, given in limits.items():
            if resource in given.get(name, {}):
                quota[field] = given[name][resource]
        resources.append(quota)
    return {"name": name, "resources": resources}


def _amounts(given: Sequence[str], option: str) -> Amounts:
    """Parse `flavor:cpu=4;memory=8Gi,other:cpu=2`. Each flavor and resource may occur once."""
    found: Amounts = {}
    for part in _split(",".join(given)):
        flavor, colon, rest = part.partition(":")
        if not colon or not flavor:
            hint = "; separate the resources of one flavor with ';'" if found else ""
            raise click.BadParameter(
                f"'{part}' is not FLAVOR:RESOURCE=AMOUNT{hint}", param_hint=option
            )
        of_flavor = found.setdefault(flavor, {})
        for pair in _split(rest, ";"):
            resource, equals, amount = pair.partition("=")
            if not equals or not resource:
                raise click.BadParameter(f"'{pair}' is not RESOURCE=AMOUNT", param_hint=option)
            if resource in of_flavor:
                raise click.BadParameter(f"{flavor}:{resource} is given twice", param_hint=option)
            of_flavor[resource] = _quantity(amount, option)
    return found


def _quantity(amount: str, option: str) -> str:
    try:
        parse(amount)
    except QuantityError as error:
        raise click.BadParameter(str(error), param_hint=option) from None
    return amount


def _taint(words: str) -> Json:
    """Parse `KEY[=VALUE]:EFFECT`."""
    pair, colon, effect = words.rpartition(":")
    if not colon or effect not in _EFFECTS:
        raise click.BadParameter(
            f"'{words}' is not KEY[=VALUE]:EFFECT with one of {', '.join(_EFFECTS)}",
            param_hint="--node-taints",
        )
    key, _, value = pair.partition("=")
    return {"key": key, "effect": effect} | ({"value": value} if value else {})


def _toleration(words: str) -> Json:
    """Parse `KEY[=VALUE][:EFFECT]`. An omitted value or effect matches all values or effects."""
    pair, colon, effect = words.rpartition(":") if ":" in words else (words, "", "")
    if colon and effect not in _EFFECTS:
        raise click.BadParameter(
            f"'{effect}' is not one of {', '.join(_EFFECTS)}", param_hint="--tolerations"
        )
    key, equals, value = pair.partition("=")
    matched = {"operator": "Equal", "value": value} if equals else {"operator": "Exists"}
    return {"key": key, **matched} | ({"effect": effect} if effect else {})
