# SPDX-License-Identifier: Apache-2.0
"""Formats the results of scenarios: one short line per decision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from kuota.api.base import Key
from kuota.engine.assignment import PodSetAssignment, WorkloadAssignment
from kuota.engine.decisions import Admit, Decision, Evict, Migrate, Preempt, Wait
from kuota.engine.model import Workload
from kuota.engine.reasons import Reason, RejectionCause
from kuota.engine.tree import QuotaNode, available
from kuota.sim.simulation import Simulation


def name(workload: Workload) -> str:
    return f"{workload.queue}/{workload.key.name}"


def decision_lines(decision: Decision, world: Simulation) -> list[str]:
    """The decision in words. What is borrowed is read off the world as it is after it."""
    who = name(decision.workload)
    match decision:
        case Admit():
            return [_admission(decision, world)]
        case Preempt(victims=victims):
            leaving = {True: " (leaving already)", False: ""}
            return [
                f"preempt {name(each.workload)} for {who} {each.reason}{leaving[each.leaving]}"
                for each in victims
            ]
        case Migrate(sibling=sibling):
            return [f"migrate {name(sibling)} to {who}"]
        case Evict(reason=reason):
            return [f"evict {who} {reason}"]
        case Wait(reason=reason, why=why):
            return [f"wait {who} {reason} {why}"]
        case _:
            assert_never(decision)


def _admission(decision: Admit, world: Simulation) -> str:
    workload = world.engine.state.workloads[decision.workload.key]
    verb = "admit" if workload.admitted else "reserve"
    words = [verb, name(workload), *_shrunk(decision), *_flavors(decision.assignment.pod_sets)]
    words += _borrowed(decision, world)
    missing = [each for each in decision.checks if workload.checks.get(each) != "Ready"]
    return " ".join([*words, *(f"until {each}" for each in missing)])


def _shrunk(decision: Admit) -> Iterator[str]:
    for asked, given in zip(decision.workload.pod_sets, decision.assignment.pod_sets, strict=False):
        if given.count < asked.count:
            yield f"{given.count} of {asked.count} {asked.name}"


def _flavors(pod_sets: tuple[PodSetAssignment, ...]) -> list[str]:
    """One word if there is one flavor; otherwise every pod set, or resource, with its own."""
    found = {choice.flavor for each in pod_sets for choice in each.flavors.values()}
    if len(found) < 2:
        return sorted(found)
    words = []
    for each in pod_sets:
        own = {resource: choice.flavor for resource, choice in each.flavors.items()}
        if len(set(own.values())) == 1:
            words.append(f"{each.name}:{next(iter(own.values()))}")
        else:
            words += [f"{resource}:{flavor}" for resource, flavor in sorted(own.items())]
    return words


def _borrowed(decision: Admit, world: Simulation) -> Iterator[str]:
    node = world.engine.state.queues[decision.cluster_queue].node
    for column in sorted(decision.usage):
        cell = node.cell(column)
        if cell.used > cell.nominal:
            yield f"borrowing {cell.used - cell.nominal}"


def why(key: Key, world: Simulation) -> list[str]:
    """Where a workload is and what keeps it there."""
    engine = world.engine
    workload = engine.state.workloads[key]
    running = engine.state.running(key)
    if running is not None:
        return [f"runs in {running.queue}"]
    queue = engine.queues.queue_of(key)
    if queue is None:
        return ["held out"]
    last = engine.last.get(key)
    if not isinstance(last, Wait):
        reason = queue.inadmissible_reason(key)
        return [f"{queue.state(key)}, {f'like one {reason}' if reason else 'not tried'}"]
    lines = [f"{queue.state(key)}, {last.reason} {last.why}"]
    if last.assignment is not None and last.workload.pod_sets == workload.pod_sets:
        lines += _obstacles(last.assignment)
    return lines


def _obstacles(assignment: WorkloadAssignment) -> Iterator[str]:
    for pod_set in assignment.pod_sets:
        if pod_set.error:
            yield f"{pod_set.name}: {pod_set.error}"
        for reason in sorted(pod_set.reasons, key=_obstacle):
            yield f"{pod_set.name}: {_obstacle(reason)}"


def _obstacle(reason: Reason) -> str:
    column = f"{reason.flavor}/{reason.resource}"
    match reason.cause:
        case RejectionCause.EXCEEDS_MAX:
            return f"{column} {reason.assumed} + {reason.requested} > {reason.limit}"
        case RejectionCause.INSUFFICIENT:
            return f"{column} {reason.missing} more needed"
        case RejectionCause.UNDECLARED:
            return f"{reason.resource} not offered"
        case _:
            return f"{reason.flavor} {reason.cause} {reason.detail}".rstrip()


def tree(world: Simulation) -> Iterator[str]:
    """Every node and column with its numbers, queues before cohorts."""
    state = world.engine.state
    for node in (*state.tree.queues.values(), *state.tree.cohorts.values()):
        yield from _numbers(node)


def _numbers(node: QuotaNode) -> Iterator[str]:
    for column, cell in sorted(node.cells.items()):
        yield (
            f"{node.name} {column} quota {cell.subtree} local {cell.local} used {cell.used} "
            f"available {available(cell)} potential {cell.potential}"
        )
