# SPDX-License-Identifier: Apache-2.0
"""An explanation of the engine as rows: amounts as quantities, workloads by their names."""

from __future__ import annotations

from kuota.api.quantity import add, text
from kuota.engine.explanation import Advice, Explanation, Lack, Phase, Suggestion
from kuota.engine.reasons import Cause

from .plan import HelpRow, LackRow, ProtectedRow, TriedRow, WhyRow
from .words import Naming, help_texts, lack_text, protected_text, why_text


def why_row(found: Explanation, named: Naming = str) -> WhyRow | None:
    """The rows of an explanation; None for a workload that is as far as it can be."""
    if found.phase in (Phase.ADMITTED, Phase.FINISHED):
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
                shield=each.shield,
                text=protected_text(each),
            )
            for each in found.protected
        ],
        rivals=[named(each) for each in found.rivals],
        checks=list(found.checks),
        help=_help(found, named),
    )


def _lack(lack: Lack) -> LackRow:
    reason = lack.reason
    counts = reason.cause in (Cause.INSUFFICIENT, Cause.EXCEEDS_MAX)
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
    """Suggestions that go together have the same text, and may stand several times."""
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
