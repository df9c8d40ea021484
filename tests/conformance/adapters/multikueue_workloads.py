# SPDX-License-Identifier: Apache-2.0
"""Suites of MultiKueue about a Workload and its copies in worker clusters."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping

import msgspec

from conformance.case import Json, Run, check, refused, same, seconds
from conformance.effects import Objects, events_of
from conformance.recorder import convert, whole
from conformance.registry import Exercise, suite
from conformance.world import gates_of, go_seconds
from kuota.api.config.defaults import ALL_AT_ONCE
from kuota.api.kueue import MULTIKUEUE, AdmissionCheck
from kuota.api.workload import AdmissionCheckState, Workload
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.effects import Create, Delete, Effect
from kuota.bridge.jobs.dispatch import ForeignObject, OriginMissing, is_owned
from kuota.bridge.jobs.registry import JOB
from kuota.control.checks.multikueue.group import (
    GroupResult,
    MultiKueueSettings,
    RemoteCopies,
    WorkloadGroup,
)
from kuota.control.checks.multikueue.group_pass import GroupPass
from kuota.control.checks.multikueue.nomination import skips_nomination
from kuota.control.checks.multikueue.nomination_rules import nominate
from kuota.control.checks.multikueue.owner import owner_of
from kuota.control.checks.multikueue.references import multikueue_state
from kuota.control.checks.multikueue.rules import reconcile_group

ORIGIN, LOST_S, CHECK = "multikueue", 300.0, "ac1"
"""What the recorded test configures."""
_VERBS: dict[str, type[Effect]] = {"Create": Create, "Delete": Delete}


class Clusters:
    """The objects of a recorded test: those of the manager, and those of its workers."""

    def __init__(self, run: Run) -> None:
        self.names = ["worker1", *(["worker2"] if run.inputs["useSecondWorker"] else [])]
        self._run = run
        self.gates = gates_of(run)
        self.lost = self._lost()
        self.manager = self._objects("managers")
        self.workers = {name: self._objects(name) for name in self.names}
        self._refused = tuple(kind for verb, kind in _VERBS.items() if _error(run, verb))
        unread = _error(run, "Get") and "worker2" not in self.lost
        check(not unread, "caches of connected clusters can be read")

    def _objects(self, prefix: str) -> Objects:
        found: list[Json] = []
        for kind in ("Workloads", "Jobs"):
            found += whole(self._run.inputs.get(prefix + kind) or [])
        return Objects(found)

    def _lost(self) -> dict[str, float]:
        """The clusters that are not connected, and since when."""
        found: dict[str, float] = {}
        for name in ("worker1", "worker2"):
            reconnecting = self._run.inputs[f"{name}Reconnecting"]
            since = self._run.inputs.get(f"{name}DisconnectedSince")
            if name in self.names and reconnecting:
                found[name] = seconds(since)
        return found

    def carry_out(self, plan: GroupResult) -> str:
        """Send the writes of a plan, as the controller does. Returns why some failed."""
        self.manager.carry_out(plan.first)
        failed = {name for name, each in plan.remote.items() if not self._write(name, each)}
        if not failed.intersection(plan.needs):
            self.manager.carry_out(plan.last)
        return plan.fault or ", ".join(sorted(failed))

    def _write(self, name: str, effects: Iterable[Effect]) -> bool:
        for each in effects:
            if name == "worker2" and isinstance(each, self._refused):
                return False
            self.workers[name].carry_out([each])
        return True


def _error(run: Run, verb: str) -> bool:
    """Whether requests of this kind to the second worker fail."""
    return bool(whole(run.inputs.get(f"worker2On{verb}Error")))


@suite(
    "admissionchecks/multikueue-TestWlReconcile",
    exercises=Exercise.PATH,
)
def reconciled(run: Run) -> None:
    """Run one pass, carry its writes out, and compare the objects of all clusters."""
    clusters = Clusters(run)
    plan = _pass(run, clusters)
    while plan.repeat:
        clusters.manager.carry_out(plan.first)
        plan = _pass(run, clusters)
    error = clusters.carry_out(plan)
    refused(run.expected["wantError"], error)
    if run.expected["wantResult"] is not None:
        same(run.expected["wantResult"]["requeue"], False)
        wanted = go_seconds(run.expected["wantResult"]["requeueAfter"])
        same(wanted, plan.requeue_after_s or 0.0, ".requeueAfter")
    events = events_of([*plan.first, *plan.last])
    same(events_of(run.expected["wantEvents"]), events, ".wantEvents")
    _same(run, "Managers", clusters.manager)
    for name in clusters.names:
        _same(run, name.capitalize(), clusters.workers[name])
    if "worker2" not in clusters.names:
        same(run.expected["wantWorker2Workloads"], None)
        same(run.expected["wantWorker2Jobs"], None)


def _pass(run: Run, clusters: Clusters) -> GroupResult:
    group = _group(run, clusters)
    if group is None:
        return GroupResult()
    plan = reconcile_group(group, run.now)
    if not plan.confirm:
        return plan
    # The controller reads the job of a finished copy once more; here it is the newest.
    group = msgspec.structs.replace(group, confirmed=plan.confirm)
    return reconcile_group(group, run.now)


def _group(run: Run, clusters: Clusters) -> WorkloadGroup | None:
    """What the controller collects. A deleted Workload is remembered until a pass over it."""
    name = run.inputs["reconcileFor"]
    gone = {
        each["metadata"]["name"]: each for each in run.inputs.get("managersDeletedWorkloads") or ()
    }
    found = clusters.manager.of("Workload", name) or gone.get(name)
    if found is None:
        return None
    local = StoredWorkload.of(copy.deepcopy(whole(found)))
    kinds = {JOB.group_kind}
    owner = owner_of(local.json, kinds)
    known = owner is not None and owner.kind in kinds
    job = clusters.manager.of("Job", owner.name) if owner is not None and known else None
    return WorkloadGroup(
        local=local,
        settings=MultiKueueSettings(
            origin=ORIGIN,
            worker_lost_timeout_s=LOST_S,
            dispatcher=run.inputs.get("dispatcherName") or ALL_AT_ONCE,
            gates=clusters.gates,
        ),
        check=multikueue_state(local.obj.status.admission_checks or (), {CHECK: _check()}),
        deleted=local.deleting or name in gone,
        owner=owner.described if owner is not None else "",
        dispatch=JOB.dispatch() if known else None,
        jobs=(job,) if job is not None else (),
        current=local.key.name,
        clusters=tuple(clusters.names),
        remotes={
            each: _remote(clusters.workers[each], name, owner.name if owner is not None else "")
            for each in clusters.names
            if each not in clusters.lost
        },
        lost=clusters.lost,
    )


def _check() -> AdmissionCheck:
    spec = {"controllerName": MULTIKUEUE}
    return convert({"metadata": {"name": CHECK}, "spec": spec}, AdmissionCheck)


def _remote(objects: Objects, workload: str, job: str) -> RemoteCopies:
    found = objects.of("Workload", workload)
    stored = StoredWorkload.of(copy.deepcopy(found)) if found is not None else None
    return RemoteCopies(workload=stored, jobs=(objects.of("Job", job),))


def _same(run: Run, prefix: str, objects: Objects) -> None:
    for kind in ("Workload", "Job"):
        wanted = [_plain(each) for each in run.expected[f"want{prefix}{kind}s"] or ()]
        found = [_plain(each) for each in objects.all(kind)]
        same(_sorted(wanted), _sorted(found), f".want{prefix}{kind}s")


def _sorted(listed: list[Json]) -> list[Json]:
    return sorted(listed, key=lambda each: str(each["metadata"]["name"]))


def _plain(obj: Mapping[str, object]) -> Json:
    """What is compared: no texts, no times, and conditions by type."""
    found: Json = copy.deepcopy(whole(obj))
    found["metadata"].pop("resourceVersion", None)
    status = found.get("status") or {}
    listed = ("conditions", "admissionChecks", "preemptionGates")
    for each in (each for field in listed for each in status.get(field) or ()):
        for field in ("lastTransitionTime", "message"):
            each.pop(field, None)
    if status.get("conditions"):
        status["conditions"] = sorted(status["conditions"], key=lambda each: str(each["type"]))
    if status.get("nominatedClusterNames"):
        status["nominatedClusterNames"] = sorted(status["nominatedClusterNames"])
    return found


@suite(
    "admissionchecks/multikueue-TestNominateAndSynchronizeWorkers_MoreCases",
    ignores={"inputs.shared.**": "nine clusters without copies; the inputs name those of the case"},
)
def nominates(run: Run) -> None:
    """Run the rule by which copies are created."""
    status = {
        "nominatedClusterNames": run.inputs.get("nominatedWorkers"),
        "clusterName": run.inputs.get("localClusterName"),
    }
    given = {key: value for key, value in whole(status).items() if value is not None}
    local = StoredWorkload.of({"metadata": {"name": "wl", "namespace": "ns"}, "status": given})
    remotes = {
        name: RemoteCopies(workload=_copy(each)) for name, each in run.inputs["remotes"].items()
    }
    group = WorkloadGroup(
        local=local,
        settings=MultiKueueSettings(
            origin=ORIGIN, dispatcher=run.inputs["dispatcherMode"], gates=gates_of(run)
        ),
        jobs=({},),
        clusters=tuple(remotes),
        remotes=remotes,
    )
    group_pass = GroupPass(group, run.now)
    nominate(group_pass)
    plan = group_pass.done()
    same(sorted(run.expected["wantCreated"] or ()), sorted(plan.dispatched), ".wantCreated")
    same(run.expected["wantErr"], bool(plan.fault), ".wantErr")
    if run.expected["wantNominatedClusterNames"] is not None:
        objects = Objects([{"kind": "Workload", **local.json}])
        objects.carry_out(plan.first)
        after = (objects.of("Workload", "wl") or {})["status"]
        same(run.expected["wantNominatedClusterNames"], after.get("nominatedClusterNames"))


def _copy(recorded: Json | None) -> StoredWorkload | None:
    """A copy with the origin, which the test leaves out and Kueue does not look at here."""
    if recorded is None:
        return None
    same(recorded["spec"]["podSets"], None)
    same(recorded["status"], None)
    metadata = {
        **whole(recorded["metadata"]),
        "labels": {"kueue.x-k8s.io/multikueue-origin": ORIGIN},
    }
    return StoredWorkload.of({**whole(recorded), "spec": {}, "metadata": metadata})


@suite("workload/workload-TestShouldSkipClusterNomination")
def skips(run: Run) -> None:
    state = run.inputs.get("acs")
    found = convert(state, AdmissionCheckState) if state is not None else None
    obj = convert(run.inputs["wl"], Workload)
    same(run.expected["want"], skips_nomination(found, obj, elastic=run.inputs["isElastic"]))


@suite(
    "jobframework/jobframework-TestValidateRemoteObjectOwnership",
    ignores={
        "inputs.obj.spec.**": "only the metadata of the object is looked at",
        "inputs.obj.status": "only the metadata of the object is looked at",
        "inputs.shared": "kind and key of the object, which are compared if there is one",
    },
)
def ownership(run: Run) -> None:
    """Whether the object with the key is one that this manager created."""
    obj, shared = run.inputs.get("obj"), run.inputs["shared"]
    given = whole(obj) if obj is not None else None
    if given is not None:
        meta, gvk = given["metadata"], whole(shared["gvk"])
        same(whole(shared["key"]), {"name": meta["name"], "namespace": meta["namespace"]})
        same(
            f"{gvk['Group']}/{gvk['Version']} {gvk['Kind']}",
            f"{given['apiVersion']} {given['kind']}",
        )
    found, error = False, ""
    try:
        found = is_owned(given, run.inputs["origin"])
    except (OriginMissing, ForeignObject) as raised:
        error = str(raised)
    refused(run.expected["wantErr"], error)
    same(run.expected["wantFound"], found, ".wantFound")
