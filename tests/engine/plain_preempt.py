# SPDX-License-Identifier: Apache-2.0
"""A direct implementation of the preemption rules, for comparison only."""

from __future__ import annotations

from kuota.api.base import Key
from kuota.api.gates import Gate
from kuota.engine.amounts import Amounts
from kuota.engine.candidates import PreemptionRequest, may_preempt
from kuota.engine.fairness import DominantResourceShare, share
from kuota.engine.policy import FINAL_SHARE, INITIAL_SHARE
from kuota.engine.snapshot import ChargedWorkload, Queue
from kuota.engine.tree import QuotaNode
from kuota.engine.usage import Usage

Victims = list[tuple[ChargedWorkload, str]]


def plain_victims(request: PreemptionRequest) -> dict[str, str]:
    with request.snapshot.trial():
        fair = request.snapshot.policy.fair_sharing is not None
        found = Fair(request).victims() if fair else classical(request)
    return {running.key.name: reason for running, reason in found}


def eligible(request: PreemptionRequest, queue: Queue, rule: str) -> list[ChargedWorkload]:
    policy = request.snapshot.policy
    return [
        each
        for each in request.snapshot.running(queue)
        if each.uses(request.needed) and may_preempt(rule, each.workload, request.workload, policy)
    ]


def order(request: PreemptionRequest, candidates: list[ChargedWorkload]) -> list[ChargedWorkload]:
    """5.2, without the use of LocalQueues."""
    return sorted(
        candidates,
        key=lambda each: (
            each.workload.evicted is None,
            each.queue == request.queue.name,
            each.workload.priority,
            -(each.reserved_at or 0),
            each.workload.uid,
        ),
    )


def fill_back(request: PreemptionRequest, victims: Victims, borrowing: bool) -> Victims:
    for index in range(len(victims) - 2, -1, -1):
        request.snapshot.restore(victims[index][0])
        if request.fits(borrowing):
            victims[index] = victims[-1]
            victims = victims[:-1]
        else:
            request.snapshot.remove(victims[index][0])
    return victims


def fits_in_quota(node: QuotaNode, amounts: Amounts) -> tuple[bool, Amounts]:
    cells = {column: node.cell(column) for column in amounts}
    fits = all(cells[c].used + amount <= cells[c].subtree for c, amount in amounts.items())
    rest = {
        c: max(0, amount - max(0, cells[c].local - cells[c].used)) for c, amount in amounts.items()
    }
    return fits, rest


def queues_in(request: PreemptionRequest, node: QuotaNode, seen: QuotaNode) -> list[Queue]:
    """Queues of a subtree that are over quota, as far as nothing around them is within."""
    if node is seen or node.within_quota(request.needed):
        return []
    if node.is_queue:
        queue = request.snapshot.queue_of(node)
        return [queue] if queue is not None else []
    children = (*node.cohorts.values(), *node.queues.values())
    return [queue for child in children for queue in queues_in(request, child, seen)]


def classical(request: PreemptionRequest) -> Victims:
    rules, node = request.queue.spec.preemption, request.queue.node
    lists: dict[str, list[ChargedWorkload]] = {"hierarchy": [], "priority": []}
    ancestor: dict[str, QuotaNode] = {}
    lists["own"] = eligible(request, request.queue, rules.within_cluster_queue)
    advantage, rest = fits_in_quota(node, request.amounts)
    below = node
    for cohort in node.ancestors():
        for child in (*cohort.cohorts.values(), *cohort.queues.values()):
            for queue in queues_in(request, child, below):
                ancestor[queue.name] = cohort
                kind = "hierarchy" if advantage else "priority"
                lists[kind] += eligible(request, queue, rules.reclaim_within_cohort)
        fits, rest = fits_in_quota(cohort, rest)
        advantage = advantage or fits
        below = cohort
    kinds = {each.key: kind for kind, found in lists.items() for each in found}
    line = [
        each
        for evicted in (True, False)
        for kind in ("hierarchy", "priority", "own")
        for each in order(request, lists[kind])
        if (each.workload.evicted is not None) == evicted
    ]
    for borrowing in attempts(request, lists):
        victims = attempt(request, line, kinds, ancestor, borrowing)
        if victims:
            return victims
    return []


def attempts(request: PreemptionRequest, lists: dict[str, list[ChargedWorkload]]) -> list[bool]:
    borrows = request.queue.spec.preemption.borrow_within_cohort
    cells = [request.queue.node.cell(column) for column in request.needed]
    under = all(cell.used < cell.nominal for cell in cells)
    if not (lists["hierarchy"] or lists["priority"]) or (not borrows and not under):
        return [True]
    return [False, True] if not borrows and not lists["hierarchy"] else [True, False]


def attempt(
    request: PreemptionRequest,
    line: list[ChargedWorkload],
    kinds: dict[Key, str],
    ancestor: dict[str, QuotaNode],
    borrowing: bool,
) -> Victims:
    victims: Victims = []
    with request.snapshot.trial():
        for each in line:
            kind = class_of(request, each, kinds[each.key])
            if kind != "InClusterQueue" and (
                (borrowing and kind == "no borrowing") or safe(request, each, ancestor[each.queue])
            ):
                continue
            request.snapshot.remove(each)
            reason = "InCohortReclamation" if kind == "no borrowing" else kind
            victims.append((each, reason))
            if request.fits(borrowing):
                return fill_back(request, victims, borrowing)
    return []


def class_of(request: PreemptionRequest, running: ChargedWorkload, kind: str) -> str:
    rules, priority = request.queue.spec.preemption, running.workload.priority
    threshold = rules.borrow_max_priority
    if kind == "own":
        return "InClusterQueue"
    if kind == "hierarchy":
        return "InCohortReclamation"
    if not rules.borrow_within_cohort or priority >= request.workload.priority:
        return "no borrowing"
    if threshold is not None and priority > threshold:
        return "no borrowing"
    return "InCohortReclaimWhileBorrowing"


def safe(request: PreemptionRequest, running: ChargedWorkload, ancestor: QuotaNode) -> bool:
    at: QuotaNode | None = request.snapshot.queues[running.queue].node
    while at is not None and at is not ancestor:
        if at.within_quota(request.needed):
            return True
        at = at.parent
    return False


class Fair:
    """5.10. Nothing is remembered between two choices but who was dropped."""

    def __init__(self, request: PreemptionRequest) -> None:
        self.request = request
        self.home = request.queue.node
        self.dropped: set[QuotaNode] = set()
        self.left: dict[QuotaNode, list[ChargedWorkload]] = {}
        self.aside: list[ChargedWorkload] = []
        self.taken: Victims = []

    def victims(self) -> Victims:
        request, snapshot = self.request, self.request.snapshot
        rules = request.queue.spec.preemption
        found = eligible(request, request.queue, rules.within_cluster_queue)
        for leaf in self.home.root.leaves():
            queue = snapshot.queue_of(leaf)
            over = any(leaf.cell(c).used > leaf.cell(c).nominal for c in request.needed)
            if queue is not None and leaf is not self.home and over:
                found += eligible(request, queue, rules.reclaim_within_cohort)
        self.group(order(request, found))
        first, *then = snapshot.policy.fair_sharing or (FINAL_SHARE, INITIAL_SHARE)
        snapshot.add_usage(request.queue, Usage(quota=request.amounts))
        done = self.first_pass(first)
        if not done and then:
            self.dropped = set()
            self.group(self.aside)
            done = self.second_pass()
        snapshot.remove_usage(request.queue, Usage(quota=request.amounts))
        return fill_back(request, self.taken, True) if done else []

    def group(self, candidates: list[ChargedWorkload]) -> None:
        self.left = {}
        for each in candidates:
            node = self.request.snapshot.queues[each.queue].node
            self.left.setdefault(node, []).append(each)

    def first_pass(self, strategy: str) -> bool:
        policy = self.request.snapshot.policy
        entitled = policy.on(Gate.FairSharingPreemptWithinNominal) and self.home.within_quota(
            self.request.needed
        )
        while (queue := self.choice()) is not None:
            line = self.left[queue]
            if queue is self.home or entitled:
                own = queue is self.home
                if self.take(line.pop(0), "InClusterQueue" if own else "InCohortReclamation"):
                    return True
                continue
            ours, theirs = self.sides(queue)
            new, old = share(ours), share(theirs)
            if new.infinite and not old.infinite:
                self.aside += line
                line.clear()
            while line:
                candidate = line.pop(0)
                with self.request.snapshot.trial():
                    self.request.snapshot.remove(candidate)
                    after = share(theirs)
                if passes(strategy, new, old, after):
                    if self.take(candidate, "InCohortFairSharing"):
                        return True
                    break
                self.aside.append(candidate)
        return False

    def second_pass(self) -> bool:
        while (queue := self.choice()) is not None:
            ours, theirs = self.sides(queue)
            candidate = self.left[queue][0]
            self.dropped.add(queue)
            if share(ours).load < share(theirs).load and self.take(
                candidate, "InCohortFairSharing"
            ):
                return True
        return False

    def take(self, running: ChargedWorkload, reason: str) -> bool:
        snapshot, request = self.request.snapshot, self.request
        snapshot.remove(running)
        self.taken.append((running, reason))
        snapshot.remove_usage(request.queue, Usage(quota=request.amounts))
        fits = request.fits()
        snapshot.add_usage(request.queue, Usage(quota=request.amounts))
        return fits

    def sides(self, queue: QuotaNode) -> tuple[QuotaNode, QuotaNode]:
        ours = [self.home, *self.home.ancestors()]
        theirs = [queue, *queue.ancestors()]
        while len(ours) > 1 and len(theirs) > 1 and ours[-2] is theirs[-2]:
            ours.pop()
            theirs.pop()
        return ours[-2], theirs[-2]

    def choice(self) -> QuotaNode | None:
        root = self.home.root
        if root.is_queue:
            return root if self.left.get(root) else None
        while root not in self.dropped:
            found = self.below(root)
            if found is not None:
                return found
        return None

    def below(self, cohort: QuotaNode) -> QuotaNode | None:
        path = [self.home, *self.home.ancestors()]
        queues = [cohort.queues[name] for name in sorted(cohort.queues)]
        cohorts = [cohort.cohorts[name] for name in sorted(cohort.cohorts)]
        for node in (*queues, *cohorts):
            idle = node not in path and not share(node).borrowing
            if idle or (node.is_queue and not self.left.get(node)):
                self.dropped.add(node)
        queues = [node for node in queues if node not in self.dropped]
        cohorts = [node for node in cohorts if node not in self.dropped]
        if not queues and not cohorts:
            self.dropped.add(cohort)
            return None
        line = order(self.request, [self.left[node][0] for node in queues])
        names = [running.queue for running in line]
        queues.sort(key=lambda node: names.index(node.name))
        best_queue = max(queues, key=lambda node: share(node).load, default=None)
        best = max(cohorts, key=lambda node: share(node).load, default=None)
        if best is None or (best_queue is not None and share(best_queue).load > share(best).load):
            return best_queue
        return self.below(best)


def passes(
    strategy: str,
    new: DominantResourceShare,
    old: DominantResourceShare,
    after: DominantResourceShare,
) -> bool:
    return new.load < old.load if strategy == INITIAL_SHARE else new.load <= after.load
