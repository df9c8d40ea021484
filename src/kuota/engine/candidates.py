# SPDX-License-Identifier: Apache-2.0
"""Whom a preemptor may displace, and in which order they are considered (`spec/decisions.md` 5.2).

What both ways of searching share: the demand itself, the eligibility test, the order of candidates,
the bound that tells a hopeless demand early, and the return of victims that were not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key

import msgspec

from kuota.api.base import Key

from .amounts import Amounts, FlavorResource
from .model import Workload
from .policy import Policy
from .ranking import queue_timestamp
from .reasons import PreemptionReason
from .snapshot import Queue, Running, Snapshot
from .tree import available

ANY = "Any"
LOWER = "LowerPriority"
LOWER_OR_NEWER = "LowerOrNewerEqualPriority"

Rank = tuple[bool, bool, int, float, str, Key]


class Target(msgspec.Struct, frozen=True):
    """A running workload that has to go, and why it was chosen."""

    running: Running
    reason: PreemptionReason


class Demand:
    """Who asks for room, and how much. `needed` are the columns that do not fit as things are.

    `placement` is an extra test of the snapshot as it stands, made after the quota fits.
    """

    __slots__ = ("_wants", "needed", "placement", "queue", "request", "snapshot", "workload")

    def __init__(
        self,
        workload: Workload,
        queue: Queue,
        needed: frozenset[FlavorResource],
        request: Amounts,
        snapshot: Snapshot,
        placement: Callable[[], bool] | None = None,
    ) -> None:
        self.workload = workload
        self.queue = queue
        self.needed = needed
        self.request = request
        self.snapshot = snapshot
        self.placement = placement
        self._wants = [
            (column, queue.node.cell(column), amount) for column, amount in request.items()
        ]

    def fits(self, borrowing: bool = True) -> bool:
        """Whether the whole request has room now; without borrowing, within nominal quota too."""
        for _, cell, amount in self._wants:
            if amount > 0 and amount > available(cell):
                return False
            if not borrowing and cell.borrows_with(amount):
                return False
        return self.placement is None or self.placement()

    def hopeless(self, candidates: Sequence[Running]) -> bool:
        """Whether the request does not fit even with all candidates gone.

        Taking an amount out of any one queue makes at most that amount available to any other:
        per node on the way up, what becomes free there and what is passed on to its parent add up
        to at most the amount, and limits only cap it. So room now plus all the usage of the
        candidates bounds the room that any subset of them could leave.
        """
        for column, cell, amount in self._wants:
            missing = amount - available(cell)
            if amount > 0 and missing > 0:
                for each in candidates:
                    missing -= each.usage.get(column, 0)
                    if missing <= 0:
                        break
                else:
                    return True
        return False


def gives_up(rule: str, candidate: Workload, preemptor: Workload, policy: Policy) -> bool:
    """Whether a preemption policy lets one workload displace another. An unset one never does."""
    if rule == ANY:
        return True
    if rule not in (LOWER, LOWER_OR_NEWER):
        return False
    if candidate.priority != preemptor.priority or rule == LOWER:
        return candidate.priority < preemptor.priority
    return queue_timestamp(candidate, policy) > queue_timestamp(preemptor, policy)


def eligible(queue: Queue, rule: str, demand: Demand) -> list[Running]:
    """The workloads of a queue that the preemptor may displace under the rule, in no order.

    They use a column the demand lacks. The slice that an elastic preemptor replaces is not one of
    them.
    """
    needed, preemptor, policy = demand.needed, demand.workload, demand.snapshot.policy
    running = demand.snapshot.running(queue)
    if rule == ANY:
        found = [each for each in running if each.uses(needed)]
    else:
        # Whoever is above this never yields: one comparison spares the rest for most.
        ceiling = preemptor.priority - (rule == LOWER)
        found = [
            each
            for each in running
            if each.workload.priority <= ceiling
            and each.uses(needed)
            and gives_up(rule, each.workload, preemptor, policy)
        ]
    if preemptor.replaces is not None:
        return [each for each in found if each.key != preemptor.replaces]
    return found


def rank(running: Running, home: str, now: float) -> Rank:
    """Where a candidate stands when the use of LocalQueues does not count; smaller goes first.

    Those already on their way out, then other queues', then the lowest priority, then the latest
    reservation.
    """
    workload = running.workload
    since = running.reserved_at
    return (
        workload.evicted is None,
        running.queue == home,
        workload.priority,
        -(now if since is None else since),
        workload.uid,
        workload.key,
    )


def ordered(candidates: list[Running], demand: Demand) -> list[Running]:
    """The candidates, first victim first."""
    if len(candidates) < 2:
        return candidates
    home, snapshot = demand.queue.name, demand.snapshot
    now = snapshot.now
    if snapshot.policy.admission_fair_sharing is None:
        return sorted(candidates, key=lambda each: rank(each, home, now))
    return sorted(candidates, key=cmp_to_key(_Comparison(home, snapshot)))


class _Comparison:
    """The order of candidates where past use counts: within one queue, heavy users go first.

    It is no total order across queues, as in Kueue: between queues only the rank decides.
    """

    def __init__(self, home: str, snapshot: Snapshot) -> None:
        self._home = home
        self._snapshot = snapshot

    def __call__(self, one: Running, other: Running) -> int:
        now = self._snapshot.now
        mine, theirs = rank(one, self._home, now), rank(other, self._home, now)
        if mine[:2] == theirs[:2] and self._by_use(one, other):
            use = self._snapshot.local_use
            heavy, light = use(one.workload.local_queue), use(other.workload.local_queue)
            if heavy != light:
                return -1 if heavy > light else 1
        return -1 if mine < theirs else 1

    def _by_use(self, one: Running, other: Running) -> bool:
        return (
            one.queue == other.queue
            and one.workload.queue != other.workload.queue
            and self._snapshot.queues[one.queue].spec.usage_based
        )


def without_superfluous(
    victims: list[Target], demand: Demand, borrowing: bool = True
) -> tuple[Target, ...]:
    """Victims less those the demand fits without, tried from the last but one to the first.

    All of them are out of the snapshot; those let off are put back. The last one stays a victim,
    and takes the place of whoever is let off.
    """
    for index in range(len(victims) - 2, -1, -1):
        running = victims[index].running
        demand.snapshot.restore(running)
        if demand.fits(borrowing):
            victims[index] = victims[-1]
            victims.pop()
        else:
            demand.snapshot.remove(running)
    return tuple(victims)
