# SPDX-License-Identifier: Apache-2.0
"""Detects what this machine provides: Nodes with their devices, isolation, and cgroups."""

from __future__ import annotations

import os
import socket

import msgspec

from kuota.runner.cgroups import Cgroups, delegated
from kuota.runner.inventory import Machine, machine
from kuota.runner.isolation import Isolation, available, isolation
from kuota.runner.run_as import RunAsPolicy
from kuota.runner.settings import RunnerSettings

from .machine_nodes import MachineNodes, machine_nodes, node_name
from .options import UpOptions
from .separation import limits
from .state_dir import StateDir


class Host(msgspec.Struct, frozen=True):
    """This machine: the Nodes to register, and what confines and limits containers."""

    nodes: MachineNodes
    isolation: Isolation
    cgroups: Cgroups
    limits: str
    """Which limits of pods are not enforced as documented, and why; "" if all are."""


def detected(state_dir: StateDir, options: UpOptions) -> Host:
    """Detect the machine. The state directory must exist. Raises NodesError.

    This process moves into a cgroup of its own, if it can.
    """
    root = str(state_dir.root)
    found = machine(root, pretend_gpus=options.pretend_gpus)
    cgroups = delegated(cpuset=bool(options.topology))
    return Host(
        nodes=_nodes(found, options),
        # Pods must not open the files of GPUs that they were not assigned.
        isolation=isolation(root, available()).closing(found.gpus.files),
        cgroups=cgroups,
        limits=limits(cgroups, options.pod_pids_limit),
    )


def _nodes(found: Machine, options: UpOptions) -> MachineNodes:
    if options.nodes:
        return MachineNodes(options.nodes)
    return machine_nodes(node_name(socket.gethostname()), found, options.topology)


def runner_settings(state_dir: StateDir, options: UpOptions, host: Host) -> RunnerSettings:
    return RunnerSettings(
        state_dir=str(state_dir.root),
        run_as=RunAsPolicy(os.geteuid(), options.allow_root, options.run_as),
        isolation=host.isolation,
        pod_pids_limit=options.pod_pids_limit,
        max_grace_s=options.max_grace_s,
    )
