# SPDX-License-Identifier: Apache-2.0
"""API priority and fairness objects for the controller and for the visibility API.

Without them, the controller shares one queue with all other ServiceAccounts, and a flood of
requests by any of them could cost it the Lease. Clients that request positions or explanations in
a loop should wait behind similar requests instead of slowing down the cluster.
"""

from __future__ import annotations

from typing import Any

from kuota.api.base import Json

from .network import AGGREGATED
from .settings import CONTROLLER, Settings, named, named_object

VISIBILITY = named("visibility")
_API = "flowcontrol.apiserver.k8s.io/v1"
# Directly after those that Kubernetes itself has for the same purpose.
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
        apiGroups=list(dict.fromkeys(group for _, group in AGGREGATED)),
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
    """A priority level with few seats, most of which can be lent while idle."""
    queuing = {"handSize": 4, "queueLengthLimit": 50, "queues": 16}
    limited = {
        "nominalConcurrencyShares": 10,
        "lendablePercent": 90,
        "limitResponse": {"type": "Queue", "queuing": queuing},
    }
    return named_object(
        _API, "PriorityLevelConfiguration", VISIBILITY, spec={"type": "Limited", "limited": limited}
    )
