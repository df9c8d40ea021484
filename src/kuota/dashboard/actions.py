# SPDX-License-Identifier: Apache-2.0
"""Actions of viewers: hold and release a workload, change its priority, stop and resume a queue.

An action is what `kuota stop`, `kuota resume` or a change of a label would do, with the permissions
of the viewer. Every action that was carried out is recorded in an Event that names the user. All
errors are `kuota.kube.errors.ApiError`, with a message that says what to do.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

import msgspec

from kuota.api import names
from kuota.api.base import Json, Key
from kuota.api.config.frameworks import GroupVersionKind
from kuota.api.faults import FieldError, Invalid, invalid, malformed, required
from kuota.api.priority import WORKLOAD_CLASS
from kuota.kube import errors
from kuota.kube.access import AccessRequest
from kuota.kube.client import Client
from kuota.kube.clock import Clock, SystemClock
from kuota.kube.event_writer import EventWriter
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    CORE_EVENTS,
    LOCAL_QUEUES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from kuota.view.conditions import holds

from .job_priority import JobRef, set_class
from .shapes import ActionName, ActionRequest, ActionResult

COMPONENT = "kuota-dashboard"
_QUEUES = {"ClusterQueue": CLUSTER_QUEUES, "LocalQueue": LOCAL_QUEUES}
_WORKLOADS = {"Workload": WORKLOADS}
_KINDS = {
    ActionName.HOLD: _WORKLOADS,
    ActionName.RELEASE: _WORKLOADS,
    ActionName.SET_PRIORITY: _WORKLOADS,
    ActionName.STOP_QUEUE: _QUEUES,
    ActionName.RESUME_QUEUE: _QUEUES,
}
_LONGEST_USER = 200
_log = logging.getLogger(__name__)


class ObjectClient(Protocol):
    """A client with the permissions of the viewer."""

    async def get(self, resource: Resource, key: Key) -> Json:
        """Return the object."""

    async def patch(self, resource: Resource, key: Key, body: Json) -> Json:
        """Apply a merge patch."""


class ReviewedClient:
    """A client that asks before each request whether the viewer may send it.

    It is for viewers who are known only by name, so that requests use the dashboard's credentials.
    """

    def __init__(self, client: Client, allows: Callable[[AccessRequest], Awaitable[bool]]) -> None:
        self._client = client
        self._allows = allows

    async def get(self, resource: Resource, key: Key) -> Json:
        """Return the object. Raises Forbidden if the viewer may not read it."""
        await self._review("get", resource, key)
        return await self._client.get(resource, key)

    async def patch(self, resource: Resource, key: Key, body: Json) -> Json:
        """Apply a merge patch. Raises Forbidden if the viewer may not."""
        await self._review("patch", resource, key)
        try:
            return await self._client.patch(resource, key, body)
        except errors.Forbidden as error:
            words = (
                f"you may patch {resource.name}, but the account of the dashboard may not: "
                f"{error}; use kubectl, or ask an admin to extend the role of the dashboard"
            )
            raise errors.Forbidden(403, "Forbidden", words) from None

    async def _review(self, verb: str, resource: Resource, key: Key) -> None:
        access = AccessRequest(
            verb=verb,
            group=resource.group,
            version=resource.version,
            resource=resource.plural,
            namespace=key.namespace,
            name=key.name,
        )
        if not await self._allows(access):
            where = f"in namespace {key.namespace}" if key.namespace else "at the cluster scope"
            words = f"you may not {verb} {resource.name} {where}"
            raise errors.Forbidden(403, "Forbidden", words)


class Actions:
    """Carries out actions. `events` is a client that may create Events."""

    def __init__(self, events: Client, clock: Clock | None = None) -> None:
        self._writer = EventWriter(events)
        self._clock = clock or SystemClock()

    async def carry_out(
        self, request: ActionRequest, user: str, client: ObjectClient
    ) -> ActionResult:
        """Carry out an action for a user. Raises ApiError if it is not possible or not allowed."""
        resource, key = _target(request)
        obj = await client.get(resource, key)
        done, reason = await _Work(request, resource, obj, client).run()
        note = f"{done[:1].upper()}{done[1:]} by user {_printable(user)}"
        named = f"{resource.kind} {key if key.namespace else key.name}"
        try:
            await self._record(resource, obj, reason, note)
        except errors.KubeError as error:
            _log.warning("%s: %s, but the Event was not written: %s", named, note, error)
            return ActionResult(message=f"{named} {done}; the Event could not be written: {error}")
        return ActionResult(message=f"{named} {done}")

    async def _record(self, resource: Resource, obj: Json, reason: str, note: str) -> None:
        """Write an Event. It is never merged with earlier ones, which may name another user."""
        metadata, now = obj["metadata"], self._clock.now()
        name = f"{metadata['name'][:200]}.{int(now.timestamp() * 1_000_000):x}"
        event: Json = {
            "apiVersion": CORE_EVENTS.api_version,
            "kind": CORE_EVENTS.kind,
            "metadata": {"namespace": metadata.get("namespace") or "default", "name": name},
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": COMPONENT,
            "action": reason,
            "reason": reason,
            "involvedObject": _reference(resource, metadata),
            "message": note,
            "type": "Normal",
        }
        await self._writer.create(event, 1, now, now)


class _Work:
    """One action on an object that was read with the permissions of the viewer."""

    def __init__(
        self, request: ActionRequest, resource: Resource, obj: Json, client: ObjectClient
    ) -> None:
        self._request = request
        self._resource = resource
        self._obj = obj
        self._client = client

    async def run(self) -> tuple[str, str]:
        """Carry it out. Returns what was done, and the reason of the Event."""
        match self._request.action:
            case ActionName.HOLD:
                return await self._activate(False), "Held"
            case ActionName.RELEASE:
                return await self._activate(True), "Released"
            case ActionName.SET_PRIORITY:
                return await self._set_priority(), "PriorityChanged"
            case ActionName.STOP_QUEUE:
                policy = "HoldAndDrain" if self._request.drain else "Hold"
                return await self._stop(policy, f"stopped ({policy})"), "QueueStopped"
            case ActionName.RESUME_QUEUE:
                return await self._stop("None", "resumed"), "QueueResumed"

    async def _activate(self, active: bool) -> str:
        self._unfinished()
        word = "released" if active else "held"
        if (_spec(self._obj).get("active") is not False) is active:
            raise _conflict(f"{self._named} is {'not held' if active else 'already held'}")
        await self._patch({"spec": {"active": active}})
        return word

    async def _stop(self, policy: str, done: str) -> str:
        if (_spec(self._obj).get("stopPolicy") or "None") == policy:
            state = "not stopped" if policy == "None" else f"already stopped ({policy})"
            raise _conflict(f"{self._named} is {state}")
        await self._patch({"spec": {"stopPolicy": policy}})
        return done

    async def _set_priority(self) -> str:
        """Set the class where Kueue takes it from: at the job, or at a Workload without one."""
        self._unfinished()
        name = self._request.priority_class or ""
        jobs = self._jobs()
        former = self._former_class()
        if former == name and len(jobs) <= 1:
            raise _conflict(f"{self._named} already has priority class {name}")
        value = await self._value(name)
        if jobs:
            await set_class(self._client, jobs, former, name)
        else:
            group = WORKLOAD_PRIORITY_CLASSES.group
            ref = {"group": group, "kind": WORKLOAD_CLASS, "name": name}
            await self._patch({"spec": {"priorityClassRef": ref, "priority": value}})
        return f"got priority class {name} ({value})"

    def _jobs(self) -> list[JobRef]:
        """Return the owners of the workload. Raises Conflict if one cannot be an owner."""
        metadata = self._obj["metadata"]
        return [
            JobRef(
                _resource(each),
                Key(metadata["namespace"], str(each.get("name"))),
                str(each.get("uid") or ""),
            )
            for each in metadata.get("ownerReferences") or ()
        ]

    def _former_class(self) -> str:
        """Return the class; "" for none. Raises Conflict if the priority cannot be changed."""
        ref = _spec(self._obj).get("priorityClassRef")
        if ref is not None and ref.get("kind") != WORKLOAD_CLASS:
            raise _conflict(
                f"the priority of {self._named} comes from PriorityClass {ref.get('name')} of its "
                "pods and cannot be changed; create the job with a WorkloadPriorityClass"
            )
        if ref is None and holds(self._obj, "QuotaReserved"):
            raise _conflict(
                f"{self._named} holds quota without a priority class, and none can be added "
                "meanwhile; hold it first, then set the class and release it"
            )
        return str(ref.get("name") or "") if ref is not None else ""

    async def _value(self, name: str) -> int:
        """Return the priority of a class. Raises Invalid if it does not exist."""
        try:
            found = await self._client.get(WORKLOAD_PRIORITY_CLASSES, Key("", name))
        except errors.NotFound:
            fix = "choose one that `kuota get workloadpriorityclasses` lists"
            words = "there is no WorkloadPriorityClass of this name"
            raise _invalid([invalid("priorityClass", name, words, fix)]) from None
        return int(found.get("value") or 0)

    def _unfinished(self) -> None:
        if holds(self._obj, "Finished"):
            raise _conflict(f"{self._named} has finished, so nothing can be changed")

    @property
    def _named(self) -> str:
        return f"{self._resource.kind} {self._obj['metadata']['name']}"

    async def _patch(self, body: Json) -> None:
        """Patch the object that was read, not another one of the same name."""
        metadata = self._obj["metadata"]
        key = Key(metadata.get("namespace") or "", metadata["name"])
        identity = {"metadata": {"uid": metadata.get("uid")}}
        await self._client.patch(self._resource, key, identity | body)


def parse_request(body: bytes) -> ActionRequest:
    """Return the request. Raises BadRequest if it has another shape."""
    try:
        return msgspec.json.decode(body, type=ActionRequest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise errors.BadRequest(400, "BadRequest", f"the action is malformed: {error}") from None


def _target(request: ActionRequest) -> tuple[Resource, Key]:
    """Return the object of an action. Raises Invalid with all faults of the request."""
    faults = list(_faults(request))
    if faults:
        raise _invalid(faults)
    return _KINDS[request.action][request.kind], Key(request.namespace, request.name)


def _faults(request: ActionRequest) -> Iterator[FieldError]:
    action, kinds = request.action, _KINDS[request.action]
    resource = kinds.get(request.kind)
    if resource is None:
        yield invalid("kind", request.kind, f"{action} is for {' and '.join(kinds)}")
    elif resource.namespaced and not request.namespace:
        yield required("namespace", f"{request.kind} is namespaced")
    elif not resource.namespaced and request.namespace:
        yield invalid("namespace", request.namespace, f"{request.kind} has no namespace")
    yield from malformed("name", request.name, names.dns_subdomain(request.name))
    if request.namespace:
        yield from malformed("namespace", request.namespace, names.dns_label(request.namespace))
    yield from _class_faults(request)
    if action is not ActionName.STOP_QUEUE and request.drain is not None:
        yield invalid("drain", request.drain, "is only for stopQueue")


def _class_faults(request: ActionRequest) -> Iterator[FieldError]:
    path, name = "priorityClass", request.priority_class
    if request.action is not ActionName.SET_PRIORITY:
        if name is not None:
            yield invalid(path, name, "is only for setPriority")
    elif not name:
        yield required(path, "a class can be replaced, but not removed")
    else:
        yield from malformed(path, name, names.dns_subdomain(name))


def _spec(obj: Json) -> Json:
    return obj.get("spec") or {}


def _resource(reference: Json) -> Resource:
    """Return the resource of an owner. Raises Conflict if the reference cannot be one.

    Whoever writes the reference must not choose the path of a request: the review of a request is
    about its resource, namespace and name.
    """
    group, _, version = str(reference.get("apiVersion") or "").rpartition("/")
    kind, name = str(reference.get("kind") or ""), str(reference.get("name") or "")
    faults = [*names.dns_label(version), *names.dns_label(kind.lower()), *names.dns_subdomain(name)]
    if faults or (group and names.dns_subdomain(group)):
        raise _conflict(f"the owner reference {kind} {name} of the workload is malformed")
    gvk = GroupVersionKind(group, version, kind)
    return Resource.of(gvk, gvk.plural)


def _reference(resource: Resource, metadata: Json) -> Json:
    found = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "namespace": metadata.get("namespace"),
        "name": metadata["name"],
        "uid": metadata.get("uid"),
    }
    return {name: value for name, value in found.items() if value}


def _printable(user: str) -> str:
    """Return the name of a user on one line, shortened."""
    words = "".join(each if each.isprintable() else "?" for each in user)
    return words if len(words) <= _LONGEST_USER else f"{words[:_LONGEST_USER]}…"


def _conflict(message: str) -> errors.Conflict:
    return errors.Conflict(409, "Conflict", message)


def _invalid(faults: list[FieldError]) -> errors.Invalid:
    return errors.Invalid(422, "Invalid", str(Invalid(faults)))
