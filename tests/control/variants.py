# SPDX-License-Identifier: Apache-2.0
"""Sets up variants, and reads their state."""

from __future__ import annotations

from typing import Any

from control.objects import condition, flavor, local_queue, queue
from control.stage import Stage
from kuota.api.base import Json
from kuota.kube.resources import CLUSTER_QUEUES

ON = {"ConcurrentAdmission": True}
PARENT = "kueue.x-k8s.io/concurrent-admission-parent"
ALLOWED = "kueue.x-k8s.io/workload-allowed-resource-flavors"
GATE = "kueue.x-k8s.io/concurrent-admission"


def _policy(mode: str = "TryPreferredFlavors", last: str = "") -> Json:
    bound = {"constraints": {"lastAcceptableFlavorName": last}} if last else {}
    return {"concurrentAdmissionPolicy": {"migration": {"mode": mode, **bound}}}


async def setting(stage: Stage, mode: str = "TryPreferredFlavors", **more: Any) -> None:
    """A queue whose flavors are preferred in the order in which they are given."""
    flavors = more.pop("flavors", {"reserved": 4, "spot": 4})
    policy = _policy(mode, more.pop("last", ""))
    labelled = (flavor(each, nodeLabels={"kind": each}) for each in flavors)
    await stage.api.apply(*labelled, local_queue())
    await stage.api.apply(queue("cq", flavors=flavors, **policy, **more))


def only(flavor_name: str) -> Json:
    """What pods say that run on one flavor only."""
    return {"nodeSelector": {"kind": flavor_name}}


def variants(stage: Stage, job_name: str) -> dict[str, Json]:
    """The variants of a Job by flavor."""
    parent = stage.workload(job_name)["metadata"]["name"]
    return {each["metadata"]["annotations"][ALLOWED]: each for each in stage.workloads(parent)}


def says(obj: Json, type_: str) -> str:
    found = condition(obj, type_)
    return f"{found['status']}/{found['reason']}" if found else ""


def admitted(stage: Stage, job_name: str) -> list[str]:
    """The flavors whose variants are admitted."""
    found = variants(stage, job_name).items()
    return [name for name, each in found if says(each, "Admitted") == "True/Admitted"]


def active(stage: Stage, job_name: str) -> list[str]:
    found = variants(stage, job_name).items()
    return [name for name, each in found if each["spec"].get("active") is not False]


def runs_on(stage: Stage, job_name: str) -> str:
    """The flavor of the admission that the Job goes by, "" without one."""
    admission = stage.workload(job_name)["status"].get("admission")
    return str(admission["podSetAssignments"][0]["flavors"]["cpu"]) if admission else ""


def opened(stage: Stage, job_name: str) -> list[str]:
    """The flavors whose variants may preempt."""
    return [
        name
        for name, each in variants(stage, job_name).items()
        if any(
            gate["name"] == GATE and gate["position"] == "Open"
            for gate in (each.get("status") or {}).get("preemptionGates") or ()
        )
    ]


async def quota(stage: Stage, **flavors: int) -> None:
    group = queue("cq", flavors=flavors)["spec"]["resourceGroups"]
    await stage.edit(CLUSTER_QUEUES, "cq", {"spec": {"resourceGroups": group}})


def told_of(stage: Stage, job_name: str, of: str = "") -> set[str]:
    """The events about a Job's Workload, or about its variant for a flavor."""
    obj = variants(stage, job_name)[of] if of else stage.workload(job_name)
    return set(stage.events("Workload", obj["metadata"]["name"]))
