# SPDX-License-Identifier: Apache-2.0
"""The options of the control plane of one machine."""

from __future__ import annotations

import ssl

import msgspec

from kuota.api.config.shapes import Configuration
from kuota.api.gates import Gates
from kuota.runner.cgroups import PODS_PIDS
from kuota.runner.nodes import NodePlan
from kuota.view.idle import IdlePolicy

from .machine_nodes import TopologyOptions
from .pod_deletion import MAX_GRACE_S


class ExternalListener(msgspec.Struct, frozen=True):
    """An address for other machines, and the admin's certificate for it."""

    host: str
    port: int
    tls: ssl.SSLContext


class UpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the control plane.

    Port 0 selects the port of the previous start, or any free port. Without `nodes`, the only node
    is this machine, unless `topology` divides it. `external_listener` is an address besides
    loopback.

    If the runner is root, pods that name no user run as `run_as`. They run as root only if allowed.
    With `accept_loss`, it starts even if acknowledged objects are missing from the store.

    Everything in a namespace of a team needs quota, unless `allow_unqueued` is set. A pod gets at
    most `max_grace_s` to end.
    """

    port: int = 0
    external_listener: ExternalListener | None = None
    pretend_gpus: int = 0
    allow_root: bool = False
    accept_loss: bool = False
    run_as: int | None = None
    pod_pids_limit: int = PODS_PIDS
    allow_unqueued: bool = False
    max_grace_s: int = MAX_GRACE_S
    nodes: tuple[NodePlan, ...] = ()
    topology: TopologyOptions = TopologyOptions()
    config: Configuration | None = None
    gates: Gates = Gates()
    max_objects_per_namespace: int = 100_000
    idle: IdlePolicy = IdlePolicy()
    dashboard_actions: bool = False
