# SPDX-License-Identifier: Apache-2.0
"""What one pass over a dispatched Workload reads and returns.

A group is a Workload of the manager, its job, and their copies in worker clusters. A plan has the
writes of a pass, each of which names its cluster.
"""

from __future__ import annotations

from collections.abc import Mapping

from kuota.api.base import Json
from kuota.api.config.defaults import ALL_AT_ONCE
from kuota.api.gates import Gates
from kuota.api.workload import AdmissionCheckState
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.effects import Effect
from kuota.bridge.jobs.dispatch import Dispatch
from kuota.engine.model import Struct

LOST_S = 900.0
STEP_SIZE = 3


class MultiKueueSettings(Struct):
    """The section `multiKueue` of the configuration, and the gates."""

    origin: str = "multikueue"
    manager: str = ""
    """The identity of this cluster; "" if it is unknown."""
    worker_lost_timeout_s: float = LOST_S
    dispatcher: str = ALL_AT_ONCE
    step_size: int = STEP_SIZE
    gates: Gates = Gates()


class RemoteCopies(Struct):
    """What a connected cluster has of a group.

    `jobs` are the copies of the local jobs, in the same order. `strays` are other objects that
    belong to the Workload, such as the copies of Pods that no longer exist.
    """

    workload: StoredWorkload | None = None
    jobs: tuple[Json | None, ...] = ()
    strays: tuple[Json, ...] = ()

    @property
    def empty(self) -> bool:
        return self.workload is None and not self.strays and not any(self.jobs)


class Component(Struct):
    """Another Workload of a job that has several: its position and its cluster."""

    name: str
    index: int | None = None
    cluster: str = ""


class WorkloadGroup(Struct):
    """A Workload with everything that a pass depends on.

    `check` is the state of its MultiKueue check; None if it has none. `owner` describes the kind of
    its job, and `dispatch` is None if that kind cannot be dispatched. `jobs` are the local job, or
    all Pods of a group. `current` is the name of the Workload that describes the job as it is now,
    which differs from the name of an outdated slice of an elastic job.

    `clusters` are the configured ones, in order. Each is in `remotes` if it is connected, otherwise
    in `lost` with the time since when it is not. `removed` are copies in clusters that are not
    configured, or not any more.

    `components` are the other Workloads of a job that has several, and `expected` is their number
    including this one; None for any other job. `round_started` is when the incremental dispatcher
    last nominated clusters.
    """

    local: StoredWorkload
    settings: MultiKueueSettings
    check: AdmissionCheckState | None = None
    deleted: bool = False
    owner: str = ""
    dispatch: Dispatch | None = None
    jobs: tuple[Json, ...] = ()
    current: str = ""
    clusters: tuple[str, ...] = ()
    remotes: Mapping[str, RemoteCopies] = {}
    lost: Mapping[str, float] = {}
    removed: Mapping[str, RemoteCopies] = {}
    components: tuple[Component, ...] = ()
    index: int | None = None
    expected: int | None = None
    round_started: float | None = None
    confirmed: str = ""
    """The cluster whose jobs were read after its Workloads were known: see `GroupResult`."""
    failures: Mapping[str, str] = {}
    """Why the last writes to clusters failed, if a user has to correct something."""

    @property
    def gates(self) -> Gates:
        return self.settings.gates


class GroupResult(Struct):
    """The writes of a pass.

    The manager's writes in `first` are sent first. Then the writes of each cluster in `remote` are
    sent, independently of one another. Those in `last` follow if the writes of the clusters in
    `needs` have succeeded. `fault` is why the pass has to be repeated. `nominated` is whether a
    round of the incremental dispatcher begins.
    """

    first: tuple[Effect, ...] = ()
    remote: Mapping[str, tuple[Effect, ...]] = {}
    last: tuple[Effect, ...] = ()
    needs: tuple[str, ...] = ()
    requeue_after_s: float | None = None
    fault: str = ""
    nominated: bool = False
    confirm: str = ""
    """The cluster whose jobs have to be read for another pass, which can then finish."""
    repeat: bool = False
    """Whether another pass follows `first` at once, which decides what is sent to the clusters."""
    dispatched: tuple[str, ...] = ()
    """The clusters that get a copy of the Workload."""
    admitted: str = ""
    """The cluster in which the Workload is admitted from now on."""
