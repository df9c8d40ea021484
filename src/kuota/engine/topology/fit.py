# SPDX-License-Identifier: Apache-2.0
"""Chooses domains for pods and distributes pods among them: the second phase of a placement.

Two profiles decide which domains are used first. *Best fit* takes the fullest possible domains with
the most room first, and ends with the smallest one that holds the rest. *Least free capacity* takes
domains with the least room first, which keeps large domains free for those who require them.

Lists of candidates are in the order of their values. Sorting is stable, so values break ties.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

import msgspec

from kuota.engine.model import Struct

from .tree import Domain, TopologyTree
from .view import Capacities, DomainFit, Fit, Slicing, below, candidates

Count = Callable[[Fit], int]

_slices: Count = attrgetter("slices")
_slices_with_leader: Count = attrgetter("slices_with_leader")
_pods: Count = attrgetter("pods")
_pods_with_leader: Count = attrgetter("pods_with_leader")

# Makes one sort key of two counts: slices first, then pods. A key per node should not be a tuple,
# which the garbage collector would track.
_FACTOR = 2**64


class Profile(Struct):
    """The order of domains. With `by_score`, preferred node affinity precedes capacity."""

    least_free: bool = False
    by_score: bool = False

    def ordered(self, found: list[DomainFit]) -> list[DomainFit]:
        """Return the candidates in the order in which pods without a leader use them."""
        sign = _FACTOR if self.least_free else -_FACTOR
        result = sorted(found, key=lambda each: sign * each.fit.slices + each.fit.pods)
        if self.by_score:
            result.sort(key=lambda each: -each.fit.score)
        return result

    def ordered_for_leader(self, found: list[DomainFit]) -> list[DomainFit]:
        """Return the candidates in the order in which the leader and pods beside it use them."""
        sign = _FACTOR if self.least_free else -_FACTOR
        result = sorted(
            found, key=lambda each: sign * each.fit.slices_with_leader + each.fit.pods_with_leader
        )
        if self.by_score:
            result.sort(key=lambda each: -each.fit.score)
        result.sort(key=lambda each: -each.fit.leader)
        return result


class Demand(Struct):
    """Pods to place. `level` is the requested level; `leaders` is 1 if a leader goes with them.

    `layers` are the requested slice layers by level; `slicing` says the same about all levels.
    """

    count: int
    level: int
    slicing: Slicing
    layers: tuple[tuple[int, int], ...] = ()
    leaders: int = 0
    required: bool = False
    unconstrained: bool = False
    profile: Profile = Profile()

    @property
    def slices(self) -> int:
        return self.count // self.slicing.size


class DomainShare(msgspec.Struct, frozen=True, gc=False):
    """Pods, and perhaps the leader, that a domain gets."""

    domain: Domain
    pods: int
    leader: int = 0


class ChosenDomains(msgspec.Struct, frozen=True, gc=False):
    """Domains of one level that together hold all pods."""

    level: int
    shares: list[DomainShare]


class InsufficientCapacity(msgspec.Struct, frozen=True, gc=False):
    """No choice is possible. Only `slices` fit; None means that the level has no domains."""

    level: int
    slices: int | None


def choose(
    tree: TopologyTree, capacities: Capacities, demand: Demand, within: Domain | None = None
) -> ChosenDomains | InsufficientCapacity:
    """Choose domains at the requested level or, for preferred levels, at the next higher one.

    One domain is chosen if it holds everything. Otherwise a required level does not fit, a
    preferred one is given up for the next higher one, and pods are spread over several domains at
    the highest level, or at once if they are unconstrained.
    """
    level = demand.level
    while True:
        found = candidates(tree, capacities, level, within)
        if not found:
            return InsufficientCapacity(level, None)
        domain = _single(found, demand)
        if domain is not None:
            share = DomainShare(domain, demand.slices * demand.slicing.size, demand.leaders)
            return ChosenDomains(level, [share])
        if demand.required:
            top = demand.profile.ordered_for_leader(found)[0].fit
            return InsufficientCapacity(level, top.slices)
        if level == 0 or demand.unconstrained:
            return _spread(level, found, demand)
        level -= 1


def has_room(tree: TopologyTree, capacities: Capacities, demand: Demand) -> bool:
    """Whether `choose` succeeds. This is faster, but there must not be a leader."""
    need = demand.slices
    if demand.required:
        found = candidates(tree, capacities, demand.level)
        return any(each.fit.slices >= need for each in found)
    return bool(tree.root.children) and capacities.of(tree.root).slices >= need


def _single(found: list[DomainFit], demand: Demand) -> Domain | None:
    """Return the tightest domain that holds everything, or None."""
    need, leaders, profile = demand.slices, demand.leaders, demand.profile
    fitting = [
        each for each in found if each.fit.slices_with_leader >= need and each.fit.leader >= leaders
    ]
    if profile.by_score and not (demand.required or profile.least_free):
        # Best fit does not leave the domains with the best score for a domain that would do.
        best = max((each.fit.leader, each.fit.score) for each in found)
        fitting = [each for each in fitting if (each.fit.leader, each.fit.score) == best]
    if not fitting:
        return None
    return min(fitting, key=lambda each: _tightness(each.fit, profile)).domain


def _tightness(fit: Fit, profile: Profile) -> tuple[int, int, int]:
    return (-fit.score if profile.by_score else 0, fit.slices_with_leader, fit.pods_with_leader)


def _spread(
    level: int, found: list[DomainFit], demand: Demand
) -> ChosenDomains | InsufficientCapacity:
    need, leaders, size = demand.slices, demand.leaders, demand.slicing.size
    if not leaders:
        order = demand.profile.ordered(found)
    else:
        hosts_first = demand.profile.ordered_for_leader(found)
        first = _leader_first(hosts_first, need, leaders, _slices, _slices_with_leader)[0]
        if not first.fit.leader:
            return InsufficientCapacity(level, 0)
        rest = [each for each in found if each.domain is not first.domain]
        order = [first, *demand.profile.ordered(rest)]
    shares, missing = distributed(
        order, need, leaders, demand.profile, _slices, _slices_with_leader
    )
    if missing:
        return InsufficientCapacity(level, need - missing)
    return ChosenDomains(
        level, [DomainShare(each.domain, each.pods * size, each.leader) for each in shares]
    )


def descend(
    tree: TopologyTree, capacities: Capacities, demand: Demand, chosen: ChosenDomains
) -> list[DomainShare]:
    """Distribute the pods of the chosen domains to leaves.

    Above the slice level, all children of the chosen domains compete for the slices. From the slice
    level on, each domain distributes its own pods.
    """
    level, shares = chosen.level, chosen.shares
    lowest = len(tree.levels) - 1
    while level < min(lowest, demand.slicing.level):
        shares = _regrouped(capacities, demand, shares)
        level += 1
    return divide(tree, capacities, demand, ChosenDomains(level, shares))


def divide(
    tree: TopologyTree, capacities: Capacities, demand: Demand, chosen: ChosenDomains
) -> list[DomainShare]:
    """Distribute the pods of each chosen domain among the leaves of that domain."""
    shares = chosen.shares
    for level in range(chosen.level, len(tree.levels) - 1):
        slicing = demand.slicing
        above = level < slicing.level
        unit = slicing.size if above else slicing.unit(level + 1)
        counts = (_slices, _slices_with_leader) if above else _by_unit(unit)
        shares = [
            part
            for share in shares
            for part in _divided(capacities, demand.profile, share, unit, counts)
        ]
    return shares


def _by_unit(unit: int) -> tuple[Count, Count]:
    if unit == 1:
        return _pods, _pods_with_leader
    return (lambda fit: fit.pods // unit), (lambda fit: fit.pods_with_leader // unit)


def _regrouped(
    capacities: Capacities, demand: Demand, shares: list[DomainShare]
) -> list[DomainShare]:
    parents = sorted((share.domain for share in shares), key=lambda domain: domain.values)
    order = demand.profile.ordered(below(capacities, parents))
    size = demand.slicing.size
    need = sum(share.pods for share in shares) // size
    leaders = sum(share.leader for share in shares)
    parts, _ = distributed(order, need, leaders, demand.profile, _slices, _slices_with_leader)
    return [DomainShare(part.domain, part.pods * size, part.leader) for part in parts]


def _divided(
    capacities: Capacities,
    profile: Profile,
    share: DomainShare,
    unit: int,
    counts: tuple[Count, Count],
) -> list[DomainShare]:
    order = profile.ordered(below(capacities, (share.domain,)))
    parts, _ = distributed(order, share.pods // unit, share.leader, profile, *counts)
    if unit == 1:
        return parts
    return [DomainShare(part.domain, part.pods * unit, part.leader) for part in parts]


def distributed(
    order: list[DomainFit],
    need: int,
    leaders: int,
    profile: Profile,
    count: Count,
    with_leader: Count,
) -> tuple[list[DomainShare], int]:
    """Take candidates in order until `need` units and the leader have a place.

    Return the shares in units, and how many units have no place. If the leader has none, that is
    all of them. Domains that get nothing are left out, unless there is a leader: it may find its
    place there when the domains are divided further.
    """
    shares: list[DomainShare] = []
    left, all_count = need, leaders > 0
    order = _leader_first(order, need, leaders, count, with_leader)
    for index, each in enumerate(order):
        domain, fit = each.domain, each.fit
        rooms = with_leader if leaders else count
        room = rooms(fit)
        if room >= left and fit.leader >= leaders:
            if not profile.least_free:
                domain = _tightest(order[index:], left, leaders, profile, rooms)
            if left or all_count:
                shares.append(DomainShare(domain, left, leaders))
            return shares, 0
        leader, taken = min(fit.leader, leaders), min(room, left)
        if taken or all_count:
            shares.append(DomainShare(domain, taken, leader))
        left -= taken
        leaders -= leader
    return shares, need if leaders else left


def _tightest(
    found: list[DomainFit], need: int, leaders: int, profile: Profile, rooms: Count
) -> Domain:
    """Return the first of the smallest domains that hold all the rest, without a worse score."""
    first = found[0]
    domain, least = first.domain, rooms(first.fit)
    for each in found:
        if profile.by_score and each.fit.score != first.fit.score:
            break
        room = rooms(each.fit)
        if need <= room < least and each.fit.leader >= leaders:
            domain, least = each.domain, room
    return domain


def _leader_first(
    order: list[DomainFit], need: int, leaders: int, count: Count, with_leader: Count
) -> list[DomainFit]:
    """Move a domain to the front that can host the leader and leaves room enough for all pods."""
    if not leaders or len(order) < 2:
        return order
    total = sum(count(each.fit) for each in order)
    for index, each in enumerate(order):
        fit = each.fit
        if fit.leader >= leaders and total - count(fit) + with_leader(fit) >= need:
            return [order[index], *order[:index], *order[index + 1 :]]
    return order
