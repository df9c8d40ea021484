# SPDX-License-Identifier: Apache-2.0
"""The view of one cycle: quota, running workloads and flavors, with trial and rollback.

A snapshot is not a copy. It refers to the engine's own tree, and every change made by a cycle or a
trial is undone when the `with snapshot.trial()` block ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import TracebackType

from kuota.api.base import Key

from .charged import ChargedWorkload as ChargedWorkload
from .charged import ChargedWorkloads
from .model import AdmissionCheck, ClusterQueue, Instant, LocalQueue, ResourceFlavor, Topology
from .placement import NoPlacement, Placement
from .policy import Policy
from .topology.cluster import ClusterCapacity
from .tree import Journal, QuotaNode, QuotaTree, charge, release
from .usage import Usage, charge_places

Mark = tuple[int, int, int]
"""The lengths of the journals of quota, of removed workloads and of placed pods."""


class Queue:
    """A ClusterQueue in the snapshot: its spec, its node in the tree, and its running workloads.

    Only `active` queues take part in cycles and provide candidates. The quota of other queues still
    counts.
    """

    __slots__ = ("node", "running", "spec")

    def __init__(self, spec: ClusterQueue, node: QuotaNode) -> None:
        self.spec = spec
        self.node = node
        self.running = ChargedWorkloads()

    @property
    def active(self) -> bool:
        return self.node.active

    @active.setter
    def active(self, active: bool) -> None:
        self.node.set_active(active)

    @property
    def name(self) -> str:
        return self.spec.name

    def __repr__(self) -> str:
        return f"Queue({self.name})"


def no_usage(queue: Key) -> float:
    """The usage of LocalQueues without admission fair sharing."""
    return 0.0


class Snapshot:
    """The view of one cycle. Changes are made inside `trial` and undone with it."""

    def __init__(
        self,
        tree: QuotaTree,
        queues: dict[str, Queue],
        flavors: Mapping[str, ResourceFlavor],
        *,
        topologies: Mapping[str, Topology] | None = None,
        checks: Mapping[str, AdmissionCheck] | None = None,
        local_queues: Mapping[Key, LocalQueue] | None = None,
        policy: Policy | None = None,
        now: Instant = 0.0,
        cycle: int = 0,
        local_queue_usage: Callable[[Key], float] = no_usage,
        placement: Placement | None = None,
        cluster: ClusterCapacity | None = None,
    ) -> None:
        self.tree = tree
        self.queues = queues
        self.flavors = flavors
        self.topologies = topologies or {}
        self.checks = checks or {}
        self.local_queues = local_queues or {}
        self.policy = policy or Policy()
        self.now = now
        self.cycle = cycle
        self.local_queue_usage = local_queue_usage
        self.placement = placement or NoPlacement()
        self.cluster = cluster or ClusterCapacity()
        self._removed: set[Key] = set()
        self._journal: Journal = []
        self._removals: list[tuple[bool, Key]] = []
        self._placed: list[tuple[Usage, int]] = []

    def trial(self) -> Trial:
        """Return a context manager that restores the snapshot on exit. Trials may be nested."""
        return Trial(self)

    def add_usage(self, queue: Queue, usage: Usage) -> None:
        """Add usage that does not belong to a running workload. Only inside a trial."""
        for column, amount in usage.quota.items():
            charge(queue.node.cell(column), amount, self._journal)
        self._place(usage, 1)

    def remove_usage(self, queue: Queue, usage: Usage) -> None:
        for column, amount in usage.quota.items():
            release(queue.node.cell(column), amount, self._journal)
        self._place(usage, -1)

    def _place(self, usage: Usage, sign: int) -> None:
        if usage.places:
            charge_places(self.cluster, usage, sign)
            self._placed.append((usage, sign))

    def remove(self, running: ChargedWorkload) -> None:
        """Remove a running workload: its usage is released and it is not a candidate."""
        self.remove_usage(self.queues[running.queue], running.usage)
        self._removed.add(running.key)
        self._removals.append((True, running.key))

    def restore(self, running: ChargedWorkload) -> None:
        """Undo `remove`."""
        self.add_usage(self.queues[running.queue], running.usage)
        self._removed.discard(running.key)
        self._removals.append((False, running.key))

    def gone(self, running: ChargedWorkload) -> bool:
        """Whether the workload was removed."""
        return running.key in self._removed

    def running(self, queue: Queue) -> Iterator[ChargedWorkload]:
        """Yield the running workloads of the queue that were not removed."""
        if not self._removed:
            return iter(queue.running.values())
        return (each for key, each in queue.running.items() if key not in self._removed)

    def queue_of(self, node: QuotaNode) -> Queue | None:
        """Return the queue of a leaf if it is active. Inactive queues do not take part."""
        queue = self.queues.get(node.name)
        return queue if queue is not None and queue.active else None

    def mark(self) -> Mark:
        return len(self._journal), len(self._removals), len(self._placed)

    def rewind(self, mark: Mark) -> None:
        """Undo everything since `mark`, latest change first."""
        journal, removals = self._journal, self._removals
        while len(self._placed) > mark[2]:
            usage, sign = self._placed.pop()
            charge_places(self.cluster, usage, -sign)
        while len(journal) > mark[0]:
            cell, used = journal.pop()
            cell.used = used
        while len(removals) > mark[1]:
            gone, key = removals.pop()
            (self._removed.discard if gone else self._removed.add)(key)


class Trial:
    """A context manager that undoes every change of the snapshot made inside it."""

    __slots__ = ("_mark", "_snapshot")

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._mark: Mark = (0, 0, 0)

    def __enter__(self) -> Snapshot:
        self._mark = self._snapshot.mark()
        return self._snapshot

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._snapshot.rewind(self._mark)
