# SPDX-License-Identifier: Apache-2.0
"""Formats explanations as text and rows: why a workload waits, and what would help."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kuota.api.base import Key
from kuota.api.quantity import add, text
from kuota.api.rules.job_common import QUEUE_NAME
from kuota.bridge.messages import reason_text
from kuota.engine.decisions import WaitCause
from kuota.engine.explanation import (
    Advice,
    Explanation,
    Limit,
    ProtectedWorkload,
    ProtectionReason,
    SchedulingPhase,
    Shortfall,
    Suggestion,
    TriedFlavor,
)
from kuota.engine.reasons import PreemptionReason, RejectionCause

from .loans import Loan
from .plan import HelpRow, LackRow, ProtectedRow, TriedRow, WhyRow

Naming = Callable[[Key], str]
"""Returns the display name of a workload."""

_SHOWN = 3

TAKES = {
    PreemptionReason.IN_CLUSTER_QUEUE: "which has a higher priority in the same ClusterQueue",
    PreemptionReason.RECLAMATION: "whose ClusterQueue reclaims its quota",
    PreemptionReason.FAIR_SHARING: "whose ClusterQueue has a smaller share",
    PreemptionReason.RECLAIM_WHILE_BORROWING: "which has a higher priority, while both borrow",
}


def object_text(kind: str, name: str) -> str:
    return f"{'cohort' if kind == 'Cohort' else kind} {name}"


def several(names: Iterable[str], most: int = _SHOWN) -> str:
    """Join names: "a, b and c", or "a, b, c and 4 more"."""
    everyone = list(dict.fromkeys(names))
    if len(everyone) > most:
        return f"{', '.join(everyone[:most])} and {len(everyone) - most} more"
    return " and ".join([", ".join(everyone[:-1]), everyone[-1]] if everyone[1:] else everyone)


def loans_text(given: Sequence[Loan]) -> str:
    """Describe the loans and lenders, as a suffix of a sentence; "" if there are none."""
    parts = [
        f"{text(each.amount, each.column.resource)} {each.column.resource} from "
        f"{each.lender or 'nobody: there is more use than quota'}"
        for each in given
    ]
    return f", borrowing {several(parts)}" if parts else ""


def why_text(why: Explanation, named: Naming = str) -> str:
    """Return why a workload is not admitted; "" if it is."""
    if why.phase is SchedulingPhase.RESERVED:
        checks = f" {several(why.checks)}" if why.checks else ""
        return f"quota is reserved; waiting for admission checks{checks}"
    if why.phase in (
        SchedulingPhase.DEACTIVATED,
        SchedulingPhase.FINISHED,
        SchedulingPhase.ADMITTED,
    ):
        return ""
    if why.phase is SchedulingPhase.UNQUEUED:
        return _unqueued_text(why)
    fixed = _WHYS.get(why.why) if why.why is not None else None
    if fixed is not None:
        return fixed(why)
    if any(each.lacks for each in why.tried) and not why.rivals:
        return "; ".join(_tried_texts(why.tried))
    if why.details:
        return "; ".join(why.details)
    if why.rivals:
        return f"waits behind {several(map(named, why.rivals))}"
    return "not evaluated yet"


def _unqueued_text(why: Explanation) -> str:
    if why.obstacles:
        return f"LocalQueue {why.local_queue.name}: {'; '.join(map(str, why.obstacles))}"
    if any(each.advice is Advice.CREATE for each in why.suggestions):
        name, space = why.local_queue.name, why.local_queue.namespace
        return f"there is no LocalQueue {name} in namespace {space}" if name else "it has no queue"
    if any(each.advice is Advice.WAIT_FOR_OTHERS for each in why.suggestions):
        return "its variants, one for each flavor, wait in its place"
    return "; ".join(each.detail for each in why.suggestions) or "it is not queued"


def _inactive(why: Explanation) -> str:
    because = "; ".join(map(str, why.obstacles)) or "its cohorts form a cycle"
    return f"ClusterQueue {why.cluster_queue} is inactive: {because}"


_WHYS: dict[WaitCause, Callable[[Explanation], str]] = {
    WaitCause.QUEUE_INACTIVE: _inactive,
    WaitCause.QUEUE_MISSING: lambda w: f"ClusterQueue {w.cluster_queue} does not exist",
    WaitCause.NAMESPACE_MISSING: lambda w: f"namespace {w.workload.namespace} does not exist",
    WaitCause.NAMESPACE_MISMATCH: lambda w: (
        f"ClusterQueue {w.cluster_queue} does not match namespace {w.workload.namespace}"
    ),
    WaitCause.CHECKS_FAILED: lambda w: "some of its admission checks have failed",
    WaitCause.NOT_READY: lambda w: "waiting for the pods of all admitted workloads to be ready",
    WaitCause.GATED: lambda w: "preemption is needed, but a preemption gate is closed",
}


def _tried_texts(tried: Sequence[TriedFlavor]) -> list[str]:
    """Return one clause per flavor. The pod set is named if there are several."""
    several_sets = len({each.pod_set for each in tried}) > 1
    lines = []
    for each in tried:
        words = ", ".join(lack_text(lack) for lack in each.lacks)
        if words:
            lines.append(f"{each.pod_set}: {words}" if several_sets else words)
    return list(dict.fromkeys(lines))


def lack_text(lack: Shortfall) -> str:
    """Describe one obstacle, with the node of the quota tree that causes it."""
    reason = lack.reason
    if reason.cause not in (RejectionCause.INSUFFICIENT, RejectionCause.EXCEEDS_MAX):
        return reason_text(reason)
    name = reason.resource
    asked = text(add(reason.assumed, reason.requested), name)
    wanted = f"needs {asked} {name} on {reason.flavor}"
    room = text(reason.limit, name)
    where = object_text(lack.kind, lack.where)
    if reason.cause is RejectionCause.EXCEEDS_MAX:
        if lack.limit is Limit.BORROWING:
            return f"{wanted}, but the borrowingLimit of {where} allows no more than {room}"
        return f"{wanted}, but {where} can never provide more than {room}{_unlent_text(lack)}"
    if lack.limit is Limit.BORROWING:
        return f"{wanted}, but the borrowingLimit of {where} leaves only {room}"
    left = f"only {room} left" if reason.limit else "none left"
    return f"{wanted}, {left} in {where}{_unlent_text(lack)}"


def _unlent_text(lack: Shortfall) -> str:
    if not lack.unlent:
        return ""
    name = lack.reason.resource
    unlent = several(f"{text(each.amount, name)} kept by {each.name}" for each in lack.unlent)
    return f" ({unlent}: lendingLimit)"


def protected_text(each: ProtectedWorkload) -> str:
    """Return why a running workload is not preempted."""
    return _SHIELDS[each.protection](each)


_SHIELDS: dict[ProtectionReason, Callable[[ProtectedWorkload], str]] = {
    ProtectionReason.WITHIN_POLICY: lambda p: f"withinClusterQueue is Never in ClusterQueue {p.by}",
    ProtectionReason.RECLAIM_POLICY: lambda p: (
        f"reclaimWithinCohort is Never in ClusterQueue {p.by}"
    ),
    ProtectionReason.BORROW_POLICY: lambda p: (
        f"ClusterQueue {p.by} would have to borrow, and its borrowWithinCohort is Never"
    ),
    ProtectionReason.PRIORITY: lambda p: f"its priority {p.priority} is too high for {p.value}",
    ProtectionReason.WITHIN_QUOTA: lambda p: f"{p.by} uses no more than its own quota",
    ProtectionReason.INACTIVE_QUEUE: lambda p: (
        f"ClusterQueue {p.by} is inactive, so nothing is preempted"
    ),
    ProtectionReason.FAIR_SHARE: lambda p: (
        f"preempting it would not make the shares fairer for {p.by}"
    ),
    ProtectionReason.NOT_ENOUGH: lambda p: "preempting it would not make enough room",
}


def help_texts(suggestions: Sequence[Suggestion], named: Naming = str) -> list[str]:
    """Return the suggestions, one per line. Suggestions that belong together share a line."""
    lines: list[str] = []
    for each in suggestions:
        if each.advice is not Advice.WAIT_FOR_RELEASE:
            lines.append(_HELP[each.advice](each, named))
            continue
        together = [
            f"{text(one.amount, one.resource)} {one.resource}"
            for one in suggestions
            if (one.advice, one.flavor, one.where) == (each.advice, each.flavor, each.where)
        ]
        where = object_text(each.kind, each.where)
        lines.append(f"wait for {several(together)} on {each.flavor} to be released in {where}")
    return list(dict.fromkeys(lines))


def _ask_less(one: Suggestion, named: Naming) -> str:
    words = f"request at most {text(one.amount, one.resource)} {one.resource} in total"
    if one.workloads:
        words += f", to reclaim them from {several(map(named, one.workloads))}"
    return words


def _raise_limit(one: Suggestion, named: Naming) -> str:
    amount = f"{text(one.amount, one.resource)} {one.resource}"
    return f"raise {one.field} of {object_text(one.kind, one.where)} by {amount}"


def _set_policy(one: Suggestion, named: Naming) -> str:
    return (
        f"set preemption.{one.field} of ClusterQueue {one.where} to {one.value} "
        f"(it is {one.detail}): this would preempt {several(map(named, one.workloads))}"
    )


def _raise_priority(one: Suggestion, named: Naming) -> str:
    chosen = f", such as that of {one.kind} {one.where} ({one.value})," if one.where else ""
    victims = several(map(named, one.workloads))
    return f"with priority {one.amount} or more{chosen} it would preempt {victims}"


def _create(one: Suggestion, named: Naming) -> str:
    space = f" in namespace {one.detail}" if one.detail else ""
    if not one.where:
        return f"set the label {QUEUE_NAME} to the name of a {one.kind}{space}"
    return f"create {one.kind} {one.where}{space}"


_HELP: dict[Advice, Callable[[Suggestion, Naming], str]] = {
    Advice.ASK_LESS: _ask_less,
    Advice.RAISE_LIMIT: _raise_limit,
    Advice.SET_POLICY: _set_policy,
    Advice.RAISE_PRIORITY: _raise_priority,
    Advice.TOLERATE: lambda s, _: f"tolerate the taint {s.detail} of flavor {s.flavor}",
    Advice.MATCH_NODES: lambda s, _: (
        f"change nodeSelector or affinity so that the nodes of flavor {s.flavor} match"
    ),
    Advice.OFFER_RESOURCE: lambda s, _: (
        f"cover {s.resource} in ClusterQueue {s.where}, or do not request it"
    ),
    Advice.CREATE: _create,
    Advice.RESUME: lambda s, _: f"set stopPolicy of {object_text(s.kind, s.where)} to None",
    Advice.ACTIVATE: lambda s, _: f"repair {object_text(s.kind, s.where)}: {s.detail}",
    Advice.ADMIT_NAMESPACE: lambda s, _: (
        f"let namespaceSelector of ClusterQueue {s.where} match namespace {s.detail}"
    ),
    Advice.CORRECT: lambda s, _: f"correct it: {s.detail}",
    Advice.WAIT_FOR_OTHERS: lambda s, named: f"wait for {several(map(named, s.workloads))}",
    Advice.WAIT_FOR_PREEMPTED: lambda s, named: (
        f"wait for the preemption of {several(map(named, s.workloads))}"
    ),
    Advice.WAIT_FOR_CHECKS: lambda s, _: (
        f"wait for admission checks{f' {s.detail}' if s.detail else ''}"
    ),
}


def why_row(found: Explanation, named: Naming = str) -> WhyRow | None:
    """Return the row of an explanation; None if the workload is admitted or finished."""
    if found.phase in (SchedulingPhase.ADMITTED, SchedulingPhase.FINISHED):
        return None
    return WhyRow(
        text=why_text(found, named),
        reason=found.reason or "",
        why=found.why or "",
        position=found.position,
        waiting=found.waiting,
        tried=[
            TriedRow(
                pod_set=each.pod_set,
                flavor=each.flavor,
                mode=str(each.mode),
                lacks=[_lack(lack) for lack in each.lacks],
            )
            for each in found.tried
        ],
        protected=[
            ProtectedRow(
                workload=named(each.workload),
                cluster_queue=each.cluster_queue,
                priority=each.priority,
                protection=each.protection,
                text=protected_text(each),
            )
            for each in found.protected
        ],
        rivals=[named(each) for each in found.rivals],
        checks=list(found.checks),
        help=_help(found, named),
    )


def _lack(lack: Shortfall) -> LackRow:
    reason = lack.reason
    counts = reason.cause in (RejectionCause.INSUFFICIENT, RejectionCause.EXCEEDS_MAX)
    name = reason.resource
    return LackRow(
        cause=reason.cause,
        text=lack_text(lack),
        flavor=reason.flavor,
        resource=name,
        requested=text(add(reason.assumed, reason.requested), name) if counts else "",
        available=text(reason.limit, name) if counts else "",
        missing=text(reason.missing, name) if reason.missing else "",
        kind=lack.kind,
        where=lack.where,
        limit=lack.limit or "",
    )


def _help(found: Explanation, named: Naming) -> list[HelpRow]:
    """Return the rows of suggestions. Those that belong together have the same text."""
    return [_help_row(each, found, named) for each in found.suggestions]


def _help_row(one: Suggestion, found: Explanation, named: Naming) -> HelpRow:
    together = [
        each
        for each in found.suggestions
        if (each.advice, each.flavor, each.where) == (one.advice, one.flavor, one.where)
    ]
    words = help_texts(together if one.advice is Advice.WAIT_FOR_RELEASE else [one], named)
    amount = str(one.amount) if not one.resource else text(one.amount, one.resource)
    return HelpRow(
        advice=one.advice,
        text=words[0],
        kind=one.kind,
        where=one.where,
        field=one.field,
        value=one.value,
        flavor=one.flavor,
        resource=one.resource,
        amount=amount if one.amount else "",
        workloads=[named(each) for each in one.workloads],
    )
