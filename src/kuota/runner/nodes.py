# SPDX-License-Identifier: Apache-2.0
"""Registers the Node objects of this machine and keeps their heartbeat.

Normally one Node represents this machine. A file may describe several Nodes instead, with their own
labels, taints and capacity. All their pods run here, so that the policy of a cluster can be tried
on one machine.
"""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Container, Iterable, Mapping, Sequence

import msgspec

from kuota import __version__
from kuota.api.base import Json, Key
from kuota.api.core import Taint
from kuota.api.manifest_yaml import load_all
from kuota.api.quantity import QuantityError, parse, units
from kuota.failures import report
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import ApiError, KubeError, NotFound
from kuota.kube.requests import PatchType
from kuota.kube.resources import NODES, key_of

from .instants import time_text
from .inventory import GPU, Machine, pretended

HEARTBEAT_S = 300
PODS_PER_NODE = 1000
_log = logging.getLogger(__name__)
_MANAGER = "kuota-runner"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_VERSION = "kuota-"
_NOT_OFFERED = "not offered any more; its pods run to their end, new ones go elsewhere"


class NodesError(ValueError):
    """The description of the nodes is invalid; the message states the reason."""


class NodePlan(msgspec.Struct, frozen=True):
    """A Node to register, its devices by resource, and the CPUs to which its processes are bound.

    Without `cpus`, they may use all CPUs of this machine.
    """

    node: Json
    devices: Mapping[str, Sequence[str]] = {}
    cpus: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return str(self.node["metadata"]["name"])

    @property
    def allocatable(self) -> dict[str, str]:
        return dict(self.node["status"]["allocatable"])


class _Metadata(msgspec.Struct):
    name: str
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct):
    taints: list[Taint] | None = None
    unschedulable: bool = False


class _Status(msgspec.Struct):
    capacity: dict[str, str | int | float] | None = None
    allocatable: dict[str, str | int | float] | None = None


class _Described(msgspec.Struct):
    """The fields that are read from a Node manifest. The server validates the rest."""

    metadata: _Metadata
    spec: _Spec | None = None
    status: _Status | None = None


def this_machine(name: str, machine: Machine) -> NodePlan:
    """The Node that represents this machine."""
    ids = machine.gpus.ids
    node = {"metadata": {"name": name, "labels": gpu_labels(machine, ids)}}
    shape = (machine.cpu_milli, machine.memory_bytes, machine.disk_bytes)
    return planned(node, node_capacity(*shape, ids), ids)


def gpu_labels(machine: Machine, devices: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The labels of a Node with these devices; simulated ones have none."""
    if not devices:
        return {}
    count = {"nvidia.com/gpu.count": str(len(devices[GPU]))} if GPU in devices else {}
    return machine.gpus.labels | (count if machine.gpus.labels else {})


def node_capacity(
    cpu_milli: int, memory_bytes: int, disk_bytes: int, devices: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """The capacity of a Node as quantities."""
    return {
        "cpu": f"{cpu_milli}m" if cpu_milli % 1000 else str(cpu_milli // 1000),
        "memory": f"{memory_bytes >> 10}Ki",
        "ephemeral-storage": f"{disk_bytes >> 10}Ki",
        "pods": str(PODS_PER_NODE),
        **{resource: str(len(ids)) for resource, ids in devices.items()},
    }


def described(text: str) -> list[NodePlan]:
    """The Nodes of a file: manifests with capacity in `status.capacity` or `.allocatable`.

    Raises NodesError.
    """
    plans = [_pretend(each) for each in _manifests(text)]
    names = [each.name for each in plans]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise NodesError(f"duplicate node name {min(twice)!r}")
    if not plans:
        raise NodesError("the file describes no Node")
    return plans


def _manifests(text: str) -> Iterable[Json]:
    for each in load_all(text):
        if each.get("kind") in ("NodeList", "List"):
            yield from each.get("items") or ()
        elif each.get("kind") == "Node":
            yield each
        else:
            raise NodesError(f"a {each.get('kind') or 'document without a kind'} is not a Node")


def _pretend(manifest: Json) -> NodePlan:
    try:
        found = msgspec.convert(manifest, _Described)
    except msgspec.ValidationError as error:
        name = dict(manifest.get("metadata") or {}).get("name") or "without a name"
        raise NodesError(f"node {name}: {error}") from None
    name, status = found.metadata.name, found.status or _Status()
    if not name:
        raise NodesError("a Node has no metadata.name")
    capacity = dict(status.allocatable or status.capacity or {})
    if not capacity:
        raise NodesError(f"node {name}: has no status.capacity; set what it offers")
    _check_taints(name, (found.spec or _Spec()).taints or ())
    capacity.setdefault("pods", str(PODS_PER_NODE))
    plain = {key: str(value) for key, value in capacity.items()}
    return planned(manifest, plain, _devices(name, plain))


def _check_taints(name: str, taints: Iterable[Taint]) -> None:
    for at, taint in enumerate(taints):
        if not taint.key or taint.effect not in _EFFECTS:
            raise NodesError(
                f"node {name}: spec.taints[{at}] needs a key, and one of the effects "
                f"{', '.join(_EFFECTS)}"
            )


def _devices(name: str, capacity: Mapping[str, str]) -> dict[str, list[str]]:
    """The simulated devices, by resource. Raises NodesError for an invalid amount."""
    devices: dict[str, list[str]] = {}
    for resource, quantity in capacity.items():
        try:
            nano = parse(quantity)
        except QuantityError as error:
            raise NodesError(f"node {name}: status.capacity of {resource}: {error}") from None
        if nano < 0 or ("/" in resource and nano % 10**9):
            raise NodesError(
                f"node {name}: status.capacity of {resource}: {quantity} is not an integer"
            )
        if resource.startswith("nvidia.com/"):
            ids = pretended(units(quantity, resource), name).ids.get(GPU, [])
            kind = resource.removeprefix("nvidia.com/")
            devices[resource] = ids if resource == GPU else [f"{each}-{kind}" for each in ids]
    return devices


def planned(
    manifest: Json,
    capacity: dict[str, str],
    devices: Mapping[str, Sequence[str]],
    cpus: tuple[int, ...] = (),
) -> NodePlan:
    """The Node of a manifest with this capacity, and the labels that every Node has."""
    name = manifest["metadata"]["name"]
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": _architecture(),
        **(manifest["metadata"].get("labels") or {}),
    }
    meta = {"name": name, "labels": labels}
    if manifest["metadata"].get("annotations"):
        meta["annotations"] = manifest["metadata"]["annotations"]
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta,
        "spec": manifest.get("spec") or {},
        "status": {"capacity": capacity, "allocatable": capacity},
    }
    return NodePlan(node, devices, cpus)


def node_status(plan: NodePlan, ip: str, now: float) -> Json:
    """The status of a Node with a current heartbeat."""
    pressures = ("MemoryPressure", "DiskPressure", "PIDPressure")
    return {
        **plan.node["status"],
        "addresses": [
            {"type": "InternalIP", "address": ip},
            {"type": "Hostname", "address": plan.name},
        ],
        "conditions": [
            *(_condition(each, "False", "KuotaRunner", now) for each in pressures),
            _condition("Ready", "True", "KuotaRunner", now),
        ],
        "nodeInfo": _node_info(),
    }


def _condition(type_: str, status: str, reason: str, now: float) -> Json:
    at = time_text(now)
    said = {"type": type_, "status": status, "reason": reason}
    return said | {"lastHeartbeatTime": at, "lastTransitionTime": at}


def _architecture() -> str:
    machine = platform.machine()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def _node_info() -> Json:
    return {
        "architecture": _architecture(),
        "operatingSystem": "linux",
        "osImage": platform.platform(terse=True),
        "kernelVersion": os.uname().release,
        "kubeletVersion": f"{_VERSION}{__version__}",
        "kubeProxyVersion": "",
        "containerRuntimeVersion": f"kuota-processes://{__version__}",
        "machineID": "",
        "systemUUID": "",
        "bootID": "",
    }


def former(nodes: Iterable[Json], plans: Container[str]) -> list[Json]:
    """The Nodes that an earlier start registered and this one does not."""
    return [each for each in nodes if is_ours(each) and key_of(each).name not in plans]


def is_ours(node: Json) -> bool:
    """Whether a runner registered the Node."""
    made = (node.get("status") or {}).get("nodeInfo") or {}
    return str(made.get("kubeletVersion") or "").startswith(_VERSION)


async def check(client: Client, plans: Iterable[NodePlan]) -> None:
    """Raises NodesError for a Node that the server would reject; changes nothing."""
    for plan in plans:
        await _apply(client, plan, dry_run=True)


async def _apply(client: Client, plan: NodePlan, *, dry_run: bool = False) -> None:
    bare = {name: value for name, value in plan.node.items() if name != "status"}
    try:
        await client.patch(
            NODES,
            Key("", plan.name),
            bare,
            kind=PatchType.APPLY,
            manager=_MANAGER,
            force=True,
            validation="Strict",
            dry_run=dry_run,
        )
    except ApiError as error:
        raise NodesError(f"node {plan.name}: {error.message}") from error


class NodeKeeper:
    """Registers the Nodes and updates their heartbeat while `run` runs."""

    def __init__(self, client: Client, plans: Sequence[NodePlan], ip: str, clock: Clock) -> None:
        self._client = client
        self._plans = plans
        self._ip = ip
        self._clock = clock

    async def register(self) -> None:
        """Create or update every Node. Raises NodesError if the server rejects one.

        Fields set by others are kept; fields of an earlier description are removed.
        """
        for plan in self._plans:
            await _apply(self._client, plan)
            await self._beat(plan)

    async def retire(self, nodes: Iterable[Json], busy: Container[str]) -> None:
        """Delete former Nodes. A Node with running pods stays, not ready, until they have ended."""
        for each in nodes:
            key = key_of(each)
            try:
                if key.name not in busy:
                    await self._client.delete(NODES, key)
                    continue
                not_ready = _condition("Ready", "False", "NotOffered", self._now())
                status = {"conditions": [not_ready | {"message": _NOT_OFFERED}]}
                await self._client.patch(
                    NODES, key, {"status": status}, kind=PatchType.STRATEGIC, subresource="status"
                )
            except NotFound:
                continue

    def _now(self) -> float:
        return self._clock.now().timestamp()

    async def run(self) -> None:
        """Update the heartbeat of the Nodes periodically."""
        while True:
            await self._clock.sleep(HEARTBEAT_S)
            try:
                for plan in self._plans:
                    await self._beat(plan)
            except KubeError as error:
                _log.warning("the heartbeat of a node was not taken: %s", error)
            except Exception as error:
                report("heartbeat", error, "the heartbeat of a node was not sent")

    async def _beat(self, plan: NodePlan) -> None:
        status = node_status(plan, self._ip, self._now())
        await self._client.patch(
            NODES, Key("", plan.name), {"status": status}, subresource="status"
        )
