# SPDX-License-Identifier: Apache-2.0
"""`kuota cluster`: adds, lists and removes the worker clusters of a MultiKueue manager."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kuota.api.base import Json, Key
from kuota.api.config.defaults import NAMESPACE
from kuota.kube.errors import AlreadyExists, KubeError, NotFound
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    MULTI_KUEUE_CLUSTERS,
    MULTI_KUEUE_CONFIGS,
    NAMESPACES,
    SECRETS,
    WORKLOADS,
)

from .connect import FAILED, Choice, Failed, conduct
from .groups import CommandGroup

if TYPE_CHECKING:
    from kuota.view.clusters import ClusterRow

    from .session import Session

WAIT_S = 20.0
"""How long `add` waits for the first result of the manager."""
READ_S = 5.0
"""How long `list` waits for one cluster."""

_FILE = click.Path(dir_okay=False, path_type=Path)
_MANAGER = click.option(
    "--manager-kubeconfig", "manager", default="", metavar="FILE", help="The manager's kubeconfig."
)
_CONTEXT = click.option(
    "--manager-context", "context", default="", metavar="NAME", help="Its context."
)
_SPACE = click.option(
    "--secret-namespace",
    "space",
    default=NAMESPACE,
    show_default=True,
    metavar="NAME",
    help="The namespace of the controller, where it looks for kubeconfigs.",
)


@click.group("cluster", cls=CommandGroup)
def command() -> None:
    """Manage the worker clusters of a MultiKueue manager."""


@command.command("add")
@click.argument("name")
@click.option(
    "--kubeconfig", "file", type=_FILE, required=True, help="The kubeconfig of the worker cluster."
)
@click.option("--context", "worker_context", default="", metavar="NAME", help="Its context.")
@_MANAGER
@_CONTEXT
@_SPACE
def add(name: str, file: Path, worker_context: str, manager: str, context: str, space: str) -> None:
    """Add the worker cluster NAME, or replace its kubeconfig.

    Only the current context of the kubeconfig is stored, in a Secret. Files that it names are
    included.

    \b
    Example:
      kuota cluster add gpu-2 --kubeconfig gpu-2.kubeconfig
    """
    from kuota.control.checks.multikueue.kubeconfig import ClusterUnusable, accepted
    from kuota.control.checks.multikueue.kubeconfig_text import kubeconfig_text
    from kuota.kube.config import connection

    try:
        content = kubeconfig_text(connection(str(file), worker_context))
        accepted(content)
    except (ClusterUnusable, KubeError) as error:
        raise Failed(f"{file} cannot be used: {error}") from None

    async def work(session: Session) -> int:
        outdated = await _outdated(session, name, content, space)
        await _store(session, name, content, space)
        click.echo(f"multikueuecluster.kueue.x-k8s.io/{name} stored")
        return await _outcome(session, name, outdated)

    conduct(Choice(manager, context), work)


async def _outdated(session: Session, name: str, content: str, space: str) -> ClusterRow | None:
    """Return the state that another kubeconfig than this one has led to; None if there is none."""
    from kuota.view.clusters import cluster_row

    secret: Json = {}
    try:
        cluster = await session.client.get(MULTI_KUEUE_CLUSTERS, Key("", name))
        with suppress(NotFound):
            secret = await session.client.get(SECRETS, Key(space, secret_of(name)))
    except NotFound:
        return None
    return None if secret.get("data") == _data(content) else cluster_row(cluster, (), None)


def _data(content: str) -> Json:
    import base64

    return {"kubeconfig": base64.b64encode(content.encode()).decode()}


async def _store(session: Session, name: str, content: str, space: str) -> None:
    """Write the Secret, then the MultiKueueCluster."""
    client, secret = session.client, secret_of(name)
    try:
        space_object: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
        await client.create(NAMESPACES, space_object)
    except AlreadyExists:
        pass
    data, meta = _data(content), {"namespace": space, "name": secret}
    found: Json = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}
    try:
        await client.create(SECRETS, found)
    except AlreadyExists:
        await client.patch(SECRETS, Key(space, secret), {"data": data})
    source = {"kubeConfig": {"location": secret, "locationType": "Secret"}}
    spec = {"clusterSource": source | {"clusterProfileRef": None}}
    cluster: Json = {
        "apiVersion": MULTI_KUEUE_CLUSTERS.api_version,
        "kind": MULTI_KUEUE_CLUSTERS.kind,
        "metadata": {"name": name},
        "spec": {"clusterSource": source},
    }
    try:
        await client.create(MULTI_KUEUE_CLUSTERS, cluster)
    except AlreadyExists:
        await client.patch(MULTI_KUEUE_CLUSTERS, Key("", name), {"spec": spec})


def secret_of(name: str) -> str:
    """Return the name of the Secret with the kubeconfig of a cluster."""
    return f"{name}-kubeconfig"


async def _outcome(session: Session, name: str, outdated: ClusterRow | None) -> int:
    """Wait for the condition of the cluster and report it.

    It is `outdated` until the manager has used the new kubeconfig. If the manager is connected as
    before, the condition does not change.
    """
    from kuota.view.clusters import cluster_row

    from .session import until

    def reported(obj: Json | None) -> bool:
        row = cluster_row(obj, (), None) if obj is not None else None
        return row is not None and row.state != "unknown" and row != outdated

    row = outdated
    with suppress(TimeoutError):
        async with asyncio.timeout(WAIT_S):
            found = await until(session.client, MULTI_KUEUE_CLUSTERS, Key("", name), reported)
        assert found is not None
        row = cluster_row(found, (), None)
    if row is None or row.state == "unknown":
        click.echo(f"no manager has connected to it within {WAIT_S:.0f} s; is one running?")
        return FAILED
    click.echo(f"{name}: {row.state}{': ' if row.message else ''}{row.message}")
    return 0 if row.state == "connected" else FAILED


@command.command("list")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table")
@_MANAGER
@_CONTEXT
@_SPACE
def list_(output: str, manager: str, context: str, space: str) -> None:
    """List the worker clusters: whether they are connected, their free quota and running jobs.

    Free quota is shown to those who may read the Secrets with the kubeconfigs.

    \b
    Examples:
      kuota cluster list
      kuota cluster list -o json
    """

    async def work(session: Session) -> None:
        from kuota.view.clusters import cluster_row

        from .output import FORMATS, show, show_table

        clusters = (await session.client.list(MULTI_KUEUE_CLUSTERS)).items
        if not clusters and output not in FORMATS:
            click.echo("there are no worker clusters; add one with `kuota cluster add`", err=True)
            return
        workloads = (await session.client.list(WORKLOADS)).items
        queues = await asyncio.gather(*(_queues(session, each, space) for each in clusters))
        rows = [
            cluster_row(each, workloads, found)
            for each, found in zip(clusters, queues, strict=True)
        ]
        if output in FORMATS:
            show([each._asdict() for each in rows], output)
            return
        table = [[r.name, r.state, str(r.running), r.free, r.message] for r in rows]
        show_table(["name", "state", "running jobs", "free quota", "message"], table)

    conduct(Choice(manager, context), work)


async def _queues(session: Session, cluster: Json, space: str) -> list[Json] | None:
    """Return the ClusterQueues of a worker cluster; None if it cannot be asked."""
    import base64

    from kuota.control.checks.multikueue.kubeconfig import ClusterUnusable, accepted
    from kuota.control.checks.multikueue.worker_client import worker_client
    from kuota.kube.clock import SystemClock

    source = cluster["spec"]["clusterSource"].get("kubeConfig") or {}
    if source.get("locationType") != "Secret":
        return None
    try:
        async with asyncio.timeout(READ_S):
            secret = await session.client.get(SECRETS, Key(space, source["location"]))
            content = base64.b64decode(secret["data"]["kubeconfig"]).decode()
            client = worker_client(accepted(content), SystemClock(), lambda: False)
            try:
                return (await client.list(CLUSTER_QUEUES)).items
            finally:
                await client.close()
    except (KubeError, ClusterUnusable, TimeoutError, LookupError, ValueError, OSError):
        return None


@command.command("remove")
@click.argument("name")
@click.option("--force", is_flag=True, help="Remove it even if jobs run there.")
@_MANAGER
@_CONTEXT
@_SPACE
def remove(name: str, force: bool, manager: str, context: str, space: str) -> None:
    """Remove the worker cluster NAME and its kubeconfig.

    Jobs that run there are dispatched again, to the other clusters.

    \b
    Example:
      kuota cluster remove gpu-2
    """

    async def work(session: Session) -> None:
        from kuota.view.clusters import runs_in

        client = session.client
        await client.get(MULTI_KUEUE_CLUSTERS, Key("", name))
        workloads = (await client.list(WORKLOADS)).items
        running = [each for each in workloads if runs_in(each, name)]
        if running and not force:
            raise Failed(
                f"{len(running)} workloads run in {name}; wait for them, or remove it with --force"
            )
        for config in (await client.list(MULTI_KUEUE_CONFIGS)).items:
            await _unlist(session, config, name)
        await client.delete(MULTI_KUEUE_CLUSTERS, Key("", name))
        with suppress(NotFound):
            await client.delete(SECRETS, Key(space, secret_of(name)))
        click.echo(f"multikueuecluster.kueue.x-k8s.io/{name} removed")

    conduct(Choice(manager, context), work)


async def _unlist(session: Session, config: Json, name: str) -> None:
    """Remove a cluster from a configuration, which must list at least one."""
    clusters = config["spec"].get("clusters") or []
    if name not in clusters:
        return
    title = config["metadata"]["name"]
    left = [each for each in clusters if each != name]
    if not left:
        click.echo(f"MultiKueueConfig {title} still lists {name}, its only cluster", err=True)
        return
    await session.client.patch(MULTI_KUEUE_CONFIGS, Key("", title), {"spec": {"clusters": left}})
    click.echo(f"multikueueconfig.kueue.x-k8s.io/{title} changed")


@command.command("role")
@click.option(
    "-n",
    "--namespace",
    default=NAMESPACE,
    show_default=True,
    metavar="NAME",
    help="The namespace of the manager's ServiceAccount in the worker cluster.",
)
def role(namespace: str) -> None:
    """Print the objects that give a manager the rights that it needs in a worker cluster.

    \b
    Example:
      kuota cluster role | kubectl --context worker apply -f -
    """
    import yaml

    from kuota.api.worker_role import worker_objects

    click.echo(yaml.safe_dump_all(worker_objects(namespace), sort_keys=False), nl=False)
