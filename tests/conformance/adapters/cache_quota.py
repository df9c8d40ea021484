# SPDX-License-Identifier: Apache-2.0
"""Suites of group `cache` about the quota tree: available quota, usage, shares."""

from __future__ import annotations

from collections.abc import Callable

from conformance import world
from conformance.case import Json, Run, refused, same
from conformance.recorder import whole
from conformance.registry import suite
from kuota.api.base import Key
from kuota.api.quantity import UNLIMITED
from kuota.engine.amounts import Amounts, FlavorResource
from kuota.engine.fairness import DominantResourceShare, share
from kuota.engine.snapshot import Snapshot
from kuota.engine.tree import QuotaNode, QuotaTree
from kuota.engine.usage import Usage


@suite("cache/TestAvailable")
def room(run: Run) -> None:
    snapshot = world.snapshot(run)
    with snapshot.trial():
        for name, usage in (run.inputs.get("usage") or {}).items():
            snapshot.add_usage(snapshot.queues[name], Usage(quota=amounts(usage)))
        nodes = [queue.node for queue in snapshot.queues.values()]
        columns = {node.name: list(node.quotas) for node in nodes}
        same(
            run.expected["wantAvailable"],
            {n.name: {str(c): written(n.room(c)) for c in columns[n.name]} for n in nodes},
        )
        same(
            run.expected["wantPotentiallyAvailable"],
            {
                n.name: {str(c): written(n.cell(c).potential) for c in columns[n.name]}
                for n in nodes
            },
        )


@suite("cache/TestDominantResourceShare")
def dominant_resource_share(run: Run) -> None:
    snapshot = world.snapshot(run)
    queue = snapshot.queues[run.inputs["usageClusterQueue"]]
    with snapshot.trial():
        snapshot.add_usage(queue, Usage(quota=amounts(run.inputs.get("usage"))))
        snapshot.add_usage(queue, Usage(quota=amounts(run.inputs.get("flvResQ"))))
        nodes = [*snapshot.tree.queues.values(), *snapshot.tree.cohorts.values()]
        same(
            sorted(run.expected["want"], key=lambda row: (row["nodeType"], row["name"])),
            sorted(map(share_row, nodes), key=lambda row: (row["nodeType"], row["name"])),
        )


def share_row(node: QuotaNode) -> Json:
    found = share(node)
    return {
        "name": node.name,
        "nodeType": "ClusterQueue" if node.is_queue else "Cohort",
        "borrowing": found.borrowing,
        "drName": found.dominant,
        "drValue": found.published,
    }


@suite("cache/TestIsBorrowingOn")
def borrowing_on(run: Run) -> None:
    snapshot = world.snapshot(run)
    queue = snapshot.queues[run.inputs["usageClusterQueue"]]
    with snapshot.trial():
        snapshot.add_usage(queue, Usage(quota=amounts(run.inputs.get("usage"))))
        found = share(queue.node)
    same(run.expected["wantBorrowing"], found.borrowing)
    requested = amounts(run.inputs.get("requestedFRs"))
    same(run.expected["wantBorrowingOnRequested"], found.borrowing_on(requested))


@suite(
    "cache/TestPreciseWeightedShareSerialized",
    ignores={"inputs.drs.borrowing": "follows from the borrowed resources; there are none"},
)
def weighted_share(run: Run) -> None:
    given = run.inputs["drs"]
    found = DominantResourceShare(
        ratio=float(given["unweightedRatio"]),
        weight=float(given["fairWeight"]),
        dominant=given["dominantResource"],
    )
    same(float(run.expected["want"]), found.weighted)


@suite(
    "cache/TestSnapshotAddRemoveWorkload",
    "cache/TestSnapshotAddRemoveWorkloadWithLendingLimit",
    ignores={
        f"expected.snapshot.{kind}.*.{name}": "an input of the case that no step of it changes"
        for kind in ("clusterQueues", "cohorts")
        for name in ("fairWeight", "flavorFungibility")
    },
)
def add_and_remove(run: Run) -> None:
    snapshot = world.snapshot(run)
    running = {
        each.key: each for queue in snapshot.queues.values() for each in queue.running.values()
    }
    with snapshot.trial():
        for name in world.each(run, "remove"):
            snapshot.remove(running[Key.parse(name)])
        for name in world.each(run, "add"):
            snapshot.restore(running[Key.parse(name)])
        actual = summary(snapshot)
    wanted = run.expected["snapshot"]
    for kind in ("clusterQueues", "cohorts"):
        same(
            {name: quota_part(each) for name, each in (wanted.get(kind) or {}).items()},
            actual[kind],
            f".{kind}",
        )


def quota_part(row: Json) -> Json:
    return {name: row.get(name) for name in ("subtreeQuota", "usage")}


def summary(snapshot: Snapshot) -> Json:
    tree = snapshot.tree
    return {
        "clusterQueues": {name: quota_row(node) for name, node in tree.queues.items()},
        "cohorts": {name: quota_row(node) for name, node in tree.cohorts.items()},
    }


def quota_row(node: QuotaNode) -> Json:
    return {
        "subtreeQuota": {
            str(c): written(cell.subtree) for c, cell in node.cells.items() if cell.declared
        },
        "usage": {str(c): cell.used for c, cell in node.cells.items()},
    }


@suite("cache/TestAncestors")
def cohort_ancestors(run: Run) -> None:
    tree = cohort_tree(run)
    node = tree.cohorts.get(run.inputs["cohortName"])
    same_chain(run, node, lambda node: [node.name, *(each.name for each in node.ancestors())])


@suite("cache/TestClusterQueueAncestors")
def queue_ancestors(run: Run) -> None:
    """The cohorts between a queue and its root, the root left out."""
    tree = cohort_tree(run)
    spec = world.cluster_queue(run.inputs["cq"])
    node = tree.put_queue(spec.name, spec.cohort, spec.groups, spec.weight)
    same_chain(
        run, node, lambda node: [each.name for each in node.ancestors() if each.parent is not None]
    )


@suite("cache/TestWorkloadAncestors")
def workload_ancestors(run: Run) -> None:
    tree = cohort_tree(run)
    for obj in world.each(run, "cqs"):
        spec = world.cluster_queue(obj)
        tree.put_queue(spec.name, spec.cohort, spec.groups, spec.weight)
    workload = whole(run.inputs.get("wl"))
    admission = ((workload or {}).get("status") or {}).get("admission") or {}
    node = tree.queues.get(admission.get("clusterQueue", ""))
    same_chain(run, node, lambda node: [each.name for each in node.ancestors()])


def cohort_tree(run: Run) -> QuotaTree:
    tree = QuotaTree()
    for obj in world.each(run, "cohorts"):
        spec = world.cohort(obj)
        tree.put_cohort(spec.name, spec.parent, spec.groups, spec.weight)
    return tree


def same_chain(run: Run, node: QuotaNode | None, chain: Callable[[QuotaNode], list[str]]) -> None:
    """Compare ancestors: a missing node has none, and one in a cycle is an error."""
    cyclic = node is not None and node.cyclic
    refused(run.expected["wantErr"], cyclic)
    same(run.expected["wantAncestors"], None if node is None or cyclic else chain(node))


def written(amount: int) -> int | str:
    return "unlimited" if amount == UNLIMITED else amount


def amounts(recorded: Json | None) -> Amounts:
    return {FlavorResource.parse(name): amount for name, amount in (recorded or {}).items()}
