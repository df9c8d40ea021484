# SPDX-License-Identifier: Apache-2.0
"""A small environment for flavor assignment: one queue, its neighbors, and a fake oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kuota.api.base import Key
from kuota.api.core import PodSpec, PodTemplateSpec
from kuota.api.gates import Gates
from kuota.api.workload import TopologyRequest
from kuota.engine.amounts import FlavorResource
from kuota.engine.assignment import (
    OracleResult,
    PreemptionPossibility,
    ScanProgress,
    WorkloadAssignment,
)
from kuota.engine.flavors import assign
from kuota.engine.model import (
    ClusterQueue,
    Fungibility,
    PodSet,
    Preemption,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Topology,
    Workload,
)
from kuota.engine.placement import Placement
from kuota.engine.policy import Policy
from kuota.engine.snapshot import ChargedWorkload, Queue, Snapshot
from kuota.engine.tree import QuotaTree, charge

Table = Mapping[str, Mapping[str, int | Quota]]
"""Quotas of one resource group: flavor -> resource -> nominal quota."""

TRY_BOTH = Fungibility(when_can_borrow="TryNextFlavor", when_can_preempt="TryNextFlavor")
PREEMPTION_FIRST = Fungibility(
    when_can_borrow="TryNextFlavor",
    when_can_preempt="TryNextFlavor",
    preference="PreemptionOverBorrowing",
)
STOP_AT_PREEMPT = Fungibility(when_can_preempt="MayStopSearch")


def group(table: Table) -> ResourceGroup:
    resources = dict.fromkeys(name for quotas in table.values() for name in quotas)
    return ResourceGroup(
        resources=tuple(resources),
        flavors=tuple(table),
        quotas={
            FlavorResource(flavor, name): q if isinstance(q, Quota) else Quota(q)
            for flavor, quotas in table.items()
            for name, q in quotas.items()
        },
    )


def pods(
    name: str = "main",
    count: int = 1,
    *,
    spec: PodSpec | None = None,
    group: str = "",
    topology: TopologyRequest | None = None,
    min_count: int | None = None,
    **requests: int,
) -> PodSet:
    """A pod set; `requests` are those of one pod."""
    return PodSet(
        name=name,
        count=count,
        pods=count,
        requests={resource: amount * count for resource, amount in requests.items()},
        group=group,
        topology=topology,
        min_count=min_count,
        template=PodTemplateSpec(spec=spec or PodSpec()),
    )


def workload(*pod_sets: PodSet, allowed: Sequence[str] | None = None) -> Workload:
    return Workload(
        key=Key("ns", "new"),
        scheduling_hash="alike",
        pod_sets=pod_sets,
        allowed_flavors=None if allowed is None else frozenset(allowed),
    )


class OfferedQueue:
    """Queue `q` with what it offers. The oracle answers as told, else that it can preempt."""

    def __init__(
        self,
        *tables: Table,
        cohort: str = "",
        fungibility: Fungibility | None = None,
        preemption: Preemption | None = None,
        flavors: Sequence[ResourceFlavor] = (),
        topologies: Sequence[Topology] = (),
        placement: Placement | None = None,
        policy: Policy | None = None,
        gates: Mapping[str, bool] | None = None,
    ) -> None:
        self.tree = QuotaTree()
        self.verdicts: dict[str, OracleResult] = {}
        self.asked: list[tuple[str, int]] = []
        spec = ClusterQueue(
            name="q",
            cohort=cohort,
            groups=tuple(map(group, tables)),
            fungibility=fungibility or Fungibility(),
            preemption=preemption or Preemption(),
        )
        self.queue = Queue(spec, self.tree.put_queue("q", cohort, spec.groups, 1.0))
        known = {name: ResourceFlavor(name=name) for table in tables for name in table}
        self.snapshot = Snapshot(
            self.tree,
            {"q": self.queue},
            known | {each.name: each for each in flavors},
            topologies={each.name: each for each in topologies},
            policy=policy or Policy(gates=Gates.of(gates or {}, check=False)),
            cycle=7,
            placement=placement,
        )

    def neighbour(self, table: Table, cohort: str) -> Queue:
        spec = ClusterQueue(name="other", cohort=cohort, groups=(group(table),))
        queue = Queue(spec, self.tree.put_queue("other", cohort, spec.groups, 1.0))
        self.snapshot.queues["other"] = queue
        return queue

    def use(self, column: str, amount: int, queue: Queue | None = None) -> None:
        charge((queue or self.queue).node.cell(FlavorResource.parse(column)), amount)

    def answer(self, column: str, possibility: PreemptionPossibility, height: int = 0) -> None:
        self.verdicts[column] = OracleResult(possibility, height)

    def oracle(
        self, new: Workload, queue: Queue, column: FlavorResource, amount: int, snapshot: Snapshot
    ) -> OracleResult:
        self.asked.append((str(column), amount))
        return self.verdicts.get(str(column), OracleResult(PreemptionPossibility.PREEMPT, 0))

    def assign(
        self,
        new: Workload,
        *,
        counts: Sequence[int] | None = None,
        progress: ScanProgress | None = None,
        pinned: Sequence[Mapping[str, str]] | None = None,
        replaced: ChargedWorkload | None = None,
    ) -> WorkloadAssignment:
        return assign(
            new,
            self.queue,
            self.snapshot,
            self.oracle,
            counts=counts,
            progress=progress,
            pinned=pinned,
            replaced=replaced,
        )


def chosen(assignment: WorkloadAssignment) -> list[dict[str, str]]:
    """The flavor of each resource, per pod set."""
    return [
        {resource: choice.flavor for resource, choice in each.flavors.items()}
        for each in assignment.pod_sets
    ]


def usage(assignment: WorkloadAssignment) -> dict[str, int]:
    return {str(column): amount for column, amount in assignment.usage.items()}
