# SPDX-License-Identifier: Apache-2.0
"""Suites on parts of Kueue's integration of Pods: roles, gates, readiness, stopping."""

from __future__ import annotations

from conformance.adapters.webhooks import agree
from conformance.case import Json, Run, check, refused, same
from conformance.recorder import whole
from conformance.registry import Exercise, suite
from conformance.world import gates_of
from kuota.api.base import Key
from kuota.api.config.frameworks import FRAMEWORKS
from kuota.api.gates import Gate
from kuota.bridge.effects import Delete, Event, StatusPatch
from kuota.bridge.jobs.ancestor import owned, owners_of
from kuota.bridge.jobs.composable import StopCause, composed
from kuota.bridge.jobs.pod import PodKind
from kuota.bridge.jobs.pod_gates import has_gate, role, with_gate, without_gate
from kuota.bridge.jobs.pod_group import PodGroup
from kuota.bridge.jobs.pod_group_members import index_label
from kuota.bridge.jobs.role_hash import role_hash, shape, shape_faults

POD, GROUP = PodKind(), PodGroup()

_UNUSED = {
    f"inputs.{at}.{field}": "state of the Go object that the test does not set"
    for at in ("pod", "pods.*")
    for field in ("absentPods", "isFound", "key", "satisfiedExcessPods", "clock")
}


@suite(
    "jobs/pod-TestGetRoleHash",
    ignores=_UNUSED | {"inputs.pods.*.list": "the Pods of this test form no group"},
)
def roles(run: Run) -> None:
    hashes = {role(whole(each["pod"])) for each in run.inputs["pods"] if not each["isGroup"]}
    refused(run.expected["wantErr"], None)
    same(run.expected["wantEqualHash"], len(hashes) == 1)


@suite("util/pod-TestGenerateRoleHash")
def hashed(run: Run) -> None:
    base = run.inputs["shared"]["baseHash"]
    same(run.expected["wantBaseHash"], role_hash(whole(run.inputs["podSpec"])) == base)


@suite("util/pod-TestSpecShape")
def shaped(run: Run) -> None:
    found = shape(whole(run.inputs["podSpec"]))
    same(run.expected["wantPresent"], "resources" in found)
    same(run.expected["wantResources"], found.get("resources"))


@suite("jobs/pod-TestIndexPodGroupName")
def indexed(run: Run) -> None:
    """Objects of other kinds are in other caches."""
    obj = whole(run.inputs["object"])
    name = GROUP.group_of(obj, gates_of(run)) if obj["kind"] == "Pod" else ""
    same(run.expected["wantKeys"], [name] if name else [])


@suite("jobs/pod-TestIsPodOwnerManagedByQueue")
def owner_managed(run: Run) -> None:
    pod = {"metadata": {"ownerReferences": [whole(run.inputs["ownerReference"])]}}
    same(run.expected["wantRes"], owned(pod, owners_of(FRAMEWORKS)))


@suite("jobs/pod-TestPodSets", ignores=_UNUSED)
def pod_sets(run: Run) -> None:
    given, gates = run.inputs["pod"], gates_of(run)
    pod, members = whole(given["pod"]), whole(given["list"])["items"] or []
    if given["isGroup"]:
        key = Key(pod["metadata"]["namespace"], GROUP.group_of(pod, gates))
        found = GROUP.pod_sets(composed(GROUP, key, members, gates, 0.0), gates)
    else:
        found = POD.pod_sets(pod, gates)
    same(run.expected["wantPodSets"], found)


@suite("jobs/pod-TestPodsReady", ignores=_UNUSED)
def ready(run: Run) -> None:
    given, gates = run.inputs["pod"], gates_of(run)
    pod, members = whole(given["pod"]), whole(given["list"])["items"] or []
    if given["isGroup"]:
        # The test gives the size of the group only on the Pod that stands for it.
        job = composed(GROUP, Key("", ""), members, gates, 0.0) | {"metadata": pod["metadata"]}
        found = GROUP.pods_ready(job)
    else:
        found = POD.pods_ready(pod)
    same(run.expected["want"], found)


@suite("jobs/pod-TestPod_IsActive")
def active(run: Run) -> None:
    """The list decides, for a single Pod as well: it has none."""
    fields = whole(run.inputs["fields"])
    gates = gates_of(run)
    named = "FastQuotaReleaseInPodIntegration"
    same(run.inputs["enableFastQuotaRelease"], bool(run.gates.get(named)))
    members = (fields.get("list") or {}).get("items") or []
    job = composed(GROUP, Key("ns", "group"), members, gates, run.now)
    same(run.expected["want"], GROUP.active(job))


@suite(
    "jobs/pod-TestStop",
    ignores={"expected.wantStopped": "the stopped Pods are compared by their names"},
)
def stopped(run: Run) -> None:
    """A Pod that is gone when the first write arrives is not deleted: the sender skips the rest."""
    pod, now = whole(run.inputs["pod"]), run.now
    reason, message = run.inputs["stopReason"], run.inputs["eventMsg"]
    effects = POD.terminate(pod, StopCause(reason=reason, message=message, now=now))
    patched = [each for each in effects if isinstance(each, StatusPatch)]
    deleted = [each for each in effects if isinstance(each, Delete)]
    events = [each for each in effects if isinstance(each, Event)]
    refused(run.expected["wantErr"], None)
    same(run.expected["wantPatched"], bool(patched))
    gone = run.inputs["deleteBeforePatch"]
    same(run.expected["wantDeleted"], bool(deleted) and not gone)
    check(effects.index(patched[0]) < effects.index(deleted[0]), "the reason is written first")
    names = [each["metadata"]["name"] for each in whole(run.expected["wantStopped"])]
    same(names, [each.key.name for each in events])
    same(reason, patched[0].status["conditions"][-1]["reason"])
    same(message, patched[0].status["conditions"][-1]["message"])


@suite("jobs/pod-TestWorkloadHandlerDelete", exercises=Exercise.FUNCTION)
def woken(run: Run) -> None:
    workload, gates = whole(run.inputs["workload"]), gates_of(run)
    validates = run.inputs["enableValidateGroupOwner"]
    same(validates, gates.on(Gate.PodIntegrationValidateGroupOwner))
    meta = workload["metadata"]
    request = {"name": meta["name"], "namespace": f"group/{meta['namespace']}"}
    found = GROUP.woken_by(workload, gates, deleted=True)
    same(run.expected["wantRequests"], [request] if found else [])


@suite("jobs/pod-TestConstructComposableWorkloadPodGroupRoleLimit")
def role_limit(run: Run) -> None:
    count, gates = run.inputs["roleCount"], gates_of(run)
    pods = [_pod_of_role(each, count) for each in range(count)]
    found = GROUP.prepare(composed(GROUP, Key("ns", "test-group"), pods, gates, 0.0), gates)
    same(bool(run.expected["wantErr"]), bool(found.refused))


def _pod_of_role(index: int, count: int) -> Json:
    annotations = {
        "kueue.x-k8s.io/pod-group-total-count": str(count),
        "kueue.x-k8s.io/role-hash": f"role-{index:02}",
    }
    labels = {"kueue.x-k8s.io/pod-group-name": "test-group"}
    meta = {"name": f"pod-{index}", "namespace": "ns", "labels": labels}
    return {"metadata": meta | {"annotations": annotations}, "spec": {}, "status": {}}


@suite("util/pod-TestHasGate")
def gate_present(run: Run) -> None:
    same(run.expected["want"], has_gate(whole(run.inputs["pod"]), run.inputs["gateName"]))


@suite("util/pod-TestGate")
def gate_added(run: Run) -> None:
    pod = whole(run.inputs["pod"])
    found = with_gate(pod, run.inputs["gateName"])
    same(run.expected["want"], found is not pod)
    same(_in_order(run.expected["wantPod"]), _in_order(found))


def _in_order(pod: Json) -> Json:
    """The test ignores the order of gates."""
    found: Json = whole(pod)
    found["spec"]["schedulingGates"].sort(key=lambda each: str(each["name"]))
    return found


@suite("util/pod-TestUngate")
def gate_removed(run: Run) -> None:
    pod = whole(run.inputs["pod"])
    found = without_gate(pod, run.inputs["gateName"])
    same(run.expected["want"], found is not pod)
    same(run.expected["wantPod"], found)


@suite("util/pod-TestReadUIntFromLabel")
def label_number(run: Run) -> None:
    obj, bound = whole(run.inputs["obj"]), run.inputs["max"]
    found = index_label(obj, run.inputs["label"], bound)
    error = found if isinstance(found, str) else "no label" if found is None else ""
    refused(run.expected["wantErr"], error)
    same(run.expected["wantVal"], found if isinstance(found, int) else None)


@suite("jobframework/jobframework-TestValidateImmutablePodSpec")
def immutable(run: Run) -> None:
    new, old = whole(run.inputs["newPodSpec"]), whole(run.inputs["oldPodSpec"])
    agree(run.expected["wantErr"], list(shape_faults(new, old, "spec")))
