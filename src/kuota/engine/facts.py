# SPDX-License-Identifier: Apache-2.0
"""The closed list of what can happen to an engine. Facts come in the order they happened."""

from __future__ import annotations

from kuota.api.base import Key

from .model import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    Instant,
    LocalQueue,
    Namespace,
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
    | Workload
)


class ObjectStored(Struct):
    """An object is, as of now, like this: it was created or changed."""

    value: EngineObject


class ObjectDeleted(Struct):
    """An object of that kind exists no more. Cluster-scoped keys have no namespace."""

    kind: type[EngineObject]
    key: Key


class AdmissionFailed(Struct):
    """The reservation that was decided could not be written; the workload waits again.

    Before `retry_at`, if given, others go first.
    """

    key: Key
    retry_at: Instant | None = None


class EvictionFailed(Struct):
    """The eviction that was decided could not be written; the workload runs on."""

    key: Key


Fact = ObjectStored | ObjectDeleted | AdmissionFailed | EvictionFailed
