# SPDX-License-Identifier: Apache-2.0
"""Defines CEL rules that combine several fields, or the old and the new object.

Each rule belongs to the path of an object (paths as in `kuota.api.constraints`; "" is the whole
object). A rule that names `oldSelf` is checked only on updates, and only if the old object has a
value at that path. `kuota.api.rules` implements the same rules in Python (`relations` and
`transitions`) for the embedded server and the command line. Controllers rely on them. For example,
a Workload with reserved quota cannot be moved to another queue.
"""

from __future__ import annotations

from collections.abc import Mapping

from . import cel_workload
from .walk import CelRule, Rules

__all__ = ["CelRule", "cel_rules"]

HOSTNAME = "kubernetes.io/hostname"

RESOURCE_GROUP = CelRule(
    "self.flavors.all(f, size(f.resources) == size(self.coveredResources))",
    "flavors must list as many resources as coveredResources",
)


def _no_borrowing_limit(cohort: str) -> CelRule:
    return CelRule(
        f"has(self.{cohort}) || !has(self.resourceGroups) || self.resourceGroups.all(g, "
        "g.flavors.all(f, f.resources.all(r, !has(r.borrowingLimit))))",
        f"borrowingLimit needs a {cohort} to borrow from",
    )


_QUEUE: Rules = {
    "spec.flavorFungibility": (
        CelRule(
            "!has(self.preference) || (self.whenCanBorrow == 'TryNextFlavor'"
            " && self.whenCanPreempt == 'TryNextFlavor')",
            "preference only counts when whenCanBorrow and whenCanPreempt are TryNextFlavor",
        ),
    ),
    "spec.preemption": (
        CelRule(
            "self.reclaimWithinCohort != 'Never' || !has(self.borrowWithinCohort)"
            " || self.borrowWithinCohort.policy == 'Never'",
            "borrowWithinCohort must be Never when reclaimWithinCohort is Never",
        ),
    ),
    "spec.resourceGroups[]": (RESOURCE_GROUP,),
}

_COHORT: Rules = {"spec.resourceGroups[]": (RESOURCE_GROUP,)}

_CLUSTER_QUEUE: Rules = {**_QUEUE, "spec": (_no_borrowing_limit("cohortName"),)}

_CLUSTER_QUEUE_V1BETA1: Rules = {**_QUEUE, "spec": (_no_borrowing_limit("cohort"),)}

_LOCAL_QUEUE: Rules = {
    "spec.clusterQueue": (CelRule("self == oldSelf", "clusterQueue cannot be changed"),)
}

_RESOURCE_FLAVOR: Rules = {
    "spec": (
        CelRule(
            "!has(self.topologyName) || (has(self.nodeLabels) && size(self.nodeLabels) >= 1)",
            "a flavor with a topologyName needs at least one node label",
        ),
        CelRule(
            "!has(oldSelf.topologyName) || (has(self.topologyName)"
            " && self.topologyName == oldSelf.topologyName)",
            "topologyName cannot be changed or removed once set",
        ),
    ),
    "spec.nodeTaints": (
        CelRule(
            "self.all(t, t.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])",
            "effect must be NoSchedule, PreferNoSchedule or NoExecute",
        ),
    ),
    "spec.tolerations": cel_workload.TOLERATIONS,
}

_LEVELS = (
    CelRule(
        "self.all(a, self.exists_one(b, a.nodeLabel == b.nodeLabel))",
        "levels must be unique",
    ),
    CelRule(
        f"!self.exists(l, l.nodeLabel == '{HOSTNAME}')"
        f" || self[size(self) - 1].nodeLabel == '{HOSTNAME}'",
        f"{HOSTNAME} can only be the last level",
    ),
)

_TOPOLOGY: Rules = {
    "spec.levels": (
        *_LEVELS,
        CelRule(
            f"self == oldSelf || (self[size(self) - 1].nodeLabel == '{HOSTNAME}'"
            f" && oldSelf[size(oldSelf) - 1].nodeLabel == '{HOSTNAME}')",
            f"levels can only be changed while {HOSTNAME} is and stays the last one",
        ),
    )
}

_TOPOLOGY_V1BETA1: Rules = {
    "spec.levels": (*_LEVELS, CelRule("self == oldSelf", "levels cannot be changed"))
}

_ADMISSION_CHECK: Rules = {
    "spec.controllerName": (CelRule("self == oldSelf", "controllerName cannot be changed"),)
}

_MULTIKUEUE_CONFIG: Rules = {
    "spec.clusters": (
        CelRule("self.all(a, self.exists_one(b, a == b))", "clusters must be unique"),
    )
}

_MULTIKUEUE_CLUSTER: Rules = {
    "spec.clusterSource": (
        CelRule(
            "has(self.kubeConfig) != has(self.clusterProfileRef)",
            "exactly one of kubeConfig and clusterProfileRef must be set",
        ),
    )
}

_NONE: Rules = {}

_RULES: Mapping[str, tuple[Rules, Rules]] = {
    "Workload": (cel_workload.V1BETA1, cel_workload.V1BETA2),
    "ClusterQueue": (_CLUSTER_QUEUE_V1BETA1, _CLUSTER_QUEUE),
    "Cohort": (_COHORT, _COHORT),
    "LocalQueue": (_LOCAL_QUEUE, _LOCAL_QUEUE),
    "ResourceFlavor": (_RESOURCE_FLAVOR, _RESOURCE_FLAVOR),
    "Topology": (_TOPOLOGY_V1BETA1, _TOPOLOGY),
    "AdmissionCheck": (_ADMISSION_CHECK, _ADMISSION_CHECK),
    "MultiKueueConfig": (_NONE, _MULTIKUEUE_CONFIG),
    "MultiKueueCluster": (_NONE, _MULTIKUEUE_CLUSTER),
}


def cel_rules(kind: str, version: str) -> Rules:
    """Return the rules of one kind and version by path, empty if the kind has none."""
    v1beta1, v1beta2 = _RULES.get(kind, (_NONE, _NONE))
    return v1beta2 if version == "v1beta2" else v1beta1
