# SPDX-License-Identifier: Apache-2.0
"""Balanced placement: pods spread evenly over as few domains as possible.

For a preferred level, the domains below one domain of the next higher level are considered
together. The *threshold* is the largest number of slices that each used domain can get at least.
Domains below it are ignored. Of the others, the smallest set that holds all slices is used, with as
little unused capacity as possible. Each domain of the set gets the threshold, and the rest is
handed out in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log2

from .fit import ChosenDomains, Demand, DomainShare
from .tree import Domain, TopologyTree
from .view import Capacities, CapacityView, DomainFit, Fit, OverlaidCapacities, below, candidates


class SiblingGroup:
    """Candidates that one domain contains, without those below the threshold."""

    def __init__(self, found: list[DomainFit], capacities: Capacities, threshold: int) -> None:
        self.found = found
        self.capacities = capacities
        self.threshold = threshold


def balanced(
    tree: TopologyTree, capacities: Capacities, view: CapacityView, demand: Demand
) -> tuple[ChosenDomains, Capacities] | None:
    """Return an even choice and the capacities without ignored domains, or None."""
    group = best_group(tree, capacities, view, demand)
    if group is None:
        return None
    found, level = group.found, demand.level
    if level < demand.slicing.level:
        chosen = smallest_set(found, demand, group.capacities)
        if chosen is None:
            return None
        found = below(
            group.capacities, sorted((each.domain for each in chosen), key=lambda d: d.values)
        )
        level += 1
    shares = even_shares(found, demand, group.threshold)
    if shares is None:
        return None
    return ChosenDomains(level, shares), group.capacities


def best_group(
    tree: TopologyTree, capacities: Capacities, view: CapacityView, demand: Demand
) -> SiblingGroup | None:
    """Return the siblings with the highest threshold; of equal ones, those that need the fewest."""
    best: SiblingGroup | None = None
    fewest = 0
    for siblings in _sibling_groups(tree, capacities, demand):
        found = _lower(siblings, capacities, demand)
        greedy = _greedy(found, demand)
        if greedy is None:
            continue
        for threshold in _thresholds(greedy, demand):
            if best is not None and threshold < best.threshold:
                break
            group = pruned(siblings, capacities, view, demand, threshold)
            left = _greedy(group.found, demand)
            if left is None:
                continue
            used = len(left)
            if threshold and (best is None or threshold > best.threshold or used < fewest):
                best, fewest = group, used
            break
    return best


def _sibling_groups(
    tree: TopologyTree, capacities: Capacities, demand: Demand
) -> Iterator[list[DomainFit]]:
    if not demand.level:
        yield candidates(tree, capacities, 0)
        return
    for parent in tree.at(demand.level - 1):
        yield below(capacities, (parent,))


def _lower(found: list[DomainFit], capacities: Capacities, demand: Demand) -> list[DomainFit]:
    """Return the candidates that get slices: one level down if slices are below this one."""
    if demand.level < demand.slicing.level:
        return below(capacities, (each.domain for each in found))
    return found


def _greedy(found: list[DomainFit], demand: Demand) -> list[tuple[Fit, bool]] | None:
    """Return the domains that a greedy choice uses, and whether the leader is there, or None."""
    left, used = demand.slices, []
    if demand.leaders:
        first = demand.profile.ordered_for_leader(found)[:1]
        if not first or not first[0].fit.leader:
            return None
        left -= first[0].fit.slices_with_leader
        used.append((first[0].fit, True))
        found = [each for each in found if each.domain is not first[0].domain]
    for each in demand.profile.ordered(found):
        if left <= 0 or not each.fit.slices:
            break
        left -= each.fit.slices
        used.append((each.fit, False))
    return None if left > 0 else used


def _thresholds(used: list[tuple[Fit, bool]], demand: Demand) -> Iterator[int]:
    """Yield the threshold of a greedy choice, and a lower one that leaves room for the leader."""
    if not used:
        return
    last, hosts_leader = used[-1]
    threshold = demand.slices // len(used)
    threshold = min(threshold, last.slices_with_leader if hosts_leader else last.slices)
    if used[0][1]:
        threshold = min(threshold, used[0][0].slices_with_leader)
    yield threshold
    if demand.leaders and not hosts_leader and 0 < last.slices_with_leader < threshold:
        yield last.slices_with_leader


def pruned(
    siblings: list[DomainFit],
    capacities: Capacities,
    view: CapacityView,
    demand: Demand,
    threshold: int,
) -> SiblingGroup:
    """Ignore domains below the threshold, first the children of the siblings, then the siblings.

    Below the slice level no domain has slices, so that all of them are ignored. The placement is
    then not balanced.
    """
    parents = [each.domain for each in siblings]
    children = _ignored(
        below(capacities, parents) if parents[0].children else [], demand, threshold
    )
    inner = OverlaidCapacities(capacities, view, children) if children else capacities
    own = _ignored([DomainFit(domain, inner.of(domain)) for domain in parents], demand, threshold)
    outer = OverlaidCapacities(inner, view, own) if own else inner
    return SiblingGroup(
        [DomainFit(domain, outer.of(domain)) for domain in parents], outer, threshold
    )


def _ignored(found: list[DomainFit], demand: Demand, threshold: int) -> dict[Domain, Fit]:
    ignored: dict[Domain, Fit] = {}
    for each in found:
        domain, fit = each.domain, each.fit
        if fit.slices < threshold:
            ignored[domain] = Fit(score=fit.score)
        elif demand.leaders and fit.leader and fit.slices_with_leader < threshold:
            ignored[domain] = Fit(fit.pods, fit.slices, score=fit.score)
    return ignored


def smallest_set(
    found: list[DomainFit], demand: Demand, capacities: Capacities | None = None
) -> list[DomainFit] | None:
    """Return the fewest domains that hold all slices, with the least unused capacity, or None.

    Ties go to domains that come first: by values or, with `capacities`, by room for the leader, by
    capacity, and by how evenly children divide it.
    """
    greedy = _greedy(found, demand)
    if greedy is None:
        return None
    size = len(greedy)
    if capacities is not None:
        found = sorted(found, key=lambda each: _rank(each, capacities))
    # steps[n] maps (leaders, pods) that have no place yet to n domains that leave them.
    steps: list[dict[tuple[int, int], tuple[DomainFit, ...]]] = [{} for _ in range(size + 1)]
    steps[0][demand.leaders, demand.slices * demand.slicing.size] = ()
    for each in found:
        for n in range(size, 0, -1):
            for (leaders, pods), used in sorted(steps[n - 1].items(), key=lambda item: item[0]):
                if leaders > 0 or pods > 0:
                    _extend(steps[n], leaders, pods, (*used, each))
    complete = [left for left in steps[size] if left[0] == 0 and left[1] <= 0]
    return list(steps[size][max(complete)]) if complete else None


def _extend(
    step: dict[tuple[int, int], tuple[DomainFit, ...]],
    leaders: int,
    pods: int,
    used: tuple[DomainFit, ...],
) -> None:
    """Add a choice with its last domain hosting the leader, and one without."""
    fit = used[-1].fit
    if leaders > 0 and fit.leader:
        step.setdefault((leaders - fit.leader, pods - fit.pods_with_leader), used)
    if fit.slices:
        step.setdefault((leaders, pods - fit.pods), used)


def _rank(each: DomainFit, capacities: Capacities) -> tuple[int, int, float, tuple[str, ...]]:
    domain, fit = each.domain, each.fit
    evenness = entropy([child.pods for child in capacities.children(domain)])
    return (-fit.leader, -fit.slices_with_leader, -evenness, domain.values)


def entropy(counts: list[int]) -> float:
    """Return how evenly the counts are distributed, in bits. Zero counts do not matter."""
    total = sum(counts)
    parts = [count / total for count in counts if count > 0]
    return -sum(part * log2(part) for part in parts)


def even_shares(found: list[DomainFit], demand: Demand, threshold: int) -> list[DomainShare] | None:
    """Give each domain of the smallest set the threshold, and hand out the rest in order."""
    chosen = smallest_set(found, demand)
    if chosen is None or demand.slices < len(chosen) * threshold:
        return None
    order = sorted(chosen, key=lambda each: each.domain.values)
    rest = demand.slices - len(chosen) * threshold
    leaders = demand.leaders
    shares: list[DomainShare] = []
    for each in demand.profile.ordered_for_leader(order):
        fit = each.fit
        room = fit.slices_with_leader if leaders else fit.slices
        more = min(room - threshold, rest)
        shares.append(DomainShare(each.domain, (threshold + more) * demand.slicing.size, leaders))
        leaders = 0
        rest -= more
    return None if rest else shares
