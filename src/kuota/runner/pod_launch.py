# SPDX-License-Identifier: Apache-2.0
"""Prepares the launch of a container: environment, volumes, user, devices, limits."""

from __future__ import annotations

import asyncio
import os
import pwd
from collections.abc import Iterable
from itertools import chain
from typing import Any

import msgspec

from kuota.api.base import Json, Key
from kuota.api.core import containers
from kuota.kube.errors import NotFound
from kuota.kube.resources import CONFIG_MAPS, NAMESPACES, SECRETS, Resource

from .container_env import CONFIG_ERROR, LaunchError, Sources
from .devices import Grant, shares
from .file_creation import create_files
from .launch import (
    ContainerPlan,
    Mount,
    PodEnvironment,
    container_plan,
    grace_period_s,
    mount_notes,
)
from .pod_home import PodHome
from .pod_rights import PodRights, pod_rights
from .processes import Launch
from .run_as import run_as
from .settings import WorkerContext
from .terminal import DEFAULT_TERM
from .volumes import check_spec, files_plan, references, volume_paths

_PREPARED = "prepared"
MOST_SOURCE_BYTES = 64 << 20
"""The bytes of all ConfigMaps and Secrets to which one pod refers, which are read at once."""


class PodLaunch:
    """Launches of one pod. `notes` lists the differences from a cluster."""

    def __init__(self, home: PodHome, shared: WorkerContext) -> None:
        self._home = home
        self._shared = shared
        self.notes: list[str] = []

    async def launch(self, pod: Json, container: Json, grant: Grant) -> Launch:
        """The launch of the container. Raises LaunchError, or OSError if the disk is full."""
        check_spec(pod["spec"])
        sources = await self._sources(pod)
        rights = pod_rights(pod, await self._namespace(pod), self._shared.settings)
        await self._prepare(pod, sources, rights)
        plan = self._plan(pod, container, sources, grant)
        settings = self._shared.settings
        who = run_as(pod, container, settings.run_as, rights.uids)
        devices = chain.from_iterable(grant.values())
        confine = rights.confinement(self._home, plan.mounts, settings.isolation, devices)
        self._note(who.note, *mount_notes(plan.mounts), self._limits_note(container))
        self._note(*rights.notes(plan.mounts, settings.isolation))
        cpus = self._cpus(pod)
        gid, groups, home = _account(who.uid, self._home.root)
        env = {"HOME": home} | ({"TERM": DEFAULT_TERM} if container.get("tty") else {})
        if confine is not None and confine["user"]:
            # The home of the user who runs the server is hidden, and /tmp may be inaccessible.
            env |= {"HOME": self._home.root, "TMPDIR": self._home.root}
        return Launch(
            argv=plan.argv,
            env={**env, **plan.env},
            cwd=plan.cwd,
            uid=who.uid,
            gid=gid,
            groups=groups,
            cgroup=self._cgroup(pod, container, cpus),
            grace_s=min(grace_period_s(pod), settings.max_grace_s),
            log_bytes=settings.log_bytes,
            log_files=settings.log_files,
            stdin=bool(container.get("stdin")),
            stdin_once=bool(container.get("stdinOnce")),
            tty=bool(container.get("tty")),
            confine=confine,
            cpus=cpus,
            most_processes=self._most_processes(),
        )

    def _cpus(self, pod: Json) -> tuple[int, ...]:
        """The CPUs to which the pod is bound: those of its node that this process may use."""
        node = pod["spec"].get("nodeName") or ""
        wanted = self._shared.cpus.get(node, ())
        usable = tuple(sorted(os.sched_getaffinity(0) & set(wanted)))
        if wanted and not usable:
            self._note(f"the pod is not bound to CPUs: Kuota may not use those of node {node}")
        return usable

    def _note(self, *notes: str) -> None:
        self.notes += [each for each in notes if each and each not in self.notes]

    async def _namespace(self, pod: Json) -> Json:
        """The namespace of the pod, which lists what its pods may use."""
        name = pod["metadata"].get("namespace") or ""
        return (await self._fetched(NAMESPACES, "", [name])).get(name, {})

    async def _sources(self, pod: Json) -> Sources:
        maps, secrets = references(pod)
        namespace = pod["metadata"].get("namespace") or ""
        node = pod["spec"].get("nodeName") or ""
        ip = self._shared.settings.host_ip
        return Sources(
            node_name=node,
            host_ip=ip,
            pod_ip=ip,
            allocatable=self._shared.allocatable.get(node, {}),
            config_maps=await self._fetched(CONFIG_MAPS, namespace, maps),
            secrets=await self._fetched(SECRETS, namespace, secrets),
        )

    async def _fetched(
        self, resource: Resource, namespace: str, names: Iterable[str]
    ) -> dict[str, Json]:
        found = {}
        left = MOST_SOURCE_BYTES
        for name in names:
            try:
                found[name] = await self._shared.client.get(resource, Key(namespace, name))
            except NotFound:
                continue
            left -= len(msgspec.json.encode(found[name]))
            if left < 0:
                message = f"the pod refers to more than {MOST_SOURCE_BYTES >> 20} MiB"
                reason = f"{message} of {resource.plural}"
                raise LaunchError(CONFIG_ERROR, reason, permanent=True)
        return found

    async def _prepare(self, pod: Json, sources: Sources, rights: PodRights) -> None:
        """Create the volumes and links of the pod as its user, once per pod."""
        if os.path.exists(f"{self._home.path}/{_PREPARED}"):
            return
        whole, settings = containers(pod["spec"]), self._shared.settings
        user = run_as(pod, whole[0], settings.run_as, rights.uids).uid
        gid, groups, _ = _account(user, self._home.root)
        if user is not None:
            self._home.hand_over(user, gid)
        mounts: list[Mount] = []
        for each in whole:
            mounts += self._plan(pod, each, sources, {}).mounts
            await asyncio.sleep(0)  # Each may have thousands of variables.
        if mounts or pod["spec"].get("volumes"):
            files = files_plan(pod, self._home, sources, mounts)
            confine = rights.confinement(self._home, (), settings.isolation)
            allowed = rights.host_directories
            plan: dict[str, Any] = {
                "uid": user,
                "gid": gid,
                "groups": groups,
                "confine": confine,
                "state_dir": os.path.realpath(settings.state_dir),
                "allowed": None if allowed is None else [each.path for each in allowed],
            }
            await create_files(self._shared.shims, files | plan)
        self._home.write(_PREPARED, True)

    def _plan(self, pod: Json, container: Json, sources: Sources, grant: Grant) -> ContainerPlan:
        place = PodEnvironment(
            root=self._home.root,
            volumes=volume_paths(pod, self._home),
            base_env=self._shared.settings.base_env,
        )
        devices = shares(pod["spec"], grant).get(container["name"], {})
        return container_plan(pod, container, place, sources, devices)

    def _most_processes(self) -> int:
        """A limit that stops a fork bomb; 0 if the cgroup of the pod has one."""
        enforced = "pids" in self._shared.cgroups.controllers
        return 0 if enforced else self._shared.settings.pod_pids_limit

    def _cgroup(self, pod: Json, container: Json, cpus: tuple[int, ...]) -> str:
        """The group of the container with its limits; "" if the kernel rejects it."""
        limits = _limits(container)
        cgroups, pids = self._shared.cgroups, self._shared.settings.pod_pids_limit
        try:
            return cgroups.create(pod["metadata"]["uid"], container["name"], limits, pids, cpus)
        except OSError as error:
            self._note(f"limits are not enforced: the kernel rejects them: {error}")
            return ""

    def _limits_note(self, container: Json) -> str:
        missing = [each for each in self._shared.cgroups.missing if each in _limits(container)]
        if not missing:
            return ""
        return f"limits of {' and '.join(missing)} are not enforced: {self._shared.cgroups.refusal}"


def _limits(container: Json) -> Json:
    limits = (container.get("resources") or {}).get("limits") or {}
    return {name: value for name, value in limits.items() if name in ("cpu", "memory")}


def _account(uid: int | None, root: str) -> tuple[int, tuple[int, ...], str]:
    """The user's primary group, supplementary groups and home directory.

    The pod's root directory is the home of a user who has none, such as nobody.
    """
    if uid is None:
        return 0, (), os.environ.get("HOME") or root
    try:
        known = pwd.getpwuid(uid)
    except KeyError:
        return uid, (), root
    groups = os.getgrouplist(known.pw_name, known.pw_gid)
    home = known.pw_dir if os.path.isdir(known.pw_dir) else root
    return known.pw_gid, tuple(groups), home
