# SPDX-License-Identifier: Apache-2.0
"""Which flavors a workload would get, how well they fit, and what was tried on the way."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from kuota.api.quantity import add
from kuota.api.workload import TopologyAssignment

from .amounts import Amounts, FlavorResource, Requests
from .model import Struct
from .reasons import Reason, WaitReason


class Mode(IntEnum):
    """How well an assignment fits, worst to best."""

    NO_FIT = 0
    PREEMPT = 1
    DEFERRED_FIT = 2
    FIT = 3

    def __str__(self) -> str:
        return self.name.title().replace("_", "")


class Possibility(IntEnum):
    """What preemption could do for one column, worst to best. RECLAIM spares the own queue."""

    NO_CANDIDATES = 0
    PREEMPT = 1
    RECLAIM = 2

    def __str__(self) -> str:
        return self.name.title().replace("_", "")


class OracleResult(msgspec.Struct, frozen=True, gc=False):
    """The oracle's answer: what is possible, and the borrowing height once it was done."""

    possibility: Possibility
    height: int


class FlavorAssignment(Struct):
    """The flavor of one resource. `tried` is where the scan ended, None at the last flavor.

    `height` is how far up the tree the quota comes from; 0 is no borrowing.
    """

    flavor: str
    mode: Mode
    height: int = 0
    tried: int | None = None


class Attempt(Struct):
    """One flavor that was considered for one resource group, and the verdict on it.

    `preemption` says what the oracle found ("NoCandidates", "Preempt", "Reclaim"), "" if not asked.
    """

    flavor: str
    mode: Mode
    height: int = 0
    no_fit: WaitReason | None = None
    reasons: tuple[Reason, ...] = ()
    preemption: str = ""


class PodSetAssignment(Struct):
    """What one pod set would get. `error` stands instead of everything when its spec is broken.

    `topology` is where its pods would be placed; `kuota.engine.topology` sets it.
    """

    name: str
    count: int
    requests: Requests
    flavors: dict[str, FlavorAssignment] = {}
    reasons: tuple[Reason, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    error: str = ""
    topology_pending: bool = False
    topology: TopologyAssignment | None = None

    @property
    def mode(self) -> Mode:
        if not self.reasons and not self.error:
            return Mode.FIT
        if self.error or not self.flavors:
            return Mode.NO_FIT
        return min(each.mode for each in self.flavors.values())


class ScanProgress(Struct):
    """Where the flavor scan stood, per pod set and resource; None is the last flavor.

    `cycle`, `generation` and `scheduling_hash` tell when it was made, to know when it is outdated.
    """

    tried: tuple[dict[str, int | None], ...] = ()
    cycle: int = 0
    generation: int = 0
    scheduling_hash: str = ""

    @property
    def pending(self) -> bool:
        """Whether some scan ended before the last flavor, so that the next one goes on there."""
        return any(index is not None for each in self.tried for index in each.values())

    def start(self, pod_set: int, resource: str) -> int:
        """The index of the flavor to try first."""
        if pod_set >= len(self.tried):
            return 0
        index = self.tried[pod_set].get(resource)
        return 0 if index is None else index + 1


class Assignment(Struct):
    """Flavors for a whole workload. Its mode and height are those of its worst part.

    `usage` is what it would be charged: every pod set and resource that got a flavor, less what
    the slice it replaces holds already.
    """

    pod_sets: tuple[PodSetAssignment, ...]
    usage: Amounts
    mode: Mode
    height: int = 0
    no_fit: WaitReason | None = None
    progress: ScanProgress = ScanProgress()

    @property
    def needed(self) -> frozenset[FlavorResource]:
        """The columns that do not fit without preemption."""
        return frozenset(
            FlavorResource(choice.flavor, resource)
            for pod_set in self.pod_sets
            for resource, choice in pod_set.flavors.items()
            if choice.mode is Mode.PREEMPT
        )

    @property
    def pinned(self) -> tuple[dict[str, str], ...]:
        """The flavor of every resource, per pod set: what a recomputation may not change."""
        return tuple(
            {resource: choice.flavor for resource, choice in pod_set.flavors.items()}
            for pod_set in self.pod_sets
        )

    @property
    def granted(self) -> Amounts:
        """All that the pod sets get, whether or not a replaced slice holds some of it already."""
        total: Amounts = {}
        for pod_set in self.pod_sets:
            for resource, choice in pod_set.flavors.items():
                column = FlavorResource(choice.flavor, resource)
                total[column] = add(total.get(column, 0), pod_set.requests.get(resource, 0))
        return total

    def deferred(self) -> Assignment:
        """The same flavors, to be had only once others have left."""
        return msgspec.structs.replace(self, mode=Mode.DEFERRED_FIT)

    @classmethod
    def nothing(cls) -> Assignment:
        """The assignment of a workload that was not looked at."""
        return cls(pod_sets=(), usage={}, mode=Mode.NO_FIT)
