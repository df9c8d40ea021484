# SPDX-License-Identifier: Apache-2.0
"""Computes the quota of a manager's ClusterQueue from the queues of its workers. Pure.

This is the feature MultiKueueManagerQuotaAutomation. A worker's ClusterQueue counts if one of its
LocalQueues has the namespace and name of a LocalQueue of the manager's ClusterQueue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kuota.api.base import Json, Key
from kuota.api.kueue import (
    AdmissionCheck,
    ClusterQueue,
    LocalQueue,
    MultiKueueConfig,
    ResourceGroup,
)
from kuota.api.quantity import Format, canonical, format_of, parse

from .references import BadReference, ConfigMissing, config_of, queue_check

CONDITION = "MultiKueueManagerQuotaAutomation"
AUTOMATED = "Automated"
UNSUPPORTED = "UnsupportedConfiguration"

Quotas = dict[str, str]


class WorkerQueues(NamedTuple):
    """The queues of one worker cluster."""

    cluster_queues: Iterable[ClusterQueue]
    local_queues: Iterable[LocalQueue]


class QuotaAutomation(NamedTuple):
    """The condition of a ClusterQueue, and the new quota of its flavor if the quota changes."""

    automated: bool
    reason: str
    message: str
    resources: list[Json] | None = None


def automation(
    queue: ClusterQueue,
    checks: Iterable[AdmissionCheck],
    configs: Mapping[str, MultiKueueConfig],
    local_queues: Iterable[LocalQueue],
    workers: Mapping[str, WorkerQueues],
) -> QuotaAutomation | None:
    """Return the state of a ClusterQueue; None if it is not a manager's, or its check is unusable.

    `workers` contains the connected clusters.
    """
    check = queue_check(queue, checks)
    if check is None:
        return None
    try:
        config = config_of(check, configs)
    except ConfigMissing:
        return _unsupported("The referenced MultiKueueConfig was not found.")
    except BadReference as error:
        return _unsupported(str(error))
    if config.spec.quota_management != AUTOMATED:
        text = "MultiKueue manager quota automation has not been requested."
        return QuotaAutomation(False, "NotRequested", text)
    groups = queue.spec.resource_groups or []
    if len(groups) != 1 or len(groups[0].flavors or ()) != 1:
        return _unsupported(
            "Quota automation requires that the manager-side ClusterQueue has exactly one "
            "ResourceFlavor"
        )
    served = {each.key for each in local_queues if each.spec.cluster_queue == queue.metadata.name}
    listed = [workers[name] for name in config.spec.clusters or () if name in workers]
    return _aggregated(groups[0], worker_quotas(served, listed))


def worker_quotas(served: set[Key], workers: Iterable[WorkerQueues]) -> Quotas:
    """Return the sum of the nominal quotas of all worker queues that serve these LocalQueues."""
    totals: dict[str, int] = {}
    forms: dict[str, Format] = {}
    for worker in workers:
        names = {each.spec.cluster_queue for each in worker.local_queues if each.key in served}
        for queue in worker.cluster_queues:
            if queue.metadata.name not in names:
                continue
            for name, nominal in _nominal(queue):
                totals[name] = totals.get(name, 0) + parse(nominal)
                forms.setdefault(name, format_of(nominal))
    return {name: canonical(total, forms[name]) for name, total in totals.items()}


def _nominal(queue: ClusterQueue) -> Iterable[tuple[str, str | int | float]]:
    for group in queue.spec.resource_groups or ():
        for flavor in group.flavors or ():
            for resource in flavor.resources or ():
                yield resource.name, resource.nominal_quota


def _aggregated(group: ResourceGroup, quotas: Quotas) -> QuotaAutomation:
    covered = list(group.covered_resources or ())
    missing = sorted(set(quotas) - set(covered))
    if missing:
        return _unsupported(
            "manager-side coveredResources is missing resources configured on workers: "
            f"[{' '.join(missing)}]"
        )
    text = "ClusterQueue quota is automatically managed based on MultiKueue workers."
    wanted: list[Json] = [{"name": name, "nominalQuota": quotas.get(name, "0")} for name in covered]
    changes = _changes(group, quotas)
    return QuotaAutomation(True, "QuotaAutomated", text, wanted if changes else None)


def _changes(group: ResourceGroup, quotas: Quotas) -> bool:
    """Whether the flavor has another quota, another order, or limits that are now meaningless."""
    stored = (group.flavors or [])[0].resources or []
    if [each.name for each in stored] != list(group.covered_resources or ()):
        return True
    return any(
        parse(each.nominal_quota) != parse(quotas.get(each.name, "0"))
        or each.borrowing_limit is not None
        or each.lending_limit is not None
        for each in stored
    )


def _unsupported(message: str) -> QuotaAutomation:
    return QuotaAutomation(False, UNSUPPORTED, message)
