# SPDX-License-Identifier: Apache-2.0
"""What blocks a pending workload for which preemption found no victims, and what would help.

The answer names the running workloads that use the missing quota, the rule that protects each of
them, and the changes that would make room. A change of policy is suggested only after a trial shows
that it works.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from kuota.api.base import Key
from kuota.api.quantity import UNLIMITED, sub

from .amounts import FlavorResource
from .candidates import ANY, LOWER, LOWER_OR_NEWER, NEVER, Target, may_preempt
from .entry import Entry, Head
from .explanation import (
    Advice,
    Limit,
    ProtectedWorkload,
    ProtectionReason,
    Shortfall,
    Suggestion,
    TriedFlavor,
)
from .model import ClusterQueue, Preemption, Workload
from .nominate import plan
from .preempt import targets
from .reasons import Reason, RejectionCause
from .snapshot import ChargedWorkload, Queue, Snapshot
from .tree import QuotaNode

_CAUSE_RANK = {RejectionCause.INSUFFICIENT: 0, RejectionCause.EXCEEDS_MAX: 1}
"""Causes that a smaller request removes, by rank: 0 if waiting may help, else higher."""
_EASIEST_FIRST = list(Advice)


def suggestions(entry: Entry, tried: Sequence[TriedFlavor], snapshot: Snapshot) -> list[Suggestion]:
    """Return what would help an entry that neither fits nor finds victims, easiest first."""
    short = [each.lacks for each in tried if each.lacks]
    short.sort(key=lambda lacks: max(_CAUSE_RANK.get(each.reason.cause, 2) for each in lacks))
    found = [one for lacks in short for one in _releases_to_await(lacks)]
    found += [one for lacks in short for one in _smaller_requests(lacks, entry, snapshot)]
    if any(_only_short(lacks) for lacks in short):
        found += _policy_changes(entry, snapshot)
    found += [one for lacks in short for one in _spec_changes(lacks, entry)]
    return sorted(dict.fromkeys(found), key=lambda one: _EASIEST_FIRST.index(one.advice))


def _about(reason: Reason, advice: Advice, **fields: Any) -> Suggestion:
    return Suggestion(advice=advice, flavor=reason.flavor, resource=reason.resource, **fields)


def _only_short(lacks: Sequence[Shortfall]) -> bool:
    """Whether the flavor would fit if others released quota."""
    return all(each.reason.cause is RejectionCause.INSUFFICIENT for each in lacks)


def _releases_to_await(lacks: Sequence[Shortfall]) -> Iterator[Suggestion]:
    """Suggest waiting for a release of quota, if that alone helps."""
    for each in lacks if _only_short(lacks) else ():
        reason, where = each.reason, {"kind": each.kind, "where": each.where}
        yield _about(reason, Advice.WAIT_FOR_RELEASE, amount=reason.missing, **where)


def _spec_changes(lacks: Sequence[Shortfall], entry: Entry) -> Iterator[Suggestion]:
    """Suggest a change of the queue, the flavor or the pods for each obstacle."""
    queue = {"kind": "ClusterQueue", "where": entry.queue.name}
    for each in lacks:
        reason = each.reason
        match reason.cause:
            case RejectionCause.INSUFFICIENT:
                yield from _raised_limits(each, queue, reason.missing)
            case RejectionCause.EXCEEDS_MAX:
                yield from _raised_limits(each, queue, sub(reason.asked, reason.limit))
            case RejectionCause.UNDECLARED:
                yield _about(reason, Advice.OFFER_RESOURCE, **queue)
            case RejectionCause.TAINT:
                yield _about(reason, Advice.TOLERATE, detail=reason.detail)
            case RejectionCause.AFFINITY:
                yield _about(reason, Advice.MATCH_NODES)
            case RejectionCause.FLAVOR_NOT_FOUND:
                yield Suggestion(advice=Advice.CREATE, kind="ResourceFlavor", where=reason.flavor)


def _smaller_requests(
    lacks: Sequence[Shortfall], entry: Entry, snapshot: Snapshot
) -> Iterator[Suggestion]:
    """Suggest a smaller request. This helps only if there is no other obstacle."""
    reason = lacks[0].reason
    if len(lacks) > 1 or reason.cause not in _CAUSE_RANK:
        return
    room = sub(reason.limit, reason.assumed)
    if room > 0:
        yield _about(reason, Advice.ASK_LESS, amount=room)
    column = reason.column
    cell = entry.queue.node.cell(column)
    own = sub(sub(cell.nominal, cell.used), reason.assumed)
    if room < own < reason.requested and not reason.assumed:
        wanted = frozenset((column,))
        victims = targets(entry.workload, entry.queue, wanted, {column: own}, snapshot)
        if victims:
            yield _about(reason, Advice.ASK_LESS, amount=own, workloads=_keys(victims))


def _raised_limits(lack: Shortfall, queue: dict[str, str], missing: int) -> Iterator[Suggestion]:
    """Suggest raising the binding limit by the missing amount. Another limit may bind after it."""
    if lack.limit is None or missing == UNLIMITED:
        return
    raised = partial(_about, lack.reason, Advice.RAISE_LIMIT)
    for unlent in lack.unlent:
        amount = min(unlent.amount, missing)
        yield raised(kind=unlent.kind, where=unlent.name, field=Limit.LENDING, amount=amount)
    if lack.limit is Limit.BORROWING:
        yield raised(kind=lack.kind, where=lack.where, field=lack.limit, amount=missing)
    elif not lack.unlent:
        # The root may have no quota of its own, so the suggestion names the ClusterQueue.
        yield raised(**queue, field=Limit.NOMINAL, amount=missing)


def _policy_changes(entry: Entry, snapshot: Snapshot) -> Iterator[Suggestion]:
    """Suggest policies and priorities under which victims would be found, each tried on its own."""
    spec = entry.queue.spec
    for field, now, value, rules in _relaxed_policies(spec.preemption, entry.queue, snapshot):
        victims = _victims(entry, snapshot, spec=replace(spec, preemption=rules))
        if victims:
            yield Suggestion(
                advice=Advice.SET_POLICY,
                kind="ClusterQueue",
                where=spec.name,
                field=field,
                value=value,
                detail=now or "Never",
                workloads=victims,
            )
            return
    yield from _sufficient_priority(entry, snapshot)


def _relaxed_policies(
    rules: Preemption, queue: Queue, snapshot: Snapshot
) -> Iterator[tuple[str, str, str, Preemption]]:
    """Yield rules with one policy relaxed, strictest first: field, old and new value, rules."""
    now = rules.within_cluster_queue
    for value in _looser_values(now, (LOWER, LOWER_OR_NEWER)):
        yield "withinClusterQueue", now, value, replace(rules, within_cluster_queue=value)
    if queue.node.parent is None:
        return
    now = rules.reclaim_within_cohort
    for value in _looser_values(now, (LOWER, ANY)):
        yield "reclaimWithinCohort", now, value, replace(rules, reclaim_within_cohort=value)
    if now in NEVER or rules.borrow_within_cohort or snapshot.policy.fair_sharing is not None:
        return
    yield "borrowWithinCohort.policy", "", LOWER, replace(rules, borrow_within_cohort=True)


def _looser_values(value: str, order: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values of a policy that allow more than this one. `order` has no "Never"."""
    return order[order.index(value) + 1 :] if value in order else order if value in NEVER else ()


def _sufficient_priority(entry: Entry, snapshot: Snapshot) -> Iterator[Suggestion]:
    """Suggest the lowest priority at which the present policies would find victims."""
    needed = entry.assignment.usage.keys()
    others = {
        running.workload.priority
        for leaf in entry.queue.node.root.leaves()
        if (queue := snapshot.queue_of(leaf)) is not None
        for running in snapshot.running(queue)
        if running.uses(needed) and running.workload.priority >= entry.workload.priority
    }
    for priority in sorted(others):
        raised = replace(entry.workload, priority=priority + 1)
        victims = _victims(entry, snapshot, workload=raised)
        if victims:
            yield Suggestion(advice=Advice.RAISE_PRIORITY, amount=priority + 1, workloads=victims)
            return


def _victims(
    entry: Entry,
    snapshot: Snapshot,
    *,
    spec: ClusterQueue | None = None,
    workload: Workload | None = None,
) -> tuple[Key, ...]:
    """Return the victims that would be found with this spec or this workload."""
    queue = Queue(spec or entry.queue.spec, entry.queue.node)
    queue.running = entry.queue.running
    head = Head(workload or entry.workload, queue.name)
    tried = Entry(head, queue, snapshot.policy)
    with snapshot.trial():
        _, found = plan(tried, snapshot, None)
    return _keys(found)


def _keys(victims: Iterable[Target]) -> tuple[Key, ...]:
    return tuple(sorted(each.running.key for each in victims))


def protected(
    entry: Entry, tried: Iterable[TriedFlavor], snapshot: Snapshot
) -> tuple[ProtectedWorkload, ...]:
    """Return the workloads that use a missing column, each with its protection; own queue first."""
    lacks = [lack.reason for each in tried for lack in each.lacks]
    missing = {
        each.column: each.asked for each in lacks if each.cause is RejectionCause.INSUFFICIENT
    }
    found = []
    for leaf in entry.queue.node.root.leaves() if missing else ():
        queue = snapshot.queues.get(leaf.name)
        for running in snapshot.running(queue) if queue is not None else ():
            if running.uses(missing.keys()):
                assert queue is not None
                protection, by, value = _protection(running, queue, entry, missing, snapshot)
                found.append(
                    ProtectedWorkload(
                        workload=running.key,
                        cluster_queue=queue.name,
                        priority=running.workload.priority,
                        protection=protection,
                        by=by,
                        value=value,
                    )
                )
    home = entry.queue.name
    return tuple(sorted(found, key=lambda each: (each.cluster_queue != home, *_order(each))))


def _order(each: ProtectedWorkload) -> tuple[str, int, str]:
    return each.cluster_queue, each.priority, str(each.workload)


def _protection(
    running: ChargedWorkload,
    queue: Queue,
    entry: Entry,
    missing: dict[FlavorResource, int],
    snapshot: Snapshot,
) -> tuple[ProtectionReason, str, str]:
    """Return what protects a running workload, whose policy or quota it is, and the policy's value.

    `missing` maps each missing column to the total amount requested.
    """
    rules, name, node = entry.queue.spec.preemption, entry.queue.name, entry.queue.node
    own = queue.name == name
    rule = rules.within_cluster_queue if own else rules.reclaim_within_cohort
    if rule in NEVER:
        return (
            ProtectionReason.WITHIN_POLICY if own else ProtectionReason.RECLAIM_POLICY,
            name,
            "Never",
        )
    if not own and not queue.active:
        return ProtectionReason.INACTIVE_QUEUE, queue.name, ""
    safe = next(
        (each for each in _outside_of(queue.node, node) if each.within_quota(missing)), None
    )
    if not own and safe is not None:
        return ProtectionReason.WITHIN_QUOTA, safe.name, ""
    if not may_preempt(rule, running.workload, entry.workload, snapshot.policy):
        return ProtectionReason.PRIORITY, name, rule
    # The policy allows its preemption, so either it frees too little or the preemptor may not
    # borrow.
    borrows = any(node.cell(column).borrows_with(amount) for column, amount in missing.items())
    if borrows and snapshot.policy.fair_sharing is not None:
        return ProtectionReason.FAIR_SHARE, name, ""
    if borrows and not rules.borrow_within_cohort:
        return ProtectionReason.BORROW_POLICY, name, "Never"
    return ProtectionReason.NOT_ENOUGH, name, ""


def _outside_of(node: QuotaNode, home: QuotaNode) -> Iterator[QuotaNode]:
    """Yield the queue and the cohorts above it that do not contain the preemptor."""
    ancestors = set(home.ancestors())
    at: QuotaNode | None = node
    while at is not None and at not in ancestors:
        yield at
        at = at.parent
