# SPDX-License-Identifier: Apache-2.0
"""Pod-specific operations: binding, priority, logs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime

import msgspec

from kuota.api.base import Json, Key
from kuota.api.faults import FieldError
from kuota.api.faults import forbidden as field_forbidden
from kuota.api.faults import invalid as field_invalid
from kuota.api.status import bad_request
from kuota.api.structure.limits import is_time

from .admission import Hook, Review
from .columns import dig, listed, mapped
from .kinds import Kind
from .metadata import timestamp
from .requests import Request
from .status import conflict, forbidden, invalid
from .store import Store


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The requested part of a log. None means everything."""

    container: str
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_s: int | None = None
    since_time: datetime | None = None
    limit_bytes: int | None = None


LogSource = Callable[[Json, LogOptions], AsyncIterator[bytes]]
"""The log of one container of a pod. Raises LookupError if there is none."""

_LOG_OPTIONS = Kind(group="", plural="", kind="PodLogOptions", versions=(), stored="v1")
_PLURALS = ("initContainers", "containers", "ephemeralContainers")


def log_options(pod: Json, request: Request) -> LogOptions:
    """The log options of the request. Raises StatusError if they are invalid or ambiguous."""
    since = request.query.get("sinceTime", "")
    if since and not is_time(since):
        raise bad_request(f"sinceTime={since[:60]} is not a time in RFC 3339 format")
    options = LogOptions(
        container=chosen_container(pod, request.query.get("container", "")),
        follow=request.flag("follow"),
        previous=request.flag("previous"),
        timestamps=request.flag("timestamps"),
        tail_lines=request.number("tailLines"),
        since_s=request.number("sinceSeconds"),
        since_time=datetime.fromisoformat(since) if since else None,
        limit_bytes=request.number("limitBytes"),
    )
    faults = [*_faults(options)]
    if request.query.get("stream"):
        faults.append(field_forbidden("stream", "may not be specified"))
    if faults:
        raise invalid(_LOG_OPTIONS, str(dig(pod, "metadata", "name")), faults)
    return options


def _faults(options: LogOptions) -> Iterator[FieldError]:
    """What Kubernetes rejects."""
    if options.tail_lines is not None and options.tail_lines < 0:
        yield field_invalid("tailLines", options.tail_lines, "must be greater than or equal to 0")
    positive = {"limitBytes": options.limit_bytes, "sinceSeconds": options.since_s}
    for name, value in positive.items():
        if value is not None and value < 1:
            yield field_invalid(name, value, "must be greater than 0")
    if options.since_s is not None and options.since_time is not None:
        yield field_forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified")


def chosen_container(pod: Json, wanted: str) -> str:
    """The container of that name, or the only one. Raises StatusError if there is none."""
    name = dig(pod, "metadata", "name")
    known = [
        str(dig(each, "name")) for field in _PLURALS for each in listed(dig(pod, "spec", field))
    ]
    if wanted and wanted not in known:
        raise bad_request(f"container {wanted[:100]} is not valid for pod {name}")
    main = [str(dig(each, "name")) for each in listed(dig(pod, "spec", "containers"))]
    if not wanted and len(main) > 1:
        raise bad_request(
            f"a container name must be specified for pod {name}, choose one of: [{' '.join(main)}]"
        )
    return wanted or (main[0] if main else "")


def check_started(pod: Json, options: LogOptions) -> None:
    """Raise StatusError for a container that has not started; kubectl retries."""
    for field in ("initContainerStatuses", "containerStatuses"):
        for status in listed(dig(pod, "status", field)):
            waiting = dig(status, "state", "waiting")
            if dig(status, "name") != options.container or waiting is None:
                continue
            if not dig(status, "lastState", "terminated") and not options.previous:
                raise _waiting(pod, options.container, str(dig(waiting, "reason") or "Waiting"))
            return
    if dig(pod, "status", "phase") == "Pending" and not dig(pod, "status", "containerStatuses"):
        raise _waiting(pod, options.container, "ContainerCreating")


def _waiting(pod: Json, container: str, reason: str) -> Exception:
    name = dig(pod, "metadata", "name")
    return bad_request(f'container "{container}" in pod "{name}" is waiting to start: {reason}')


def bound(kind: Kind, pod: Json, binding: Json, now: datetime) -> Json:
    """The pod bound to the node. Raises StatusError if it is already bound."""
    name, node = str(pod["metadata"]["name"]), dig(binding, "target", "name")
    if not isinstance(node, str) or not node:
        raise bad_request("target.name must name a node")
    if dig(pod, "metadata", "deletionTimestamp"):
        raise conflict(kind, name, f"pod {name} is being deleted, cannot be assigned to a host")
    current = dig(pod, "spec", "nodeName")
    if current:
        raise conflict(kind, name, f'pod {name} is already assigned to node "{current}"')
    if listed(dig(pod, "spec", "schedulingGates")):
        raise conflict(kind, name, f"pod {name} has scheduling gates")
    status = mapped(pod.get("status"))
    others = [
        each for each in listed(status.get("conditions")) if each.get("type") != "PodScheduled"
    ]
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": timestamp(now),
    }
    return pod | {
        "spec": mapped(pod.get("spec")) | {"nodeName": node},
        "status": status | {"conditions": [*others, scheduled]},
    }


def priority_hook(store: Store) -> Hook:
    """Sets the priority of new pods according to their priority class."""

    def hook(review: Review) -> Json:
        if review.kind.resource != "pods" or review.old is not None:
            return review.object
        return _prioritised(review.kind, review.object, store)

    return hook


def _prioritised(kind: Kind, pod: Json, store: Store) -> Json:
    spec = mapped(pod.get("spec"))
    name = spec.get("priorityClassName") or ""
    if name:
        found = store.get("priorityclasses.scheduling.k8s.io", Key("", str(name)))
        if found is None:
            why = f"no PriorityClass with name {name} was found"
            raise forbidden(kind, str(pod["metadata"].get("name", "")), why)
    else:
        classes = store.list("priorityclasses.scheduling.k8s.io").items
        defaults = (each for each in classes if each.get("globalDefault") is True)
        # Like Kubernetes: of several defaults, the one with the lowest value counts.
        found = min(defaults, key=lambda each: each.get("value") or 0, default=None)
    given = {
        "priority": dig(found, "value") or 0,
        "preemptionPolicy": dig(found, "preemptionPolicy") or "PreemptLowerPriority",
    }
    if found is not None:
        given["priorityClassName"] = found["metadata"]["name"]
    return pod | {"spec": spec | given}
