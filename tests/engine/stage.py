# SPDX-License-Identifier: Apache-2.0
"""A small environment for preemption: cohorts, queues, and running workloads."""

from __future__ import annotations

from collections.abc import Mapping

from kuota.api.base import Key
from kuota.engine.amounts import Amounts, FlavorResource
from kuota.engine.model import (
    ClusterQueue,
    Eviction,
    Instant,
    Preemption,
    Quota,
    Reservation,
    ResourceGroup,
    Workload,
)
from kuota.engine.policy import Policy
from kuota.engine.preempt import OracleResult, Target, oracle, targets
from kuota.engine.snapshot import ChargedWorkload, Queue, Snapshot
from kuota.engine.tree import QuotaNode, QuotaTree, charge
from kuota.engine.usage import Usage

GPU = FlavorResource("default", "gpu")
FAIR = Policy(fair_sharing=())

Quotas = int | Quota | Mapping[FlavorResource, int | Quota]
NO_QUOTA: Mapping[FlavorResource, int] = {}


def groups(given: Quotas) -> tuple[ResourceGroup, ...]:
    """Resource groups with these quotas; a bare number is the nominal quota of `GPU`."""
    table = given if isinstance(given, Mapping) else {GPU: given}
    quotas = {c: q if isinstance(q, Quota) else Quota(q) for c, q in table.items()}
    return (ResourceGroup(resources=(), flavors=(), quotas=quotas),) if quotas else ()


def amounts(given: int | Amounts) -> Amounts:
    return {GPU: given} if isinstance(given, int) else given


class Stage:
    def __init__(self, policy: Policy | None = None, now: Instant = 1000.0) -> None:
        self.tree = QuotaTree()
        self.snapshot = Snapshot(self.tree, {}, {}, policy=policy, now=now)
        self._latest = 0.0

    def cohort(
        self, name: str, parent: str = "", quota: Quotas = NO_QUOTA, weight: float = 1.0
    ) -> QuotaNode:
        return self.tree.put_cohort(name, parent, groups(quota), weight)

    def queue(
        self,
        name: str,
        quota: Quotas = NO_QUOTA,
        cohort: str = "team",
        *,
        within: str = "Never",
        reclaim: str = "Never",
        borrow: bool = False,
        threshold: int | None = None,
        weight: float = 1.0,
        usage_based: bool = False,
    ) -> Queue:
        rules = Preemption(
            within_cluster_queue=within,
            reclaim_within_cohort=reclaim,
            borrow_within_cohort=borrow,
            borrow_max_priority=threshold,
        )
        node = self.tree.put_queue(name, cohort, groups(quota), weight)
        spec = ClusterQueue(name=name, cohort=cohort, preemption=rules, usage_based=usage_based)
        queue = self.snapshot.queues[name] = Queue(spec, node)
        return queue

    def run(
        self,
        name: str,
        queue: str,
        usage: int | Amounts,
        *,
        priority: int = 0,
        since: Instant | None = None,
        created: Instant = 0.0,
        evicted: bool = False,
        local_queue: str = "",
    ) -> ChargedWorkload:
        """Let a workload run. Unless told, each is reserved later than those before it."""
        self._latest += 1
        at = self._latest if since is None else since
        workload = Workload(
            key=Key("", name),
            uid=name,
            priority=priority,
            created=created,
            queue=local_queue,
            reservation=Reservation(
                cluster_queue=queue, pod_sets=(), usage=amounts(usage), since=at
            ),
            evicted=Eviction(reason="Preempted", at=at) if evicted else None,
        )
        place = self.snapshot.queues[queue]
        running = ChargedWorkload(workload, queue, Usage(quota=amounts(usage)))
        place.running[workload.key] = running
        for column, amount in running.usage.quota.items():
            charge(place.node.cell(column), amount)
        return running

    def targets(
        self,
        queue: str,
        request: int | Amounts,
        *,
        priority: int = 0,
        created: Instant = 0.0,
        needed: frozenset[FlavorResource] | None = None,
        workload: Workload | None = None,
    ) -> tuple[Target, ...]:
        asked = amounts(request)
        return targets(
            workload or preemptor(priority, created),
            self.snapshot.queues[queue],
            frozenset(asked) if needed is None else needed,
            asked,
            self.snapshot,
        )

    def victims(
        self,
        queue: str,
        request: int | Amounts,
        *,
        priority: int = 0,
        created: Instant = 0.0,
        needed: frozenset[FlavorResource] | None = None,
    ) -> dict[str, str]:
        """Names of the victims with the reasons for which they were chosen."""
        found = self.targets(queue, request, priority=priority, created=created, needed=needed)
        return {each.running.key.name: str(each.reason) for each in found}

    def oracle(self, queue: str, amount: int, *, priority: int = 0) -> OracleResult:
        place = self.snapshot.queues[queue]
        return oracle(preemptor(priority), place, GPU, amount, self.snapshot)

    def usage(self) -> dict[str, dict[str, int]]:
        """Usage of every node, to see whether anything was left behind."""
        nodes = [*self.tree.queues.values(), *self.tree.cohorts.values()]
        return {
            repr(node): {str(c): cell.used for c, cell in node.cells.items() if cell.used}
            for node in nodes
        }


def preemptor(priority: int = 0, created: Instant = 0.0) -> Workload:
    return Workload(key=Key("", "preemptor"), uid="preemptor", priority=priority, created=created)
