# SPDX-License-Identifier: Apache-2.0
"""The settings of a runner, and the objects that its parts share."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping

import msgspec

from kuota.api.base import Json
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.events import Recorder
from kuota.kube.informer import Informer

from .cgroups import PODS_PIDS, Cgroups
from .devices import DeviceAllocations
from .isolation import Isolation
from .pod_steps import CrashBackoff
from .run_as import RunAsPolicy
from .spawn import ShimStarter

_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "CUDA_HOME", "VIRTUAL_ENV")


class RunnerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a runner.

    `state_dir` must outlive the runner, because running processes are found through it. No process
    gets more time than `max_grace_s` to end after it was told to.
    """

    state_dir: str
    host_ip: str = "127.0.0.1"
    base_env: Mapping[str, str] = msgspec.field(default_factory=lambda: base_env())
    run_as: RunAsPolicy = msgspec.field(default_factory=lambda: RunAsPolicy(os.geteuid()))
    isolation: Isolation = Isolation()
    pod_pids_limit: int = PODS_PIDS
    crash_backoff: CrashBackoff = CrashBackoff()
    max_grace_s: float = math.inf
    log_bytes: int = 10 << 20
    log_files: int = 5

    @property
    def pods_dir(self) -> str:
        return self.state_dir + "/pods"

    @property
    def trash_dir(self) -> str:
        return self.state_dir + "/trash"


class WorkerContext(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that every pod worker uses."""

    client: Client
    pods: Informer[Json]
    settings: RunnerSettings
    allocations: DeviceAllocations
    shims: ShimStarter
    clock: Clock
    cgroups: Cgroups
    allocatable: Mapping[str, Mapping[str, str]]
    """The allocatable resources of each node, by name."""
    cpus: Mapping[str, tuple[int, ...]] = {}
    """The CPUs to which the processes of a node are bound. Other nodes use all CPUs."""
    recorder: Recorder | None = None


def base_env() -> dict[str, str]:
    """The variables that every process inherits: PATH, locale and similar."""
    found = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {"PATH": os.defpath, **found}
