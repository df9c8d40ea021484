# SPDX-License-Identifier: Apache-2.0
"""Decides which ProvisioningRequests a Workload has, and the states of its checks.

One pass reads the answers to existing requests first, then deletes requests that are not used any
more, and then creates missing ones. So a new request is evaluated in the next pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from kuota.api.base import Json, Key
from kuota.api.gates import Gate, Gates
from kuota.api.kueue import (
    PROVISIONING,
    AdmissionCheck,
    ProvisioningRequestConfig,
    ProvisioningRequestConfigSpec,
)
from kuota.api.owners import controller_of
from kuota.api.podset import FlavorMissing, MergeConflict
from kuota.api.rules.report import child, elements, same, text
from kuota.api.workload import AdmissionCheckState
from kuota.bridge.draft import PassResult, StoredWorkload
from kuota.bridge.effects import Create, Delete, Effect, Event, edit
from kuota.kube.resources import (
    POD_TEMPLATES,
    PROVISIONING_REQUEST_CONFIGS,
    PROVISIONING_REQUESTS,
    WORKLOADS,
    key_of,
)

from ..controller import (
    ACTIVE,
    BAD_PARAMETERS,
    Activity,
    CheckController,
    CheckedWorkload,
    CheckObjects,
    Watched,
)
from ..parameters import BadParameters, parameters_name
from ..states import PENDING, READY, state_effects
from .check_state import BOOKING_EXPIRED, FAILED, INACTIVE, NOT_NEEDED, evaluated
from .names import attempt_of
from .pod_sets import Inconsistent, is_needed, merged_pod_sets
from .request import (
    is_owned_by,
    is_synced,
    is_true,
    owning_workloads,
    reference,
    request_object,
    template_object,
)

NOT_SERVED = "ProvisioningRequestsNotServed"
_NOT_SERVED = (
    "the server does not have ProvisioningRequests; install the CustomResourceDefinition "
    "provisioningrequests.autoscaling.x-k8s.io, which Cluster Autoscaler provides"
)
_TAKEN = (
    'Error creating {kind} "{name}": an object of this name exists and does not belong to this '
    "Workload; delete it"
)
FAILED_CREATE = "FailedCreate"
LOOK_AGAIN_S = 60.0
"""The delay until a name that another object has is tried again."""


class _NameTaken(ValueError):
    """Another object has the name of an object that is to be created."""


class _Plan(NamedTuple):
    """What one check of a Workload has: its configuration, and its active or last request.

    `config` is None if the check is inactive, and `needed` is whether it needs a request.
    """

    state: AdmissionCheckState
    config: ProvisioningRequestConfigSpec | None
    needed: bool
    request: Json | None


class ProvisioningController(CheckController):
    """The controller of AdmissionChecks whose parameters name a ProvisioningRequestConfig."""

    name = PROVISIONING
    watched = (
        Watched(resource=PROVISIONING_REQUEST_CONFIGS),
        Watched(resource=PROVISIONING_REQUESTS, workloads=owning_workloads),
        Watched(
            resource=POD_TEMPLATES,
            workloads=lambda template: (),
            label_selector="kueue.x-k8s.io/managed=true",
        ),
    )

    def __init__(self, gates: Gates | None = None) -> None:
        self._gates = gates or Gates()

    def activity(self, check: AdmissionCheck, objects: CheckObjects) -> Activity:
        try:
            configuration(check, objects)
        except BadParameters as error:
            return Activity(False, BAD_PARAMETERS, str(error))
        if _unserved_kinds(objects):
            return Activity(False, NOT_SERVED, _NOT_SERVED)
        return ACTIVE

    def reconcile(self, workload: CheckedWorkload) -> PassResult:
        stored = workload.stored
        finished, evicted = stored.true("Finished"), stored.true("Evicted")
        if not (stored.reserved or finished or evicted):
            return PassResult()
        owned = owned_requests(workload)
        cleans = self._gates.on(Gate.CleanupProvisioningRequestsOnEviction)
        if finished or (evicted and cleans):
            return PassResult(effects=tuple(map(_deletion, owned)))
        if evicted or stored.deleting:
            return PassResult()
        try:
            plans = [_plan(workload, each, owned) for each in workload.states]
        except Inconsistent as error:
            return PassResult(fault=str(error))
        if _unserved_kinds(workload.objects):
            return PassResult(effects=_unserved(workload, plans))
        return self._carried_out(workload, plans, owned)

    def _carried_out(
        self, workload: CheckedWorkload, plans: list[_Plan], owned: list[Json]
    ) -> PassResult:
        stored = workload.stored
        states = [_next_state(stored, each) for each in plans]
        used = [each.request["metadata"]["name"] for each in plans if each.request is not None]
        writes: list[Effect] = [
            _deletion(each) for each in owned if each["metadata"]["name"] not in used
        ]
        requeue_after_s = None
        for at, plan in enumerate(plans):
            try:
                writes += self._created(workload, plan, states[at])
            except (_NameTaken, FlavorMissing, MergeConflict) as error:
                states[at] = replace(states[at], message=str(error))
                writes += _explained(stored, plan.state, str(error))
                requeue_after_s = LOOK_AGAIN_S
            if plan.request is not None:
                writes += _controlled_templates(workload, plan.request)
        effects = (*state_effects(stored, states, workload.now), *writes)
        return PassResult(effects=effects, requeue_after_s=requeue_after_s)

    def _created(
        self, workload: CheckedWorkload, plan: _Plan, state: AdmissionCheckState
    ) -> list[Effect]:
        """Return the creation of a check's next request, if one is due. Its templates come first.

        Raises _NameTaken, FlavorMissing and MergeConflict.
        """
        attempt = _next_attempt(workload.stored, plan, state)
        if attempt is None or plan.config is None:
            return []
        stored = workload.stored
        pod_sets = merged_pod_sets(stored, plan.config)
        request = request_object(stored.json, state.name, attempt, plan.config, pod_sets)
        key = key_of(request)
        _require_free(workload, key)
        found: list[Effect] = []
        for pod_set, listed in zip(pod_sets, request["spec"]["podSets"], strict=True):
            name = listed["podTemplateRef"]["name"]
            made = template_object(stored.json, name, pod_set, workload.flavors, self._gates)
            found += _template_effects(workload, made, key.name)
        kind, note = PROVISIONING_REQUESTS.kind, f'Created ProvisioningRequest: "{key.name}"'
        found.append(Create(key=key, object=request, kind=kind, must_be_new=True))
        return [*found, Event.about(stored.key, "ProvisioningRequestCreated", note)]

    def failed(self, workload: CheckedWorkload, error: str) -> PassResult:
        """Explain on the checks that wait for a request why it could not be created."""
        try:
            plans = [_plan(workload, each, owned_requests(workload)) for each in workload.states]
        except Inconsistent:
            return PassResult()
        waiting = [each.state for each in plans if _next_attempt(workload.stored, each, each.state)]
        note = f"Error creating a ProvisioningRequest or its PodTemplates: {error}"
        stored, now = workload.stored, workload.now
        noted = [replace(each, message=note) for each in waiting]
        event = Event.about(stored.key, FAILED_CREATE, note, warning=True)
        effects = (*state_effects(stored, noted, now), *((event,) if waiting else ()))
        return PassResult(effects=effects)


def configuration(check: AdmissionCheck, objects: CheckObjects) -> ProvisioningRequestConfigSpec:
    """Return the configuration that a check refers to. Raises BadParameters."""
    name = parameters_name(check, PROVISIONING_REQUEST_CONFIGS.kind)
    found = objects.get(PROVISIONING_REQUEST_CONFIGS, Key("", name))
    if found is None:
        raise BadParameters(f"ProvisioningRequestConfig {name!r} not found; create it")
    try:
        return msgspec.convert(found, ProvisioningRequestConfig).spec
    except msgspec.ValidationError as error:
        raise BadParameters(f"ProvisioningRequestConfig {name!r} is malformed: {error}") from error


def owned_requests(workload: CheckedWorkload) -> list[Json]:
    """Return the requests that belong to this Workload, and not to an earlier one of its name."""
    uid = workload.stored.obj.metadata.uid
    found = workload.objects.for_workload(PROVISIONING_REQUESTS, workload.key)
    return [each for each in found if is_owned_by(each, uid)]


def last_request(
    stored: StoredWorkload, check: str, config: ProvisioningRequestConfigSpec, owned: list[Json]
) -> Json | None:
    """Return the request with the highest attempt that the configuration still describes."""
    numbered = [
        (attempt, each)
        for each in owned
        if (attempt := attempt_of(each, stored.key.name, check)) is not None
        and is_synced(each, config, stored.json)
    ]
    return max(numbered, key=lambda each: each[0])[1] if numbered else None


def _plan(workload: CheckedWorkload, state: AdmissionCheckState, owned: list[Json]) -> _Plan:
    """Return what a check has. Raises Inconsistent."""
    try:
        config = configuration(workload.checks[state.name], workload.objects)
    except BadParameters:
        return _Plan(state, None, False, None)
    if not is_needed(workload.stored, config):
        return _Plan(state, config, False, None)
    return _Plan(state, config, True, last_request(workload.stored, state.name, config, owned))


def _next_state(stored: StoredWorkload, plan: _Plan) -> AdmissionCheckState:
    state = plan.state
    if plan.config is None:
        return replace(state, state=PENDING, message=INACTIVE)
    if not plan.needed:
        if state.state == READY:
            return state
        return replace(state, state=READY, message=NOT_NEEDED, pod_set_updates=None)
    if plan.request is None:
        return state
    return evaluated(state, stored, plan.request, plan.config)


def _next_attempt(stored: StoredWorkload, plan: _Plan, state: AdmissionCheckState) -> int | None:
    """Return the attempt for which a request is to be created; None if there is nothing to do."""
    if not plan.needed or state.state == READY:
        return None
    if plan.request is None:
        return (state.retry_count or 0) + 1
    expired = is_true(plan.request, BOOKING_EXPIRED) and not stored.true("Admitted")
    if state.state != PENDING or not (is_true(plan.request, FAILED) or expired):
        return None
    return (attempt_of(plan.request, stored.key.name, state.name) or 1) + 1


def _require_free(workload: CheckedWorkload, key: Key) -> None:
    """Raise _NameTaken if a request of this name belongs to something else.

    One of this Workload that is not used any more is deleted in the same pass.
    """
    found = workload.objects.get(PROVISIONING_REQUESTS, key)
    if found is not None and not is_owned_by(found, workload.stored.obj.metadata.uid):
        raise _NameTaken(_TAKEN.format(kind=PROVISIONING_REQUESTS.kind, name=key.name))


def _template_effects(workload: CheckedWorkload, wanted: Json, request: str) -> list[Effect]:
    """Return the creation of a template, unless an earlier pass has created it.

    One that an earlier request of the same name has left is replaced. Raises _NameTaken.
    """
    key = key_of(wanted)
    creation = Create(key=key, object=wanted, kind=POD_TEMPLATES.kind)
    found = workload.objects.get(POD_TEMPLATES, key)
    if found is None:
        return [creation]
    controller = controller_of(found) or {}
    if controller.get("uid", "") in ("", workload.stored.obj.metadata.uid) and all(
        same(child(found, "template", "spec").get(each), wanted["template"]["spec"].get(each))
        for each in ("nodeSelector", "tolerations")
    ):
        return []
    own = (WORKLOADS.kind, workload.key.name), (PROVISIONING_REQUESTS.kind, request)
    if controller and (controller.get("kind"), controller.get("name")) not in own:
        raise _NameTaken(_TAKEN.format(kind=POD_TEMPLATES.kind, name=key.name))
    uid = found["metadata"].get("uid") or ""
    return [Delete(key=key, uid=uid, kind=POD_TEMPLATES.kind), creation]


def _controlled_templates(workload: CheckedWorkload, request: Json) -> Iterator[Effect]:
    """Yield the patches that let a request control its templates in place of the Workload."""
    uid = workload.stored.obj.metadata.uid
    meta = request["metadata"]
    for listed in elements(child(request, "spec").get("podSets")):
        key = Key(workload.key.namespace, text(child(listed, "podTemplateRef").get("name")))
        template = workload.objects.get(POD_TEMPLATES, key)
        if template is None:
            continue
        controller = controller_of(template)
        if controller is not None and controller.get("uid") != uid:
            continue
        before = template["metadata"].get("ownerReferences") or []
        kept = [each for each in before if each != controller]
        owners = {"ownerReferences": [*kept, reference(PROVISIONING_REQUESTS, meta)]}
        after = template | {"metadata": template["metadata"] | owners}
        yield from edit(POD_TEMPLATES.kind, key, template, after)


def _unserved_kinds(objects: CheckObjects) -> bool:
    """Whether the server lacks a kind without which nothing can be requested."""
    return any(objects.lacking(each) for each in (PROVISIONING_REQUESTS, POD_TEMPLATES))


def _unserved(workload: CheckedWorkload, plans: list[_Plan]) -> tuple[Effect, ...]:
    """Say on the checks that need a request that there are none in this cluster."""
    stored = workload.stored
    states = [
        replace(each.state, message=_NOT_SERVED)
        if each.needed and each.state.state == PENDING
        else _next_state(stored, each)
        for each in plans
    ]
    return state_effects(stored, states, workload.now)


def _explained(stored: StoredWorkload, before: AdmissionCheckState, note: str) -> list[Effect]:
    """Return an event that says why a request could not be created, if that is new."""
    if before.message == note:
        return []
    return [Event.about(stored.key, FAILED_CREATE, note, warning=True)]


def _deletion(request: Json) -> Delete:
    meta = request["metadata"]
    return Delete(key=key_of(request), uid=meta.get("uid") or "", kind=PROVISIONING_REQUESTS.kind)
