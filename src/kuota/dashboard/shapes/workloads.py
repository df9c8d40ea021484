# SPDX-License-Identifier: Apache-2.0
"""The rows of the views `workloads` and `queue`."""

from __future__ import annotations

import msgspec

from kuota.view.workload_state import LiveState

from .base import Ref, Shape


class WorkloadRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One workload. `key` is "namespace/name". Fields with their default value are omitted.

    `name` is that of the Workload; `kind` and `job` are those of its job, "Workload" and `name` if
    it has none. `queue` is the LocalQueue; `cluster_queue` the ClusterQueue that it belongs to.
    `why` says why it does not run, or how it ended; `reason` is the machine-readable form.
    `since` is when it entered its state. `order` sorts the pending workloads of a ClusterQueue:
    compare it as a string, ascending. It is "" for workloads that are not pending. `requests` and
    `gets` are texts such as "2 nvidia.com/gpu" and "2 nvidia.com/gpu on a100". `devices` is the
    amount of all accelerators. `held` is true if it was deactivated, and can be released.
    """

    key: str
    namespace: str
    name: str
    state: LiveState
    kind: str = "Workload"
    job: str = ""
    queue: str = ""
    cluster_queue: str = ""
    user: str = ""
    reason: str = ""
    why: str = ""
    way_out: str = ""
    preempted_by: Ref | None = None
    priority: int = 0
    priority_class: str = ""
    pods: int = 0
    requests: str = ""
    gets: str = ""
    flavors: list[str] = []
    devices: float = 0
    created: str = ""
    since: str = ""
    admitted: str = ""
    finished: str = ""
    evictions: int = 0
    held: bool = False
    order: str = ""


class WorkloadsModel(Shape):
    """Model of the view `workloads`: all jobs. The rows have no particular order."""

    rows: list[WorkloadRow] = []
