# SPDX-License-Identifier: Apache-2.0
"""Suites on the worker clusters of MultiKueue: checks, connections, quota, left-over objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from msgspec import to_builtins

from conformance.case import Json, Run, refused, same
from conformance.recorder import convert, whole
from conformance.registry import suite
from kuota.api.base import Key, Object, ObjectMeta
from kuota.api.config.duration import Duration
from kuota.api.kueue import (
    GROUP,
    MULTIKUEUE,
    AdmissionCheck,
    AdmissionCheckParameters,
    AdmissionCheckSpec,
    ClusterQueue,
    LocalQueue,
    MultiKueueCluster,
    MultiKueueConfig,
)
from kuota.api.workload import AdmissionCheckState, Workload
from kuota.bridge.conditions import Conditions
from kuota.control.checks.multikueue.activity import ACTIVE, check_activity
from kuota.control.checks.multikueue.connection_backoff import attempt_timeout_s
from kuota.control.checks.multikueue.garbage import left_over
from kuota.control.checks.multikueue.quota import CONDITION, WorkerQueues, automation
from kuota.control.checks.multikueue.references import (
    CONFIG_KIND,
    BadReference,
    check_names,
    config_name,
    is_multikueue,
    lists_others,
    multikueue_state,
    profile_name,
    refers_elsewhere,
    secret_name,
    worker_names,
)
from kuota.control.checks.multikueue.remote import WORKLOAD

T = TypeVar("T", bound=Object)

ORIGIN = "multikueue"
JOB = ("batch", "Job")


def _all(run: Run, name: str, kind: type[T]) -> dict[str, T]:
    """The objects of one input by name, in order."""
    found = [convert(each, kind) for each in run.inputs.get(name) or ()]
    return {each.metadata.name: each for each in found}


@suite(
    "admissionchecks/multikueue-TestReconcile",
    ignores={"inputs.clusters.*.metadata.generation": "the test sets it and reads it nowhere"},
)
def check_reconciled(run: Run) -> None:
    checks = _all(run, "checks", AdmissionCheck)
    configs = _all(run, "configs", MultiKueueConfig)
    clusters = _all(run, "clusters", MultiKueueCluster)
    found = []
    for name, check in checks.items():
        conditions = Conditions(check.status.conditions, run.now, check.metadata.generation)
        if name == run.inputs["reconcileFor"] and is_multikueue(check):
            state = check_activity(check, configs, clusters)
            conditions.put(ACTIVE, state.active, state.reason, state.message)
        found.append(_check_json(check, conditions.json()))
    wanted = [
        _check_json(convert(each, AdmissionCheck), (each.get("status") or {}).get("conditions"))
        for each in run.expected["wantChecks"] or ()
    ]
    same(wanted, found)
    refused(run.expected["wantError"], None)


def _check_json(check: AdmissionCheck, conditions: Any) -> Json:
    skipped = ("message", "lastTransitionTime")
    return {
        "name": check.metadata.name,
        "spec": to_builtins(check.spec),
        "conditions": [
            {name: each[name] for name in each if name not in skipped}
            for each in whole(conditions) or ()
        ],
    }


@suite("admissionchecks/multikueue-TestEstablishBackoffSchedule")
def established(run: Run) -> None:
    found = attempt_timeout_s(run.inputs["failedAttempts"])
    same(run.expected["want"], str(Duration(int(found * 1e9))))


@suite("admissionchecks/multikueue-TestListMultiKueueClustersUsingKubeConfig")
def clusters_of_kubeconfig(run: Run) -> None:
    wanted = Key.parse(run.inputs["filter"]["spec.kubeconfigs"])
    clusters = _all(run, "clusters", MultiKueueCluster)
    _listed(run, [n for n, each in clusters.items() if secret_name(each) == wanted.name])


@suite("admissionchecks/multikueue-TestListMultiKueueClustersUsingClusterProfile")
def clusters_of_profile(run: Run) -> None:
    wanted = Key.parse(run.inputs["filter"]["spec.clusterProfiles"])
    clusters = _all(run, "clusters", MultiKueueCluster)
    if not run.gates.get("MultiKueueClusterProfile"):
        clusters = {}
    _listed(run, [n for n, each in clusters.items() if profile_name(each) == wanted.name])


@suite("admissionchecks/multikueue-TestListMultiKueueConfigsUsingMultiKueueClusters")
def configs_of_cluster(run: Run) -> None:
    wanted = run.inputs["filter"]["spec.multiKueueClusters"]
    configs = _all(run, "configs", MultiKueueConfig)
    _listed(run, [n for n, each in configs.items() if wanted in (each.spec.clusters or ())])


@suite("admissionchecks/multikueue-TestListWorkloadsWithAdmissionCheck")
def workloads_of_check(run: Run) -> None:
    wanted = run.inputs["filter"]["status.admissionChecks"]
    _listed(run, _workloads_with(run, {wanted}))


def _workloads_with(run: Run, checks: set[str]) -> list[str]:
    workloads = _all(run, "workloads", Workload)
    return sorted(name for name, each in workloads.items() if checks & set(check_names(each)))


def _listed(run: Run, names: Iterable[str]) -> None:
    same(run.expected["wantList"], sorted(names))
    refused(run.expected["wantListError"], None)


@suite("admissionchecks/multikueue-TestAdmissionCheckHandlerUpdate")
def check_changed(run: Run) -> None:
    old = convert(run.inputs["oldAdmissionCheck"], AdmissionCheck)
    new = convert(run.inputs["newAdmissionCheck"], AdmissionCheck)
    known = _all(run, "admissionChecks", AdmissionCheck)
    concerned = {new.metadata.name} if refers_elsewhere(old, new) else set()
    same(run.expected["expectedQueuedWLs"], _workloads_with(run, concerned & set(known)))


@suite("admissionchecks/multikueue-TestConfigHandlerUpdate")
def config_changed(run: Run) -> None:
    old = convert(run.inputs["oldConfig"], MultiKueueConfig)
    new = convert(run.inputs["newConfig"], MultiKueueConfig)
    checks = _all(run, "admissionChecks", AdmissionCheck)
    concerned = {
        name
        for name, each in checks.items()
        if is_multikueue(each) and config_name(each) == new.metadata.name and lists_others(old, new)
    }
    same(run.expected["expectedQueuedWLs"], _workloads_with(run, concerned))


@suite("admissionchecks/multikueue-TestCQReconcile")
def quota_reconciled(run: Run) -> None:
    queue = convert(run.inputs["cq"], ClusterQueue)
    assert run.gates["MultiKueueManagerQuotaAutomation"]
    found = automation(
        queue,
        _all(run, "acs", AdmissionCheck).values(),
        _all(run, "configs", MultiKueueConfig),
        _all(run, "lqs", LocalQueue).values(),
        _workers(run.inputs.get("workers") or {}),
    )
    conditions = Conditions(queue.status.conditions, run.now, queue.metadata.generation)
    if found is None:
        conditions.drop(CONDITION)
    else:
        conditions.put(CONDITION, found.automated, found.reason, found.message)
    same(_brief(run.expected["wantCondition"]), _brief(_one(conditions.json())))
    same(run.expected["wantQuotaAutomated"], found is not None and found.automated)
    if run.expected["wantQuotaAutomated"]:
        assert found is not None
        quotas = found.resources
        if quotas is None:
            quotas = to_builtins((queue.spec.resource_groups or [])[0].flavors[0].resources)  # type: ignore[index]
        actual = {each["name"]: str(each.get("nominalQuota", 0)) for each in quotas}
        same(run.expected["wantNominalQuotas"], actual)
    else:
        same(run.expected["wantNominalQuotas"], None)


def _one(conditions: list[Json]) -> Json:
    return next((each for each in conditions if each["type"] == CONDITION), {})


def _brief(condition: Any) -> Json:
    found = condition or {}
    return {name: found.get(name) for name in ("type", "status", "reason")}


def _workers(workers: Mapping[str, Any]) -> dict[str, WorkerQueues]:
    """The connected workers."""
    return {
        name: WorkerQueues(
            [convert(each, ClusterQueue) for each in worker.get("cqs") or ()],
            [convert(each, LocalQueue) for each in worker.get("lqs") or ()],
        )
        for name, worker in workers.items()
        if not worker.get("inactive")
    }


@suite("admissionchecks/multikueue-TestRemoteClientGC")
def collected(run: Run) -> None:
    inputs = {name: whole(run.inputs[name]) for name in run.inputs}
    copies = {_key(each): each for each in inputs.get("workersWorkloads") or ()}
    jobs = {_key(each): each for each in inputs.get("workersJobs") or ()}
    local = {_key(each): each for each in inputs.get("managersWorkloads") or ()}
    remote = {JOB: jobs, WORKLOAD: copies}
    for kind, key, _ in list(
        left_over(
            copies.values(), lambda kind, key: remote.get(kind, {}).get(key), local.get, ORIGIN, ""
        )
    ):
        del remote[kind][key]
    same(run.expected["wantWorkersJobs"], list(jobs.values()))
    same(run.expected["wantWorkersWorkloads"], list(copies.values()))


def _key(obj: Json) -> Key:
    return Key(obj["metadata"].get("namespace") or "", obj["metadata"]["name"])


@suite("util/admissioncheck-TestGetMultiKueueAdmissionCheck")
def check_of_workload(run: Run) -> None:
    checks = _all(run, "admissionChecks", AdmissionCheck)
    states = [convert(each, AdmissionCheckState) for each in run.inputs.get("workloadACS") or ()]
    found = multikueue_state(states, checks)
    same(run.expected["wantResult"], None if found is None else to_builtins(found))
    refused(run.expected["wantErr"], None)


@suite("util/admissioncheck-TestGetRemoteClusters")
def workers_of_check(run: Run) -> None:
    name = run.inputs["shared"]["acTest"]
    parameters = AdmissionCheckParameters(api_group=GROUP, kind=CONFIG_KIND, name=name)
    check = AdmissionCheck(
        metadata=ObjectMeta(name=name),
        spec=AdmissionCheckSpec(controller_name=MULTIKUEUE, parameters=parameters),
    )
    record = run.inputs.get("multiKueueConfig")
    configs = {name: convert(record, MultiKueueConfig)} if record else {}
    found, error = None, None
    try:
        found = worker_names(check, configs)
    except BadReference as failure:
        error = failure
    same(run.expected["wantResult"], found)
    refused(run.expected["wantErr"], error)
