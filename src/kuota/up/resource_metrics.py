# SPDX-License-Identifier: Apache-2.0
"""Serves `metrics.k8s.io/v1beta1`, which `kubectl top` reads, from measurements of processes.

A member sees the pods of the member's team. Everyone who may read Nodes sees their total usage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import unquote

import msgspec

from kuota.api.base import Json, Key
from kuota.api.selector import parse_selector, selects
from kuota.api.status import StatusError, bad_request, not_allowed
from kuota.runner.pod_worker import PodWorker
from kuota.runner.usage import MACHINE, ContainerKey, ContainerUsage, Measured, UsageSampler
from kuota.server import discovery
from kuota.server.auth import AccessAttributes
from kuota.server.kinds import Kind, Kinds, Version
from kuota.server.requests import Request, Response, answered
from kuota.server.schemas import with_metadata
from kuota.server.status import no_such_path

GROUP = "metrics.k8s.io"
VERSION = "v1beta1"
_USAGE: Json = {"type": "object", "additionalProperties": {"type": "string"}}
_SCHEMA: Json = {
    "properties": {"timestamp": {"type": "string"}, "window": {"type": "string"}, "usage": _USAGE}
}


def _kind(plural: str, name: str, *, namespaced: bool) -> Kind:
    return Kind(
        group=GROUP,
        plural=plural,
        kind=name,
        versions=(Version(name=VERSION, schema=with_metadata(_SCHEMA)),),
        stored=VERSION,
        namespaced=namespaced,
        verbs=("get", "list"),
    )


KINDS = (
    _kind("pods", "PodMetrics", namespaced=True),
    _kind("nodes", "NodeMetrics", namespaced=False),
)


def measured(workers: Sequence[PodWorker]) -> dict[ContainerKey, Measured]:
    """The running containers of all pods."""
    return {
        (worker.uid, name): each for worker in workers for name, each in worker.measured().items()
    }


class ResourceMetrics:
    """A `kuota.server.api.Extension` for the usage of pods and Nodes."""

    prefix = f"/apis/{GROUP}"

    def __init__(
        self,
        sampler: UsageSampler,
        workers: Callable[[], Sequence[PodWorker]],
        nodes: Sequence[str],
        kinds: Kinds,
    ) -> None:
        self._sampler = sampler
        self._workers = workers
        self._nodes = nodes
        self._kinds = kinds

    def access(self, request: Request) -> AccessAttributes:
        found = _parsed(request.path)
        verb = "get" if request.method in ("GET", "HEAD") else request.method.lower()
        if found is None:
            return AccessAttributes(verb=verb, path=request.path)
        resource, key = found
        return AccessAttributes(
            verb="list" if verb == "get" and not key.name else verb,
            group=GROUP,
            resource=resource,
            namespace=key.namespace,
            name=key.name,
        )

    async def answer(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise not_allowed("usage can only be read")
        found = _parsed(request.path)
        if found is None:
            return self._document(request.path)
        resource, key = found
        usage = await self._sampler.usage()
        items = self._pods(usage, key.namespace) if resource == "pods" else self._used(usage)
        if not key.name:
            kind = "PodMetricsList" if resource == "pods" else "NodeMetricsList"
            return _listed(kind, items, request.query.get("labelSelector", ""))
        for item in items:
            if item["metadata"]["name"] == key.name:
                return answered(item)
        message = f'{resource}.{GROUP} "{key.name}" not found: it has no running processes'
        raise StatusError(404, "NotFound", message)

    def _document(self, path: str) -> Response:
        match path.strip("/").split("/"):
            case [_, _]:
                found = discovery.group(self._kinds, GROUP)
            case [_, _, version]:
                found = discovery.resource_list(self._kinds, GROUP, version)
            case _:
                found = None
        if found is None:
            raise no_such_path()
        return answered(found)

    def _pods(self, usage: Mapping[ContainerKey, ContainerUsage], namespace: str) -> list[Json]:
        """The running pods of the namespace, or of all."""
        found = []
        for worker in self._workers():
            metadata = worker.pod["metadata"]
            containers = {name: each for (uid, name), each in usage.items() if uid == worker.uid}
            if containers and namespace in ("", metadata["namespace"]):
                found.append(_pod_metrics(metadata, containers))
        return sorted(found, key=lambda each: (each["metadata"]["namespace"], _name(each)))

    def _used(self, usage: Mapping[ContainerKey, ContainerUsage]) -> list[Json]:
        """The usage of Nodes: that of the machine, or of their pods if several Nodes share it."""
        if len(self._nodes) == 1:
            return [_node_metrics(self._nodes[0], [usage[MACHINE]], usage[MACHINE])]
        home = {each.uid: each.pod["spec"].get("nodeName") for each in self._workers()}
        return [
            _node_metrics(
                node,
                [each for (uid, _), each in usage.items() if home.get(uid) == node],
                usage[MACHINE],
            )
            for node in self._nodes
        ]


def _pod_metrics(metadata: Json, containers: Mapping[str, ContainerUsage]) -> Json:
    shown = ("name", "namespace", "labels", "creationTimestamp")
    window = max(containers.values(), key=lambda each: each.window_s)
    return {
        "kind": "PodMetrics",
        "apiVersion": f"{GROUP}/{VERSION}",
        "metadata": {name: metadata[name] for name in shown if metadata.get(name)},
        **_times(window),
        "containers": [
            {"name": name, "usage": _amounts([each])} for name, each in containers.items()
        ],
    }


def _node_metrics(name: str, used: Sequence[ContainerUsage], window: ContainerUsage) -> Json:
    return {
        "kind": "NodeMetrics",
        "apiVersion": f"{GROUP}/{VERSION}",
        "metadata": {"name": name},
        **_times(window),
        "usage": _amounts(used),
    }


def _times(usage: ContainerUsage) -> Json:
    at = datetime.fromtimestamp(usage.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"timestamp": at, "window": f"{usage.window_s:.3f}s"}


def _amounts(used: Sequence[ContainerUsage]) -> Json:
    cpu = sum(each.cpu_nano for each in used)
    memory = sum(each.memory_bytes for each in used)
    return {"cpu": f"{cpu}n", "memory": f"{memory >> 10}Ki"}


def _listed(kind: str, items: list[Json], labels: str) -> Response:
    try:
        wanted = parse_selector(labels)
    except ValueError as error:
        raise bad_request(str(error)) from None
    chosen = [each for each in items if selects(wanted, each["metadata"].get("labels"))]
    body = {"kind": kind, "apiVersion": f"{GROUP}/{VERSION}", "metadata": {}, "items": chosen}
    return Response(200, msgspec.json.encode(body))


def _name(item: Json) -> str:
    return str(item["metadata"]["name"])


def _parsed(path: str) -> tuple[str, Key] | None:
    """The resource and the object that the path names; None for other paths."""
    match [unquote(each) for each in path.strip("/").split("/")][2:]:
        case [version, "nodes"] if version == VERSION:
            return "nodes", Key("", "")
        case [version, "nodes", name] if version == VERSION and name:
            return "nodes", Key("", name)
        case [version, "pods"] if version == VERSION:
            return "pods", Key("", "")
        case [version, "namespaces", namespace, "pods"] if version == VERSION and namespace:
            return "pods", Key(namespace, "")
        case [version, "namespaces", namespace, "pods", name] if version == VERSION and name:
            return "pods", Key(namespace, name)
    return None
