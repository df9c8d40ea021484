# SPDX-License-Identifier: Apache-2.0
"""What a runner is told at its start, and what its parts share."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from kuota.api.base import Json
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.informer import Informer

from .cgroups import Cgroups
from .devices import DeviceAllocations
from .pod_steps import CrashBackoff
from .run_as import RunAsPolicy
from .spawn import ShimStarter

_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "CUDA_HOME", "VIRTUAL_ENV")


class RunnerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`state_dir` must outlive the runner: what runs is found again through it."""

    state_dir: str
    host_ip: str = "127.0.0.1"
    base_env: Mapping[str, str] = msgspec.field(default_factory=lambda: base_env())
    run_as: RunAsPolicy = msgspec.field(default_factory=lambda: RunAsPolicy(os.geteuid()))
    crash_backoff: CrashBackoff = CrashBackoff()
    log_bytes: int = 10 << 20
    log_files: int = 5

    @property
    def pods_dir(self) -> str:
        return self.state_dir + "/pods"


class WorkerContext(msgspec.Struct, frozen=True, kw_only=True):
    """What every pod worker needs."""

    client: Client
    pods: Informer[Json]
    settings: RunnerSettings
    allocations: DeviceAllocations
    shims: ShimStarter
    clock: Clock
    cgroups: Cgroups
    allocatable: Mapping[str, Mapping[str, str]]
    """What each node of ours offers, by name."""


def base_env() -> dict[str, str]:
    """What every process gets of this one's environment: where programs are, and the language."""
    found = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {"PATH": os.defpath, **found}
