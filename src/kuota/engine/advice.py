# SPDX-License-Identifier: Apache-2.0
"""What would help a workload that waits for quota. Changes of policy are tried before advised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from kuota.api.base import Key
from kuota.api.quantity import UNLIMITED, add, sub

from .amounts import FlavorResource
from .candidates import ANY, LOWER, LOWER_OR_NEWER
from .entry import Entry, Head
from .explanation import Advice, Lack, Limit, Suggestion, Tried
from .model import ClusterQueue, Preemption, Workload
from .nominate import plan
from .preempt import targets
from .reasons import Cause
from .snapshot import Queue, Snapshot
from .tree import Node

_NEVER = ("Never", "")


def suggestions(entry: Entry, tried: Sequence[Tried], snapshot: Snapshot) -> list[Suggestion]:
    """Everything that would help an entry without room and without victims, easiest first."""
    short = [each for each in tried if each.lacks]
    short.sort(key=lambda each: _hopes(each.lacks))
    found = [one for each in short for one in _waits(each.lacks)]
    found += [one for each in short for one in _smaller(each.lacks, entry, snapshot)]
    if any(_only_short(each.lacks) for each in short):
        found += _preemptions(entry, snapshot)
    found += [one for each in short for one in _changes(each.lacks, entry)]
    return sorted(dict.fromkeys(found), key=_effort)


_EFFORT = (
    Advice.WAIT_FOR_RELEASE,
    Advice.ASK_LESS,
    Advice.TOLERATE,
    Advice.MATCH_NODES,
    Advice.RAISE_PRIORITY,
    Advice.SET_POLICY,
    Advice.RAISE_LIMIT,
    Advice.OFFER_RESOURCE,
    Advice.CREATE,
)


def _effort(one: Suggestion) -> int:
    """Waiting is easiest, then what the owner of the job can do, then what administrators can."""
    return _EFFORT.index(one.advice)


def _hopes(lacks: Sequence[Lack]) -> int:
    """0 where time alone may help, more where something has to be changed."""
    order = (Cause.INSUFFICIENT, Cause.EXCEEDS_MAX)
    return max(
        order.index(each.reason.cause) if each.reason.cause in order else len(order)
        for each in lacks
    )


def _only_short(lacks: Sequence[Lack]) -> bool:
    return all(each.reason.cause is Cause.INSUFFICIENT for each in lacks)


def _waits(lacks: Sequence[Lack]) -> Iterator[Suggestion]:
    if not _only_short(lacks):
        return
    for each in lacks:
        yield Suggestion(
            advice=Advice.WAIT_FOR_RELEASE,
            kind=each.kind,
            where=each.where,
            flavor=each.reason.flavor,
            resource=each.reason.resource,
            amount=each.reason.missing,
        )


def _changes(lacks: Sequence[Lack], entry: Entry) -> Iterator[Suggestion]:
    for each in lacks:
        reason = each.reason
        match reason.cause:
            case Cause.INSUFFICIENT:
                yield from _raised(each, entry.queue.node, reason.missing)
            case Cause.EXCEEDS_MAX:
                asked = add(reason.assumed, reason.requested)
                yield from _raised(each, entry.queue.node, sub(asked, reason.limit))
            case Cause.UNDECLARED:
                yield Suggestion(
                    advice=Advice.OFFER_RESOURCE,
                    kind="ClusterQueue",
                    where=entry.queue.name,
                    resource=reason.resource,
                )
            case Cause.TAINT:
                yield Suggestion(advice=Advice.TOLERATE, flavor=reason.flavor, detail=reason.detail)
            case Cause.AFFINITY:
                yield Suggestion(advice=Advice.MATCH_NODES, flavor=reason.flavor)
            case Cause.FLAVOR_NOT_FOUND:
                yield Suggestion(advice=Advice.CREATE, kind="ResourceFlavor", where=reason.flavor)


def _smaller(lacks: Sequence[Lack], entry: Entry, snapshot: Snapshot) -> Iterator[Suggestion]:
    """How much less to ask for. It helps only if this is all that stands in the way."""
    reason = lacks[0].reason
    if len(lacks) > 1 or reason.cause not in (Cause.INSUFFICIENT, Cause.EXCEEDS_MAX):
        return
    column = FlavorResource(reason.flavor, reason.resource)
    room = sub(reason.limit, reason.assumed)
    if room > 0:
        yield Suggestion(
            advice=Advice.ASK_LESS, flavor=reason.flavor, resource=reason.resource, amount=room
        )
    cell = entry.queue.node.cell(column)
    own = sub(sub(cell.nominal, cell.used), reason.assumed)
    if room < own < reason.requested and not reason.assumed:
        wanted = frozenset((column,))
        victims = targets(entry.workload, entry.queue, wanted, {column: own}, snapshot)
        if victims:
            yield Suggestion(
                advice=Advice.ASK_LESS,
                flavor=reason.flavor,
                resource=reason.resource,
                amount=own,
                workloads=tuple(sorted(each.running.key for each in victims)),
            )


def _raised(lack: Lack, node: Node, missing: int) -> Iterator[Suggestion]:
    """The limit that binds, by how much is missing; other limits may bind after it."""
    column = FlavorResource(lack.reason.flavor, lack.reason.resource)
    if lack.limit is None or missing == UNLIMITED:
        return
    for kept in lack.kept:
        yield _limit(column, kept.kind, kept.name, Limit.LENDING, min(kept.amount, missing))
    if lack.limit is Limit.BORROWING:
        yield _limit(column, lack.kind, lack.where, lack.limit, missing)
    elif not lack.kept:
        # The root itself may have no quota of its own, so it is the queue's that is raised.
        yield _limit(column, "ClusterQueue", node.name, Limit.NOMINAL, missing)


def _limit(column: FlavorResource, kind: str, name: str, field: Limit, amount: int) -> Suggestion:
    return Suggestion(
        advice=Advice.RAISE_LIMIT,
        kind=kind,
        where=name,
        field=field,
        flavor=column.flavor,
        resource=column.resource,
        amount=amount,
    )


def _preemptions(entry: Entry, snapshot: Snapshot) -> Iterator[Suggestion]:
    """Policies and priorities under which victims would be found, each tried by itself."""
    spec = entry.queue.spec
    for field, value, rules in _looser(spec.preemption, entry.queue, snapshot):
        victims = _victims(entry, snapshot, spec=_with(spec, rules))
        if victims:
            yield Suggestion(
                advice=Advice.SET_POLICY,
                kind="ClusterQueue",
                where=spec.name,
                field=field,
                value=value,
                detail=_value(spec.preemption, field),
                workloads=victims,
            )
            return
    yield from _priority(entry, snapshot)


_Looser = tuple[str, str, Preemption]


def _looser(rules: Preemption, queue: Queue, snapshot: Snapshot) -> Iterator[_Looser]:
    """Rules with one policy less strict than now, mildest first."""
    replaced = msgspec.structs.replace
    for value in _above(rules.within_cluster_queue, (LOWER, LOWER_OR_NEWER)):
        yield "withinClusterQueue", value, replaced(rules, within_cluster_queue=value)
    if queue.node.parent is None:
        return
    for value in _above(rules.reclaim_within_cohort, (LOWER, ANY)):
        yield "reclaimWithinCohort", value, replaced(rules, reclaim_within_cohort=value)
    if rules.reclaim_within_cohort in _NEVER or rules.borrow_within_cohort:
        return
    if snapshot.policy.fair_sharing is None:
        yield "borrowWithinCohort.policy", LOWER, replaced(rules, borrow_within_cohort=True)


def _value(rules: Preemption, field: str) -> str:
    """What the policy says now, in the words of the API."""
    values = {
        "withinClusterQueue": rules.within_cluster_queue,
        "reclaimWithinCohort": rules.reclaim_within_cohort,
    }
    return values.get(field) or "Never"


def _above(value: str, order: tuple[str, ...]) -> tuple[str, ...]:
    return order[order.index(value) + 1 :] if value in order else order if value in _NEVER else ()


def _with(spec: ClusterQueue, rules: Preemption) -> ClusterQueue:
    return msgspec.structs.replace(spec, preemption=rules)


def _priority(entry: Entry, snapshot: Snapshot) -> Iterator[Suggestion]:
    """The lowest priority at which the policies, as they are, would find victims."""
    needed = entry.assignment.usage.keys()
    others = {
        running.workload.priority
        for leaf in entry.queue.node.root.leaves()
        if (queue := snapshot.queue_of(leaf)) is not None
        for running in snapshot.running(queue)
        if running.uses(needed) and running.workload.priority >= entry.workload.priority
    }
    for priority in sorted(others):
        raised = msgspec.structs.replace(entry.workload, priority=priority + 1)
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
    """Who would have to go if the queue's rules, or the workload, were these."""
    queue = Queue(spec or entry.queue.spec, entry.queue.node)
    queue.running, queue.active = entry.queue.running, True
    head = Head(workload or entry.workload, queue.name)
    tried = Entry(head, queue, snapshot.policy)
    with snapshot.trial():
        _, found = plan(tried, snapshot, None)
    return tuple(sorted(each.running.key for each in found))
