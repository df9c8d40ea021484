# SPDX-License-Identifier: Apache-2.0
"""Priority and fairness at the API server: who waits behind whom when it is flooded.

Without this the controller shares one queue with every other ServiceAccount. A flood of requests by
any of them would then cost it the lease. And whoever asks for pending workloads in a loop should
wait behind others who ask for the same, not slow down the cluster.
"""

from __future__ import annotations

from typing import Any

from kuota.api.base import Json

from .settings import CONTROLLER, Settings, named, named_object

VISIBILITY = named("visibility")
_API = "flowcontrol.apiserver.k8s.io/v1"
# Just behind those that Kubernetes itself has for the same purpose.
_LEASES_FIRST = 250
_CONTROLLER_FIRST = 850
_VISIBILITY_FIRST = 9000


def fairness(settings: Settings) -> list[Json]:
    if not settings.fairness:
        return []
    account = [
        {
            "kind": "ServiceAccount",
            "serviceAccount": {"name": CONTROLLER, "namespace": settings.namespace},
        }
    ]
    everything = _rule(apiGroups=["*"], resources=["*"], namespaces=["*"], clusterScope=True)
    leases = _rule(
        apiGroups=["coordination.k8s.io"], resources=["leases"], namespaces=[settings.namespace]
    )
    seen = _rule(
        apiGroups=["visibility.kueue.x-k8s.io"],
        resources=["*"],
        namespaces=["*"],
        clusterScope=True,
    )
    everyone = [
        {"kind": "Group", "group": {"name": name}}
        for name in ("system:authenticated", "system:unauthenticated")
    ]
    return [
        _level(),
        _flow(named("leader-election"), "leader-election", _LEASES_FIRST, account, leases),
        _flow(CONTROLLER, "workload-high", _CONTROLLER_FIRST, account, everything),
        _flow(VISIBILITY, VISIBILITY, _VISIBILITY_FIRST, everyone, seen),
    ]


def _rule(**where: Any) -> Json:
    return {"verbs": ["*"], **where}


def _flow(name: str, level: str, first: int, subjects: list[Json], rule: Json) -> Json:
    return named_object(
        _API,
        "FlowSchema",
        name,
        spec={
            "distinguisherMethod": {"type": "ByUser"},
            "matchingPrecedence": first,
            "priorityLevelConfiguration": {"name": level},
            "rules": [{"resourceRules": [rule], "subjects": subjects}],
        },
    )


def _level() -> Json:
    """Few seats, of which most may be lent while nobody asks."""
    queuing = {"handSize": 4, "queueLengthLimit": 50, "queues": 16}
    limited = {
        "nominalConcurrencyShares": 10,
        "lendablePercent": 90,
        "limitResponse": {"type": "Queue", "queuing": queuing},
    }
    return named_object(
        _API, "PriorityLevelConfiguration", VISIBILITY, spec={"type": "Limited", "limited": limited}
    )
