# SPDX-License-Identifier: Apache-2.0
"""Faults of stored objects that validation should have rejected.

Validation can be bypassed: an object may be older than a rule, or was stored while no webhook ran.
Only faults that the engine cannot handle are detected here; all rules are in `kuota.api.rules`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kuota.api import kueue
from kuota.api import workload as api
from kuota.api.base import LabelSelector, Quantity
from kuota.api.constraints.queues import CLUSTER_QUEUE, CLUSTER_QUEUE_V1BETA1
from kuota.api.match import SelectorError, check_label_requirement
from kuota.api.quantity import QuantityError, parse


def cluster_queue_faults(spec: kueue.ClusterQueueSpec) -> list[str]:
    """Return every fault with its path; empty if the spec is valid."""
    return [
        *_selector_faults(spec.namespace_selector),
        *_enum_faults(spec),
        *quota_faults(spec.resource_groups, spec.fair_sharing),
    ]


def quota_faults(
    groups: Iterable[kueue.ResourceGroup] | None, fair_sharing: kueue.FairSharing | None
) -> list[str]:
    """Return the faults of the quotas and the weight of a ClusterQueue or Cohort."""
    return [*_amount_faults(groups or ()), *weight_faults(fair_sharing)]


def weight_faults(fair_sharing: kueue.FairSharing | None) -> Iterator[str]:
    if fair_sharing is not None and fair_sharing.weight is not None:
        yield from _negative("spec.fairSharing.weight", fair_sharing.weight)


def pod_set_faults(pod_sets: Iterable[api.PodSet] | None) -> Iterator[str]:
    """Yield the faults of pod counts and pod set names."""
    listed = list(pod_sets or ())
    names = Counter(each.name for each in listed)
    for name in sorted(name for name, count in names.items() if count > 1):
        yield f"spec.podSets: the name {name!r} is used twice"
    for index, each in enumerate(listed):
        at = f"spec.podSets[{index}]"
        if each.count < 0:
            yield f"{at}.count: must not be negative, is {each.count}"
        elif each.min_count is not None and not 0 <= each.min_count <= each.count:
            yield f"{at}.minCount: must be between 0 and {each.count}, is {each.min_count}"


def _selector_faults(selector: LabelSelector | None) -> Iterator[str]:
    for index, each in enumerate((selector.match_expressions if selector else None) or ()):
        try:
            check_label_requirement(each)
        except SelectorError as error:
            yield f"spec.namespaceSelector.matchExpressions[{index}]: {error}"


def _enum_faults(spec: kueue.ClusterQueueSpec) -> Iterator[str]:
    """Yield values outside the API's enums. Unset values are valid."""
    for path, word in _enum_values(spec):
        known = CLUSTER_QUEUE[path].enum + CLUSTER_QUEUE_V1BETA1[path].enum
        if word and word not in known:
            yield f"{path}: unknown value {word!r}; use {' or '.join(CLUSTER_QUEUE[path].enum)}"


def _enum_values(spec: kueue.ClusterQueueSpec) -> Iterator[tuple[str, str | None]]:
    fungibility, preemption = spec.flavor_fungibility, spec.preemption
    yield "spec.queueingStrategy", spec.queueing_strategy
    yield "spec.stopPolicy", spec.stop_policy
    if fungibility is not None:
        yield "spec.flavorFungibility.whenCanBorrow", fungibility.when_can_borrow
        yield "spec.flavorFungibility.whenCanPreempt", fungibility.when_can_preempt
        yield "spec.flavorFungibility.preference", fungibility.preference
    if preemption is not None:
        yield "spec.preemption.withinClusterQueue", preemption.within_cluster_queue
        yield "spec.preemption.reclaimWithinCohort", preemption.reclaim_within_cohort
        if preemption.borrow_within_cohort is not None:
            policy = preemption.borrow_within_cohort.policy
            yield "spec.preemption.borrowWithinCohort.policy", policy


def _amount_faults(groups: Iterable[kueue.ResourceGroup]) -> Iterator[str]:
    for i, group in enumerate(groups):
        for j, flavor in enumerate(group.flavors or ()):
            for k, quota in enumerate(flavor.resources or ()):
                at = f"spec.resourceGroups[{i}].flavors[{j}].resources[{k}]"
                yield from _negative(f"{at}.nominalQuota", quota.nominal_quota)
                yield from _negative(f"{at}.borrowingLimit", quota.borrowing_limit)
                yield from _negative(f"{at}.lendingLimit", quota.lending_limit)


def _negative(path: str, amount: Quantity | None) -> Iterator[str]:
    """Yield why an amount is invalid."""
    if amount is None:
        return
    try:
        if parse(amount) < 0:
            yield f"{path}: must not be negative, is {amount}"
    except QuantityError as error:
        yield f"{path}: {error}"
