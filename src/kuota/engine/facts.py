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

Known = (
    ClusterQueue
    | Cohort
    | LocalQueue
    | ResourceFlavor
    | Topology
    | AdmissionCheck
    | Namespace
    | Workload
)


class Stored(Struct):
    """An object is, as of now, like this: it was created or changed."""

    value: Known


class Gone(Struct):
    """An object of that kind exists no more. Cluster-scoped keys have no namespace."""

    kind: type[Known]
    key: Key


class AdmissionFailed(Struct):
    """The reservation that was decided could not be written; the workload waits again.

    Before `again_at`, if given, others go first.
    """

    key: Key
    again_at: Instant | None = None


class EvictionFailed(Struct):
    """The eviction that was decided could not be written; the workload runs on."""

    key: Key


Fact = Stored | Gone | AdmissionFailed | EvictionFailed
