# SPDX-License-Identifier: Apache-2.0
"""The Node objects of this machine: what they say, and keeping them said.

One Node is this machine. A file may describe several instead, with labels, taints and capacity of
their own; their pods all run here, so that the policy of a cluster can be tried on one machine.
"""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kuota import __version__
from kuota.api.base import Json, Key
from kuota.api.manifest_yaml import load_all
from kuota.api.quantity import units
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import AlreadyExists, KubeError
from kuota.kube.resources import NODES

from .instants import time_text
from .inventory import GPU, Machine, pretended

HEARTBEAT_S = 300
PODS_PER_NODE = 1000
_log = logging.getLogger(__name__)
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class NodesError(ValueError):
    """The description of the nodes cannot be used; the message says why."""


class NodePlan(msgspec.Struct, frozen=True):
    """One Node to be: what it says, and its devices by resource."""

    node: Json
    devices: Mapping[str, Sequence[str]] = {}

    @property
    def name(self) -> str:
        return str(self.node["metadata"]["name"])

    @property
    def allocatable(self) -> dict[str, str]:
        return dict(self.node["status"]["allocatable"])


def this_machine(name: str, machine: Machine, labels: Mapping[str, str] | None = None) -> NodePlan:
    """The Node that is this machine."""
    capacity = {
        "cpu": f"{machine.cpu_milli}m"
        if machine.cpu_milli % 1000
        else str(machine.cpu_milli // 1000),
        "memory": f"{machine.memory_bytes >> 10}Ki",
        "ephemeral-storage": f"{machine.disk_bytes >> 10}Ki",
        "pods": str(PODS_PER_NODE),
        **{resource: str(len(ids)) for resource, ids in machine.gpus.ids.items()},
    }
    node = {"metadata": {"name": name, "labels": {**machine.gpus.labels, **(labels or {})}}}
    return _planned(node, capacity, machine.gpus.ids)


def described(text: str) -> list[NodePlan]:
    """The Nodes of a file: Node manifests, with capacity in `status.capacity` or `.allocatable`.

    Raises NodesError.
    """
    plans = [_pretend(each) for each in _manifests(text)]
    names = [each.name for each in plans]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise NodesError(f"two nodes are called {min(twice)!r}")
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
            raise NodesError(f"a {each.get('kind') or 'document without a kind'} is no Node")


def _pretend(manifest: Json) -> NodePlan:
    name = (manifest.get("metadata") or {}).get("name")
    if not name:
        raise NodesError("a Node has no name")
    status = manifest.get("status") or {}
    capacity = dict(status.get("allocatable") or status.get("capacity") or {})
    if not capacity:
        raise NodesError(f"node {name!r} has no status.capacity: say what it offers")
    capacity.setdefault("pods", str(PODS_PER_NODE))
    devices: dict[str, list[str]] = {}
    for resource, quantity in capacity.items():
        if resource.startswith("nvidia.com/"):
            ids = pretended(units(quantity, resource), name).ids.get(GPU, [])
            kind = resource.removeprefix("nvidia.com/")
            devices[resource] = ids if resource == GPU else [f"{each}-{kind}" for each in ids]
    return _planned(manifest, {key: str(value) for key, value in capacity.items()}, devices)


def _planned(
    manifest: Json, capacity: dict[str, str], devices: Mapping[str, Sequence[str]]
) -> NodePlan:
    name = manifest["metadata"]["name"]
    machine = platform.machine()
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": _ARCHITECTURES.get(machine, machine),
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
    return NodePlan(node, devices)


def node_status(plan: NodePlan, ip: str, now: float) -> Json:
    """What a Node says of itself, with a fresh heartbeat."""
    at = time_text(now)
    good = {"lastHeartbeatTime": at, "lastTransitionTime": at}
    pressures = ("MemoryPressure", "DiskPressure", "PIDPressure")
    return {
        **plan.node["status"],
        "addresses": [
            {"type": "InternalIP", "address": ip},
            {"type": "Hostname", "address": plan.name},
        ],
        "conditions": [
            *(
                {"type": each, "status": "False", "reason": "KuotaRunner", **good}
                for each in pressures
            ),
            {"type": "Ready", "status": "True", "reason": "KuotaRunner", **good},
        ],
        "nodeInfo": _node_info(),
    }


def _node_info() -> Json:
    machine = platform.machine()
    return {
        "architecture": _ARCHITECTURES.get(machine, machine),
        "operatingSystem": "linux",
        "osImage": platform.platform(terse=True),
        "kernelVersion": os.uname().release,
        "kubeletVersion": f"kuota-{__version__}",
        "kubeProxyVersion": "",
        "containerRuntimeVersion": f"kuota-processes://{__version__}",
        "machineID": "",
        "systemUUID": "",
        "bootID": "",
    }


class NodeKeeper:
    """Registers the Nodes and keeps their heartbeat while `run` runs."""

    def __init__(self, client: Client, plans: Sequence[NodePlan], ip: str, clock: Clock) -> None:
        self._client = client
        self._plans = plans
        self._ip = ip
        self._clock = clock

    async def register(self) -> None:
        """Make or bring up to date every Node."""
        for plan in self._plans:
            bare = {name: value for name, value in plan.node.items() if name != "status"}
            try:
                await self._client.create(NODES, bare)
            except AlreadyExists:
                change = {"metadata": {"labels": plan.node["metadata"]["labels"]}}
                if plan.node["spec"]:
                    change["spec"] = plan.node["spec"]
                await self._client.patch(NODES, Key("", plan.name), change)
            await self._beat(plan)

    async def run(self) -> None:
        """Say from time to time that the Nodes are well."""
        while True:
            await self._clock.sleep(HEARTBEAT_S)
            try:
                for plan in self._plans:
                    await self._beat(plan)
            except KubeError as error:
                _log.warning("the heartbeat of a node was not taken: %s", error)

    async def _beat(self, plan: NodePlan) -> None:
        status = node_status(plan, self._ip, self._clock.now().timestamp())
        await self._client.patch(
            NODES, Key("", plan.name), {"status": status}, subresource="status"
        )
