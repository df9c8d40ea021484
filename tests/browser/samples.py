# SPDX-License-Identifier: Apache-2.0
"""Models of every page as the API sends them: a small lab, a long queue, and hostile text."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from kuota.dashboard import shapes
from kuota.view.plan import HelpRow, LackRow, ProtectedRow, TriedRow, WhyRow
from kuota.view.workload_state import LiveState

Models = dict[str, Any]
NOW = datetime.now(UTC).replace(microsecond=0)
GPU = "nvidia.com/gpu"
_STATES = (LiveState.PENDING, LiveState.PENDING, LiveState.ADMITTED, LiveState.SUCCEEDED)


def ago(minutes: float) -> str:
    return (NOW - timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")


def amount(value: float) -> shapes.Amount:
    return shapes.Amount(text=f"{value:g}", value=value)


def cell(used: float, of: float, borrowed: float = 0, lent: float = 0) -> shapes.QuotaCell:
    return shapes.QuotaCell(
        flavor="a100",
        resource=GPU,
        nominal=amount(of),
        total=amount(of),
        used=amount(used),
        borrowed=amount(borrowed),
        lent=amount(lent),
        available=amount(max(0, of - used)),
    )


def queue(name: str, *cells: shapes.QuotaCell, pending: int = 0) -> shapes.TreeNode:
    local = shapes.LocalQueueRow(namespace=name, name="main", cluster_queue=name, pending=pending)
    return shapes.TreeNode(
        kind=shapes.NodeKind.CLUSTER_QUEUE,
        name=name,
        parent="lab",
        quotas=list(cells),
        pending=pending,
        admitted=1,
        queueing_strategy="BestEffortFIFO",
        local_queues=[local],
    )


def tree() -> shapes.TreeModel:
    children = [
        queue("research", cell(0, 4, lent=4), pending=1),
        queue("vision", cell(6, 2, borrowed=4), pending=2),
        queue("speech", cell(2, 2)),
    ]
    root = shapes.TreeNode(
        kind=shapes.NodeKind.COHORT, name="lab", quotas=[cell(8, 8)], pending=3, children=children
    )
    loan = shapes.LoanRow(
        borrower="vision", flavor="a100", resource=GPU, amount=amount(4), lender="research"
    )
    return shapes.TreeModel(roots=[root], loans=[loan])


def row(index: int, state: LiveState, team: str = "vision") -> shapes.WorkloadRow:
    waits = state in (LiveState.PENDING, LiveState.PREEMPTED)
    return shapes.WorkloadRow(
        key=f"{team}/job-{index:04}",
        namespace=team,
        name=f"job-{index:04}",
        state=state,
        kind="Job",
        job=f"train-{index:04}",
        queue="main",
        cluster_queue=team,
        user="ann",
        why=f"needs 2 {GPU} on a100, none left in cohort lab" if waits else "",
        priority=index % 5 * 100,
        priority_class="high",
        pods=2,
        requests=f"2 {GPU}",
        gets="" if waits else f"2 {GPU} on a100",
        devices=2,
        created=ago(index % 900 + 1),
        since=ago(index % 900),
        finished=ago(0.5) if state is LiveState.SUCCEEDED else "",
        order=f"{index:08}" if waits else "",
    )


def rows(count: int) -> list[shapes.WorkloadRow]:
    teams = ("research", "vision", "speech")
    return [row(at, _STATES[at % 4], teams[at % 3]) for at in range(count)]


def pending_queue(count: int) -> shapes.QueueModel:
    return shapes.QueueModel(
        meta=shapes.QueueMeta(
            queue=queue("vision", cell(6, 2, borrowed=4), pending=count),
            path=["lab"],
            lenders=tree().loans,
        ),
        rows=[row(at, LiveState.PENDING) for at in range(count)],
    )


def workload() -> shapes.WorkloadModel:
    other = shapes.Ref(kind="Workload", name="pretrain", namespace="research")
    steps = shapes.TimelineStep
    return shapes.WorkloadModel(
        row=row(1, LiveState.PREEMPTED),
        job=shapes.Ref(kind="Job", name="train-0001", namespace="vision"),
        timeline=[
            shapes.TimelineEntry(time=ago(50), step=steps.SUBMITTED, text="by ann", user="ann"),
            shapes.TimelineEntry(time=ago(49), step=steps.WAITING, text="no GPU is free"),
            shapes.TimelineEntry(time=ago(30), step=steps.ADMITTED, text="2 GPUs", where="vision"),
            shapes.TimelineEntry(
                time=ago(4), step=steps.PREEMPTED, text="the owner reclaims its quota", by=other
            ),
        ],
        pod_sets=[
            shapes.PodSetRow(
                name="main",
                count=2,
                requests=f"1 {GPU}",
                flavors={GPU: "a100"},
                placement=[
                    shapes.PlacementRow(levels=["rack"], domain=["r1", "h1"], pods=2, ranks="0-1")
                ],
            )
        ],
        pods=[
            shapes.PodRow(
                name="train-0001-abcde",
                phase="Running",
                node="h1",
                ready=True,
                restarts=1,
                why="exit code 1",
                created=ago(3),
                containers=["main", "sidecar"],
            )
        ],
        events=[
            shapes.EventRow(
                time=ago(4),
                type="Warning",
                reason="Preempted",
                message="preempted by research/pretrain",
                object=shapes.Ref(kind="Workload", name="job-0001", namespace="vision"),
                count=2,
            )
        ],
        checks=[shapes.CheckRow(name="budget", state="Pending", message="waiting for approval")],
        conditions=[
            shapes.ConditionRow(
                type="Evicted", status="True", reason="Preempted", message="by a rule", since=ago(4)
            )
        ],
        explanation=_why(),
        note="the scheduler knows it",
        preempts=[other],
        devices=[_device()],
        labels={"kueue.x-k8s.io/queue-name": "main"},
        priority_classes=[
            shapes.PriorityChoice(name="urgent", value=2000),
            shapes.PriorityChoice(name="high", value=1000),
        ],
        actions=[shapes.ActionName.HOLD, shapes.ActionName.SET_PRIORITY],
    )


def _why() -> WhyRow:
    lack = LackRow(cause="Insufficient", text=f"needs 2 {GPU} on a100, none left in cohort lab")
    return WhyRow(
        text=lack.text,
        position=2,
        waiting=3,
        tried=[TriedRow(pod_set="main", flavor="a100", mode="NoFit", lacks=[lack])],
        protected=[
            ProtectedRow(
                workload="research/pretrain",
                cluster_queue="research",
                priority=0,
                protection="WithinQuota",
                text="research uses no more than its own quota",
            )
        ],
        help=[HelpRow(advice="WaitForRelease", text=f"wait for 2 {GPU} to be released")],
    )


def _device() -> shapes.Device:
    return shapes.Device(
        node="h1",
        resource=GPU,
        id="GPU-0b5e4a",
        held=True,
        holder=shapes.Ref(kind="Pod", name="train-0001-abcde", namespace="vision"),
        job="train-0001",
        workload=shapes.Ref(kind="Workload", name="job-0001", namespace="vision"),
        since=ago(30),
        idle_since=ago(12),
        utilization_percent=37,
        memory_used_bytes=20 << 30,
        memory_total_bytes=80 << 30,
    )


def nodes() -> shapes.NodesModel:
    gpus = shapes.NodeAmounts(
        resource=GPU, allocatable=amount(8), used=amount(6), free=amount(2), used_percent=75
    )
    free = shapes.Device(node="h1", resource=GPU, id="GPU-1")
    owner = shapes.Ref(kind="Workload", name="job-0001", namespace="vision")
    pod = shapes.Ref(kind="Pod", name="exporter", namespace="vision")
    first = shapes.NodeRow(
        name="h1",
        flavors=["a100"],
        domain=["block-1", "rack-1"],
        resources=[gpus],
        contents=[
            shapes.NodePods(owner=owner, job="train-0001", pods=2),
            shapes.NodePods(owner=pod, job="", pods=1),
        ],
        hidden_pods=1,
        devices=[_device(), free, msgspec.structs.replace(free, id="GPU-2", held=True)],
    )
    second = shapes.NodeRow(name="h2", unusable="is cordoned", resources=[gpus])
    return shapes.NodesModel(nodes=[first, second], note="devices of one node only")


def _domain(
    name: str, level: str, placed: float, total: float, *children: shapes.DomainNode
) -> shapes.DomainNode:
    owner = shapes.Ref(kind="Workload", name="job-0001", namespace="vision")
    content = shapes.DomainContent(workload=owner, job="train-0001", kind="Job", pods=2)
    return shapes.DomainNode(
        name=name,
        level=level,
        nodes=max(1, len(children)),
        pods=2,
        resources=[
            shapes.DomainAmounts(
                resource=GPU,
                total=amount(total),
                placed=amount(placed),
                others=amount(1),
                free=amount(total - placed - 1),
                used_percent=50,
            )
        ],
        contents=[] if children or not placed else [content],
        hidden_pods=0 if children else 1,
        children=list(children),
    )


def topology() -> shapes.TopologyModel:
    hosts = [_domain(f"h{at}", "kubernetes.io/hostname", at % 3 * 2, 8) for at in range(8)]
    racks = [_domain(f"rack-{at}", "lab/rack", 4, 16, *hosts[2 * at :][:2]) for at in range(4)]
    blocks = [_domain(f"block-{at}", "lab/block", 8, 32, *racks[2 * at :][:2]) for at in range(2)]
    flavor = shapes.FlavorDomains(
        flavor="a100",
        topology="lab",
        levels=["lab/block", "lab/rack", "kubernetes.io/hostname"],
        nodes=8,
        domains=blocks,
        unused=[shapes.UnusedNodeRow(name="h9", reason="is cordoned")],
    )
    return shapes.TopologyModel(flavors=[flavor], notes=["one node has no label"])


def _wave(at: int, share: int) -> int:
    """Usage that is higher by day than by night."""
    return max(0, round(3 + 3 * math.sin((at + 6 * share) / 7) + at * share % 3 - 1))


def teams() -> shapes.TeamsModel:
    steps = 48
    found = [
        shapes.TeamSeries(
            team=name,
            resources=[
                shapes.ResourceSeries(
                    resource=GPU,
                    used=[float(_wave(at, share)) for at in range(steps)],
                    hours=[0.5] * steps,
                    lost=[0.1] * steps,
                    quota=4,
                )
            ],
            waiting=[float(max(0, _wave(at + 5, share) - 3)) for at in range(steps)],
            running=[float(_wave(at, share) // 2) for at in range(steps)],
            submitted=[1] * steps,
            finished=[1] * steps,
            preemptions=[int(at % 17 == 4 * share) for at in range(steps)],
        )
        for name, share in (("research", 1), ("vision", 2), ("speech", 3))
    ]
    times = [ago(30 * (steps - at)) for at in range(steps)]
    return shapes.TeamsModel(
        since=times[0], until=ago(0), step_seconds=1800, times=times, teams=found
    )


TEAMS = ("vision", "speech")


def usage() -> dict[str, Any]:
    used = {GPU: {"hours": 12.5, "lost": 1.25}, "cpu": {"hours": 99.0, "lost": 0.0}}
    account = {"jobs": 3, "preemptions": 1, "waitingHours": 2.5, "resources": used}
    return {"by": "team", "items": [{"group": each, **account} for each in TEAMS]}


def waste() -> dict[str, Any]:
    causes = {"waiting": 4.2, "preempted": 12.5, "evicted": 0.0, "failedStart": 0.35, "idle": 18.4}
    resources = {"cpu": dict.fromkeys(causes, 1.0), GPU: causes}
    return {"by": "team", "items": [{"group": each, "resources": resources} for each in TEAMS]}


def history() -> dict[str, Any]:
    first = {
        "namespace": "vision",
        "kind": "Job",
        "job": "train-0001",
        "workload": "job-0001",
        "submitted": ago(300),
        "queue": "main",
        "user": "ann",
        "finished": ago(10),
        "state": "Failed",
        "outcome": "Failed",
        "cause": "exit code 1",
        "waitedSeconds": 20.0,
        "ranSeconds": 4000.0,
        "preemptions": 2,
        "resources": {GPU: {"hours": 2.2, "lost": 0.4}},
    }
    return {"items": [first, {**first, "job": "other", "state": "Succeeded", "cause": ""}]}


def lab(count: int = 40) -> Models:
    """All models of a small lab, with this many workloads."""
    found = {
        "tree": tree(),
        "queue": pending_queue(count),
        "workloads": shapes.WorkloadsModel(rows=rows(count)),
        "workload": workload(),
        "topology": topology(),
        "nodes": nodes(),
        "teams": teams(),
    }
    built: Models = {name: msgspec.to_builtins(each) for name, each in found.items()}
    return built | {"usage": usage(), "waste": waste(), "history": history()}


_FIXED = frozenset(
    # Names and states that controllers write, and times.
    (
        *("kind", "state", "step", "key", "stopPolicy", "actions", "outcome", "phase", "type"),
        *("status", "order", "by", "time", "times", "until", "created", "since", "started"),
        *("finished", "admitted", "first", "submitted", "idleSince", "requeueAt"),
    )
)
"""Fields whose values users do not choose."""


def hostile(models: Models, spoil: Callable[[str], str]) -> Models:
    """Return the models with every text that a user could control replaced."""
    return {name: _spoiled(each, name, spoil) for name, each in models.items()}


def _spoiled(value: Any, field: str, spoil: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        free = field in ("labels", "flavors", "resources")
        return {
            spoil(name) if free else name: _spoiled(each, name, spoil)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_spoiled(each, f"{field}[]", spoil) for each in value]
    if isinstance(value, str) and field.removesuffix("[]") not in _FIXED:
        return spoil(value)
    return value
