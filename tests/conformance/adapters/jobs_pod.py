# SPDX-License-Identifier: Apache-2.0
"""Suites of Kueue's integration of plain Pods and pod groups."""

from __future__ import annotations

import copy
from typing import Any, cast

from msgspec.structs import replace

from conformance.case import Json, Run, refused, same
from conformance.effects import Objects, events_of
from conformance.jobs import listed_objects, namespace, rules_of, view_of
from conformance.recorder import convert, whole
from conformance.registry import Exercise, suite
from conformance.world import gates_of
from kuota.api.base import Key
from kuota.api.gates import Gates
from kuota.api.kueue import ResourceFlavor
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.effects import Effect, Event
from kuota.bridge.job_pass.steps import reconcile_job
from kuota.bridge.jobs.ancestor import owners_of
from kuota.bridge.jobs.composable import composed
from kuota.bridge.jobs.kind import JobKind, key_of
from kuota.bridge.jobs.pod import PodKind
from kuota.bridge.jobs.pod_group import PodGroup
from kuota.bridge.jobs.pod_group_workload import INVALID_GROUP
from kuota.bridge.lifecycle_view import JobPassInput

POD, GROUP = PodKind(), PodGroup()
_GROUP_PREFIX = "group/"


@suite(
    "jobs/pod-TestReconciler",
    exercises=Exercise.PATH,
    ignores={"expected.workloadCmpOpts": "options of the Go comparison, followed below"},
)
def reconciled(run: Run) -> None:
    """Run one pass over a Pod or its group, carry its effects out, and compare all objects."""
    pods, workloads = whole(run.inputs.get("pods")) or [], _workloads(run)
    around = [namespace("ns"), *listed_objects(run)]
    view = _view(run, pods, workloads, around)
    result = reconcile_job(view, run.now)
    objects = Objects([*pods, *workloads])
    objects.carry_out(result.effects)
    refused(run.expected["wantErr"], result.fault)
    wanted = whole(run.expected["wantPods"])
    if wanted is not None:
        # Pods that are being deleted still exist; the test does not compare when they were.
        same(_by_name(wanted), _by_name(objects.all("Pod")), ".pods")
    listed = whole(run.expected["wantWorkloads"]) or []
    same(_by_name(listed), _by_name(objects.all("Workload")), ".workloads")
    same(_sorted(events_of(run.expected["wantEvents"])), _sorted(events_of(_kueue(result.effects))))


def _workloads(run: Run) -> list[Json]:
    """The workloads, deleted first if the test says so: those with finalizers then stay."""
    listed: list[Json] = whole(run.inputs.get("workloads")) or []
    if run.inputs["deleteWorkloads"]:
        listed = [each for each in listed if each["metadata"].get("finalizers")]
        for each in listed:
            each["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    return listed


def _view(run: Run, pods: list[Json], workloads: list[Json], around: list[Json]) -> JobPassInput:
    gates, kind = gates_of(run), cast(JobKind, POD)
    config = replace(rules_of(run), owners=owners_of(["pod"]))
    named = run.inputs.get("reconcileKey")
    group = GROUP.group_of(pods[0], gates) if named is None else ""
    if named is not None and named["namespace"].startswith(_GROUP_PREFIX):
        group = named["name"]
    if group:
        space = (
            named["namespace"].removeprefix(_GROUP_PREFIX) if named else key_of(pods[0]).namespace
        )
        key, kind = Key(space, group), GROUP
    else:
        key = Key(named["namespace"], named["name"]) if named else key_of(pods[0])
    job = _job(kind, key, pods, gates, run)
    view = view_of(key, job, [*workloads, *around], config, kind)
    flavors = [convert(each, ResourceFlavor) for each in around if each["kind"] == "ResourceFlavor"]
    named_flavors = {each.metadata.name: each for each in flavors}
    view = replace(view, flavors={**view.flavors, **named_flavors})
    return _with_group_workload(view, workloads) if kind is GROUP else view


def _job(kind: JobKind, key: Key, pods: list[Json], gates: Gates, run: Run) -> Json | None:
    if kind is POD:
        return next((each for each in pods if key_of(each) == key), None)
    members = [each for each in pods if GROUP.group_of(each, gates) == key.name]
    if not members:
        return None
    expected = whole(run.inputs.get("excessPodsExpectations")) or []
    waiting = {"namespace": key.namespace, "name": key.name}
    stale = any(each["key"] == waiting and each["uids"] for each in expected)
    return composed(GROUP, key, members, gates, run.now, stale=stale)


def _with_group_workload(view: JobPassInput, workloads: list[Json]) -> JobPassInput:
    named = [StoredWorkload.of(e) for e in workloads if e["metadata"]["name"] == view.key.name]
    owned = view.job is not None or all(GROUP.owns(e, view.config.gates) for e in named)
    return replace(view, workloads=tuple(named) if owned else ())


def _kueue(effects: tuple[Effect, ...]) -> list[Effect]:
    """The events that Kueue records too. It only logs that the pods of a group contradict."""
    events = (each for each in effects if isinstance(each, Event))
    return [each for each in events if each.reason != INVALID_GROUP]


def _sorted(events: list[Json]) -> list[Json]:
    return sorted(events, key=lambda each: (each["name"], each["reason"]))


def _by_name(objects: list[Json]) -> list[Json]:
    return [
        _plain(each) for each in sorted(objects, key=lambda each: str(each["metadata"]["name"]))
    ]


def _plain(obj: Json) -> Json:
    found = copy.deepcopy(obj)
    for field in ("resourceVersion", "deletionTimestamp"):
        found["metadata"].pop(field, None)
    for each in (*_listed(found, "conditions"), *_listed(found, "admissionChecks")):
        for field in ("lastTransitionTime", "lastProbeTime", "message"):
            each.pop(field, None)
    status = found.get("status") or {}
    held = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    if held.get("QuotaReserved") == "False":
        # The client of the recorded test does not take the admission away.
        status.pop("admission", None)
    if status.get("conditions"):
        status["conditions"].sort(key=lambda each: str(each["type"]))
    return found


def _listed(obj: Json, field: str) -> list[Any]:
    return (obj.get("status") or {}).get(field) or []
