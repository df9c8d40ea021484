# SPDX-License-Identifier: Apache-2.0
"""Suites on the controller of ProvisioningRequests, and on the parameters of admission checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from conformance.case import Json, Run, refused, same
from conformance.recorder import convert, whole
from conformance.registry import Exercise, suite
from kuota.api.base import Key
from kuota.api.gates import Gates
from kuota.api.kueue import (
    PROVISIONING,
    AdmissionCheck,
    ProvisioningRequestConfig,
    ProvisioningRequestConfigSpec,
    ResourceFlavor,
)
from kuota.api.merge_patch import merged
from kuota.api.workload import AdmissionCheckState
from kuota.bridge.conditions import Conditions
from kuota.bridge.draft import PassResult, StoredWorkload
from kuota.bridge.effects import Create, Delete, Effect, Event, Patch, StatusPatch
from kuota.control.cached_object import decode_workload
from kuota.control.checks.controller import CheckedWorkload
from kuota.control.checks.parameters import BadParameters, parameters_name
from kuota.control.checks.provisioning.controller import (
    ProvisioningController,
    configuration,
    last_request,
)
from kuota.control.checks.provisioning.pod_sets import Inconsistent, is_needed, merged_pod_sets
from kuota.control.checks.provisioning.request import owning_workloads
from kuota.control.checks.states import state_effects
from kuota.control.workload_indexes import listed_check_names
from kuota.kube.resources import (
    POD_TEMPLATES,
    PROVISIONING_REQUEST_CONFIGS,
    PROVISIONING_REQUESTS,
    Resource,
    key_of,
)

CONFIG, API_VERSION = PROVISIONING_REQUEST_CONFIGS.kind, PROVISIONING_REQUEST_CONFIGS.api_version
WORKLOAD = "Workload"


class Refused(Exception):
    """The API server of the case rejects a write."""


class Store:
    """The objects of a case. Implements `Objects`, and applies effects as the API server does.

    `rejects` is the kind whose creation fails, and `exists` whether that is because of the name.
    """

    def __init__(self, rejects: str = "", *, exists: bool = False) -> None:
        self.objects: dict[tuple[str, Key], Json] = {}
        self.events: list[Json] = []
        self._rejects, self._exists = rejects, exists

    def put(self, objects: Iterable[Any] | None) -> None:
        for each in whole(list(objects or ())):
            self.objects[each["kind"], key_of(each)] = each

    def get(self, resource: Resource, key: Key) -> Json | None:
        return self.objects.get((resource.kind, key))

    def for_workload(self, resource: Resource, workload: Key) -> list[Json]:
        assert resource == PROVISIONING_REQUESTS
        listed = (each for (kind, _), each in self.objects.items() if kind == resource.kind)
        return [each for each in listed if workload in owning_workloads(each)]

    def lacking(self, resource: Resource) -> bool:
        return False

    def send(self, effects: Iterable[Effect]) -> bool:
        """Apply effects. Returns whether an object was created. Raises Refused."""
        created = False
        for each in effects:
            at = each.kind, each.key
            match each:
                case Event():
                    type_ = "Warning" if each.warning else "Normal"
                    about = {"namespace": each.key.namespace, "name": each.key.name}
                    self.events.append(about | {"type": type_, "reason": each.reason})
                case Create():
                    if each.kind == self._rejects:
                        raise Refused("already exists" if self._exists else "invalid")
                    self.objects[at] = each.object
                    created = True
                case Delete():
                    del self.objects[at]
                case StatusPatch():
                    self.objects[at] = merged(self.objects[at], {"status": each.status})
                case Patch():
                    self.objects[at] = merged(self.objects[at], each.body)
        return created

    @property
    def silent(self) -> bool:
        """Whether a rejected creation is retried without a report: the cache is only stale."""
        return self._exists


@suite(
    "admissionchecks/provisioning-TestReconcile",
    exercises=Exercise.PATH,
    ignores={
        "expected.wantTemplates.*.template.spec.restartPolicy": "Kueue's test ignores it",
        "expected.wantTemplates.*.kind": "Kueue's test ignores types",
        "expected.wantTemplates.*.apiVersion": "Kueue's test ignores types",
        "expected.wantRequests.*.metadata.ownerReferences": "Kueue's test ignores metadata",
        "expected.wantRequests.*.metadata.name": "Kueue's test ignores metadata",
        "expected.wantRequests.*.metadata.namespace": "Kueue's test ignores metadata",
        "expected.wantRequests.*.kind": "Kueue's test ignores types",
        "expected.wantRequests.*.apiVersion": "Kueue's test ignores types",
        "expected.wantWorkloads.*.kind": "Kueue's test ignores types",
        "expected.wantWorkloads.*.apiVersion": "Kueue's test ignores types",
        "expected.wantWorkloads.*.metadata": "Kueue's test ignores metadata",
    },
    functions={
        "interceptorFuncsCreate": (
            "rejects the creation of PodTemplates or of ProvisioningRequests, as the name of the "
            "case says; with the error AlreadyExists if that name speaks of an existing request"
        )
    },
)
def reconciled(run: Run) -> None:
    store = _store(run)
    store.put([run.inputs["workload"]])
    for each in ("configs", "requests", "templates"):
        store.put(run.inputs.get(each))
    checks = [convert(each, AdmissionCheck) for each in run.inputs.get("checks") or ()]
    flavors = [convert(each, ResourceFlavor) for each in run.inputs.get("flavors") or ()]
    controller = ProvisioningController(Gates.of(dict(whole(run.gates)), check=False))
    key = key_of(whole(run.inputs["workload"]))

    def view() -> CheckedWorkload:
        stored = StoredWorkload.of(store.objects[WORKLOAD, key])
        listed = {each.name for each in stored.obj.status.admission_checks or ()}
        own = {e.metadata.name: e for e in checks if e.spec.controller_name == PROVISIONING}
        return CheckedWorkload(
            stored=stored,
            checks={name: each for name, each in own.items() if name in listed},
            objects=store,
            flavors={each.metadata.name: each for each in flavors},
            now=run.now,
        )

    error = _passes(store, controller, view)
    refused(run.expected["wantReconcileError"], error)
    _compare(run, store)


def _store(run: Run) -> Store:
    """The API server of a case, by the name of which an interceptor is known."""
    if "template-creation-error" in run.id:
        return Store(POD_TEMPLATES.kind)
    if "request-creation-error" in run.id:
        return Store(PROVISIONING_REQUESTS.kind)
    if "request-already-exists" in run.id:
        return Store(PROVISIONING_REQUESTS.kind, exists=True)
    return Store()


def _passes(store: Store, controller: ProvisioningController, view: Any) -> str:
    """Run a pass, and the next one that the creation of objects causes. Returns the error."""
    for _ in range(2):
        result: PassResult = controller.reconcile(view())
        try:
            created = store.send(result.effects)
        except Refused as error:
            if not store.silent:
                store.send(controller.failed(view(), str(error)).effects)
            return str(error)
        if result.fault or result.requeue_after_s is not None:
            return result.fault or "retried"
        if not created:
            return ""
    return ""


def _compare(run: Run, store: Store) -> None:
    namespace = "ns"
    for name, want in (run.expected["wantWorkloads"] or {}).items():
        found = store.objects[WORKLOAD, Key(namespace, name)]
        for part in ("spec", "status"):
            same(_plain(want[part]), _plain(found[part]), f"{name}.{part}")
    for name, want in (run.expected["wantRequests"] or {}).items():
        found = store.objects.get((PROVISIONING_REQUESTS.kind, Key(namespace, name)), {})
        for part in ("spec", "status"):
            same(_plain(want[part]), _plain(found.get(part) or {}), f"{name}.{part}")
        labels = (found.get("metadata") or {}).get("labels")
        same(want["metadata"].get("labels"), labels, f"{name}.labels")
    for name, want in (run.expected["wantTemplates"] or {}).items():
        found = store.objects[POD_TEMPLATES.kind, Key(namespace, name)]
        same(want["metadata"], found["metadata"], f"{name}.metadata")
        same(_template(want["template"]), _template(found["template"]), f"{name}.template")
    for name in run.expected["wantRequestsNotFound"] or ():
        same(False, (PROVISIONING_REQUESTS.kind, Key(namespace, name)) in store.objects)
    same(_plain(run.expected["wantEvents"]), store.events, "events")


def _plain(value: Any) -> Any:
    """The value without what Kueue's test ignores: messages are Kuota's own."""
    value = whole(value)
    if isinstance(value, dict):
        skip = ("message", "lastTransitionTime")
        return {key: _plain(each) for key, each in value.items() if key not in skip}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _template(value: Any) -> Json:
    plain: Json = _plain(value)
    plain["spec"].pop("restartPolicy", None)
    return plain


@suite("admissionchecks/provisioning-TestReconcileAdmissionCheck")
def check_reconciled(run: Run) -> None:
    check = convert(run.inputs["check"], AdmissionCheck)
    store = Store()
    store.put(run.inputs.get("configs"))
    conditions = Conditions(check.status.conditions, run.now, check.metadata.generation)
    if check.spec.controller_name == PROVISIONING:
        conditions.put("Active", *ProvisioningController().activity(check, store))
    found = next(iter(conditions.json()), {})
    want = whole(run.expected["wantCondition"]) or {}
    same(_plain(want), _plain(found))


@suite(
    "util/admissioncheck-TestConfigHelper",
    ignores={
        "inputs.admissioncheck.spec.controllerName": "the helper does not depend on it",
        "inputs.targetAdmissionCheck": "the helper reads the check by name; ours is given it",
    },
)
def config_found(run: Run) -> None:
    store, found, error = Store(), {}, ""
    if run.inputs.get("config"):
        store.put([run.inputs["config"]])
    try:
        check = _named_check(run)
        spec = msgspec.to_builtins(configuration(check, store))
        named = {"name": parameters_name(check, CONFIG)}
        found = {"apiVersion": API_VERSION, "kind": CONFIG, "metadata": named, "spec": spec}
    except (BadParameters, LookupError) as fault:
        error = str(fault) or "not found"
    same(run.expected["wantConfig"], found)
    refused(run.expected["wantError"], error)


def _named_check(run: Run) -> AdmissionCheck:
    given = run.inputs.get("admissioncheck")
    if not given or given["metadata"]["name"] != run.inputs["targetAdmissionCheck"]:
        raise LookupError("no such check")
    return convert(given, AdmissionCheck)


@suite("admissionchecks/provisioning-TestIndexAdmissionChecks")
def checks_of_config(run: Run) -> None:
    wanted = run.inputs["filter"]["spec.provisioningRequestConfig"]
    checks = [convert(each, AdmissionCheck) for each in run.inputs["checks"] or ()]
    found = [each.metadata.name for each in checks if _config_name(each) == wanted]
    same(run.expected["wantList"], sorted(found))


def _config_name(check: AdmissionCheck) -> str | None:
    if check.spec.controller_name != ProvisioningController.name:
        return None
    try:
        return parameters_name(check, CONFIG)
    except BadParameters:
        return None


@suite("admissionchecks/provisioning-TestIndexProvisioningRequests")
def requests_of_workload(run: Run) -> None:
    wanted = run.inputs["filter"]["metadata.ownedByWorkload"]
    found = [
        each["metadata"]["name"]
        for each in whole(run.inputs["requests"]) or ()
        if any(key.name == wanted for key in owning_workloads(each))
    ]
    same(run.expected["wantList"], sorted(found))
    refused(run.expected["wantListError"], None)


@suite("admissionchecks/provisioning-TestIndexWorkload")
def workloads_of_check(run: Run) -> None:
    wanted = run.inputs["filter"]["status.admissionChecks"]
    found = [
        each["metadata"]["name"]
        for each in whole(run.inputs["workloads"]) or ()
        if wanted in listed_check_names(decode_workload(each))
    ]
    same(run.expected["wantList"], sorted(found))
    refused(run.expected["wantListError"], None)


@suite("admissionchecks/provisioning-TestActiveOrLastPRForChecks")
def active_or_last(run: Run) -> None:
    shared = run.inputs["shared"]
    stored = StoredWorkload.of(whole(shared["baseWorkload"]))
    store = Store()
    store.put([shared["baseConfig"]])
    store.put(run.inputs.get("requests"))
    check = convert(shared["baseCheck"], AdmissionCheck)
    config, owned = (
        configuration(check, store),
        store.for_workload(PROVISIONING_REQUESTS, stored.key),
    )
    name = check.metadata.name
    request = last_request(stored, name, config, owned) if is_needed(stored, config) else None
    same(run.expected["wantResult"], {name: request} if request is not None else {})


@suite("admissionchecks/provisioning-TestIsMissingInCache")
def missing_in_cache(run: Run) -> None:
    store = Store()
    store.put(run.inputs.get("requests"))
    request = whole(run.inputs["shared"]["request"])
    same(run.expected["want"], store.get(PROVISIONING_REQUESTS, key_of(request)) is None)


@suite("admissionchecks/provisioning-TestMergePodSetsSkipsZeroCounts")
def merged_counts(run: Run) -> None:
    stored = StoredWorkload.of(whole(run.inputs["workload"]))
    policy = run.inputs.get("mergePolicy")
    found = merged_pod_sets(stored, ProvisioningRequestConfigSpec(pod_set_merge_policy=policy))
    same(run.expected["wantNames"], [each.pod_set.name for each in found])
    same(run.expected["wantCounts"], [each.count for each in found])


@suite("admissionchecks/provisioning-TestReqIsNeeded")
def needed(run: Run) -> None:
    config = convert(run.inputs["shared"]["prc"], ProvisioningRequestConfig).spec
    found, error = False, ""
    try:
        found = is_needed(StoredWorkload.of(whole(run.inputs["workload"])), config)
    except Inconsistent as fault:
        error = str(fault)
    same(run.expected["want"], found)
    refused(run.expected["wantErr"], error)


@suite("admissionchecks/provisioning-TestUpdateCheckMessage")
def message_updated(run: Run) -> None:
    check = {"name": "check", "state": "Pending", "message": run.inputs["message"]}
    obj: Json = {"metadata": {"name": "wl"}, "status": {"admissionChecks": [check]}}
    stored = StoredWorkload.of(obj)
    after = AdmissionCheckState(name="check", state="Pending", message=run.inputs["newMessage"])
    effects = state_effects(stored, [after], run.now)
    same(run.expected["wantChanged"], bool(effects))
    written = [each.status for each in effects if isinstance(each, StatusPatch)]
    listed = written[0]["admissionChecks"] if written else [check]
    same(run.expected["wantMessage"], listed[0]["message"])
