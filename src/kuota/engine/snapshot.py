# SPDX-License-Identifier: Apache-2.0
"""What the engine believes in one cycle: quota, who runs where, flavors; with trial and rollback.

The snapshot is no copy. It looks at the engine's own tree, and whatever a cycle or a "what if" does
to it is undone when the `with snapshot.trial()` block ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import TracebackType

from kuota.api.base import Key

from .amounts import Amounts
from .model import ClusterQueue, Instant, LocalQueue, ResourceFlavor, Topology
from .policy import Policy
from .running import Running as Running
from .running import RunningSet
from .topology import NoPlacement, Placement
from .tree import Journal, Node, Tree, charge, release


class Queue:
    """A ClusterQueue in the snapshot: what it was told, its place in the tree, who runs in it.

    `active` queues take part in cycles and offer victims; the quota of the others still counts.
    """

    __slots__ = ("active", "node", "running", "spec")

    def __init__(self, spec: ClusterQueue, node: Node) -> None:
        self.spec = spec
        self.node = node
        self.running = RunningSet()
        self.active = True

    @property
    def name(self) -> str:
        return self.spec.name

    def __repr__(self) -> str:
        return f"Queue({self.name})"


def no_use(queue: Key) -> float:
    """The usage of LocalQueues when nobody keeps a ledger."""
    return 0.0


class Snapshot:
    """One cycle's view. Changes are made inside `trial` and vanish with it."""

    def __init__(
        self,
        tree: Tree,
        queues: dict[str, Queue],
        flavors: Mapping[str, ResourceFlavor],
        *,
        topologies: Mapping[str, Topology] | None = None,
        local_queues: Mapping[Key, LocalQueue] | None = None,
        policy: Policy | None = None,
        now: Instant = 0.0,
        cycle: int = 0,
        local_use: Callable[[Key], float] = no_use,
        placement: Placement | None = None,
    ) -> None:
        self.tree = tree
        self.queues = queues
        self.flavors = flavors
        self.topologies = topologies or {}
        self.local_queues = local_queues or {}
        self.policy = policy or Policy()
        self.now = now
        self.cycle = cycle
        self.local_use = local_use
        self.placement = placement or NoPlacement()
        self._removed: set[Key] = set()
        self._journal: Journal = []
        self._removals: list[tuple[bool, Key]] = []

    def trial(self) -> Trial:
        """A block after which the snapshot is as it was before. Blocks may nest."""
        return Trial(self)

    def add_usage(self, queue: Queue, usage: Amounts) -> None:
        """Count usage that is not (yet) a running workload. Only inside a trial."""
        for column, amount in usage.items():
            charge(queue.node.cell(column), amount, self._journal)

    def remove_usage(self, queue: Queue, usage: Amounts) -> None:
        for column, amount in usage.items():
            release(queue.node.cell(column), amount, self._journal)

    def remove(self, running: Running) -> None:
        """Take a running workload out: its usage is free and it is nobody's candidate."""
        self.remove_usage(self.queues[running.queue], running.usage)
        self._removed.add(running.key)
        self._removals.append((True, running.key))

    def restore(self, running: Running) -> None:
        """Put back what `remove` took out."""
        self.add_usage(self.queues[running.queue], running.usage)
        self._removed.discard(running.key)
        self._removals.append((False, running.key))

    def gone(self, running: Running) -> bool:
        """Whether it was taken out."""
        return running.key in self._removed

    def running(self, queue: Queue) -> Iterator[Running]:
        """Who runs in the queue, less those that were removed."""
        if not self._removed:
            return iter(queue.running.values())
        return (each for key, each in queue.running.items() if key not in self._removed)

    def queue_of(self, node: Node) -> Queue | None:
        """The queue of a leaf, if it is active: inactive ones offer nothing and take no part."""
        queue = self.queues.get(node.name)
        return queue if queue is not None and queue.active else None

    def mark(self) -> tuple[int, int]:
        return len(self._journal), len(self._removals)

    def rewind(self, mark: tuple[int, int]) -> None:
        """Undo everything since `mark`, latest first."""
        journal, removals = self._journal, self._removals
        while len(journal) > mark[0]:
            cell, used = journal.pop()
            cell.used = used
        while len(removals) > mark[1]:
            gone, key = removals.pop()
            (self._removed.discard if gone else self._removed.add)(key)


class Trial:
    """`with snapshot.trial():` — whatever happens inside, no trace of it is left."""

    __slots__ = ("_mark", "_snapshot")

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._mark = (0, 0)

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
