# SPDX-License-Identifier: Apache-2.0
"""The closed list of facts that an engine accepts. Facts are applied in the order they happened."""

from __future__ import annotations

from kuota.api.base import Key

from .model import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    Instant,
    LocalQueue,
    Namespace,
    Node,
    PodUsage,
    ResourceFlavor,
    Struct,
    Topology,
    Workload,
)

EngineObject = (
    ClusterQueue
    | Cohort
    | LocalQueue
    | ResourceFlavor
    | Topology
    | AdmissionCheck
    | Namespace
    | Node
    | PodUsage
    | Workload
)


class ObjectStored(Struct):
    """An object was created or changed and now has this value."""

    value: EngineObject


class ObjectDeleted(Struct):
    """An object of this kind was deleted. Keys of cluster-scoped kinds have no namespace."""

    kind: type[EngineObject]
    key: Key


class AdmissionFailed(Struct):
    """The reservation could not be written, so the workload is pending again.

    With `retry_at`, the workload backs off until then.
    """

    key: Key
    retry_at: Instant | None = None


class EvictionFailed(Struct):
    """The eviction could not be written, so the workload keeps running."""

    key: Key


class NodesListed(Struct):
    """All existing nodes, and the pods on them, have been stored. See `Engine`."""


Fact = ObjectStored | ObjectDeleted | AdmissionFailed | EvictionFailed | NodesListed
