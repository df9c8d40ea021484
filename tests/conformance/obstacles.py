# SPDX-License-Identifier: Apache-2.0
"""Formats the obstacles of a flavor as Kueue does, for comparison."""

from __future__ import annotations

from collections.abc import Iterable

from kuota.api.quantity import text
from kuota.engine.reasons import Reason, RejectionCause

_TOPOLOGY = {
    RejectionCause.NO_TOPOLOGY: "does not support TopologyAwareScheduling",
    RejectionCause.ONLY_TOPOLOGY: "supports only TopologyAwareScheduling",
    RejectionCause.TOPOLOGY_NOT_LOADED: "information missing in TAS cache",
    RejectionCause.TOPOLOGY_LEVEL: "does not contain the requested level",
}


def kueue_texts(reasons: Iterable[Reason]) -> list[str]:
    """The texts of reasons, sorted: their order is not compared."""
    return sorted(map(_text, reasons))


def _text(reason: Reason) -> str:
    flavor, resource = reason.flavor, reason.resource
    where = f"{resource} in flavor {flavor}"
    match reason.cause:
        case RejectionCause.INSUFFICIENT:
            missing = text(reason.missing, resource)
            return f"insufficient unused quota for {where}, {missing} more needed"
        case RejectionCause.EXCEEDS_MAX:
            assumed, requested, limit = (
                text(each, resource) for each in (reason.assumed, reason.requested, reason.limit)
            )
            return (
                f"insufficient quota for {where}, previously considered "
                f"podsets requests ({assumed}) + current podset request ({requested}) "
                f"> maximum capacity ({limit})"
            )
        case RejectionCause.TAINT:
            return f"untolerated taint {_go_taint(reason.detail)} in flavor {flavor}"
        case RejectionCause.AFFINITY:
            return f"flavor {flavor} doesn't match node affinity"
        case RejectionCause.UNDECLARED:
            return f"resource {resource} unavailable in ClusterQueue"
        case RejectionCause.FLAVOR_NOT_FOUND:
            return f"flavor {flavor} not found"
        case RejectionCause.RESTRICTED:
            annotation = "WorkloadAllowedResourceFlavorAnnotation"
            return f"skipping flavor {flavor} due to {annotation} annotation"
        case RejectionCause.SLICE_FLAVOR:
            return (
                f"could not assign {flavor} flavor since the original workload is assigned: "
                f"{reason.detail}"
            )
    return f'Flavor "{flavor}" {_TOPOLOGY.get(reason.cause, reason.cause)}'


def _go_taint(taint: str) -> str:
    """`key=value:effect` as Go prints the struct."""
    pair, _, effect = taint.partition(":")
    key, _, value = pair.partition("=")
    return f"{{{key} {value} {effect} <nil>}}"
