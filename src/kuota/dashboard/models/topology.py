# SPDX-License-Identifier: Apache-2.0
"""The domains of topologies with the workloads in them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kuota.api.base import Key
from kuota.view.observed import ObservedState
from kuota.view.topology import DomainResource, DomainRow, FlavorRow, topology_report
from kuota.view.workload_state import owner

from ..shapes import (
    DomainAmounts,
    DomainContent,
    DomainNode,
    FlavorDomains,
    Ref,
    TopologyModel,
    UnusedNodeRow,
)
from .amounts import amount


def topology_model(observed: ObservedState) -> TopologyModel:
    """Return the domains of all flavors with a topology."""
    report = topology_report(observed.state)
    return TopologyModel(
        flavors=[_flavor(each, observed) for each in report.flavors], notes=list(report.notes)
    )


def _flavor(row: FlavorRow, observed: ObservedState) -> FlavorDomains:
    return FlavorDomains(
        flavor=row.flavor,
        topology=row.topology,
        levels=row.levels,
        nodes=row.nodes,
        domains=[_domain(each, observed) for each in row.domains],
        unused=[UnusedNodeRow(name=each.name, reason=each.reason) for each in row.unused],
    )


def _domain(row: DomainRow, observed: ObservedState) -> DomainNode:
    return DomainNode(
        name=row.name,
        level=row.level,
        nodes=row.nodes,
        pods=row.pods,
        resources=[_amounts(each) for each in row.resources],
        contents=list(_contents(row, observed)),
        children=[_domain(each, observed) for each in row.children],
    )


def _amounts(row: DomainResource) -> DomainAmounts:
    return DomainAmounts(
        resource=row.resource,
        total=amount(row.total),
        placed=amount(row.placed),
        others=amount(row.others),
        free=amount(row.free),
        used_percent=row.used_percent,
    )


def _contents(row: DomainRow, observed: ObservedState) -> Iterator[DomainContent]:
    for each in row.contents:
        key = Key.parse(each.workload)
        kind, job = owner(observed.workloads[key]) if key in observed.workloads else ("", "")
        yield DomainContent(
            workload=Ref(kind="Workload", name=key.name, namespace=key.namespace),
            job=job or key.name,
            kind=kind or "Workload",
            pods=each.count,
        )
