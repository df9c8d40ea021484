# SPDX-License-Identifier: Apache-2.0
"""One workload in detail: timeline, pods, Events, checks, placement and explanation. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kuota.api import workload as api
from kuota.api.base import Json
from kuota.api.topology_codec import expand
from kuota.history.job_rows import JobRow
from kuota.view.conditions import holds
from kuota.view.devices import DeviceRow
from kuota.view.events import about, occurred, occurrences, source
from kuota.view.live import asks
from kuota.view.observed import ObservedState
from kuota.view.plan import WhyRow
from kuota.view.workload_state import owner, pod_why

from ..shapes import (
    ActionName,
    CheckRow,
    ConditionRow,
    EventRow,
    PlacementRow,
    PodRow,
    PodSetRow,
    PriorityChoice,
    Ref,
    WorkloadModel,
    WorkloadRow,
)
from .amounts import number
from .nodes import device
from .rows import workload_ref, workload_row
from .timeline import timeline

MOST_EVENTS = 200
"""The most Events that are shown, latest first."""
MOST_PLACES = 1000
"""The most domains of a pod set that are shown."""


def workload_model(
    workload: Json,
    observed: ObservedState,
    *,
    events: Iterable[Json] = (),
    past: JobRow | None = None,
    why: WhyRow | None = None,
    note: str = "",
    devices: Sequence[DeviceRow] = (),
    may_read_pods: bool = True,
) -> WorkloadModel:
    """Return the model of a Workload that `observed` has.

    `events` may include those of other objects. `past` is the history of the job, `why` the
    scheduler's explanation, and `note` the reason why there is none. Without `may_read_pods`,
    nothing is shown that only the pods of the job tell.
    """
    uid = str(workload["metadata"].get("uid") or "")
    row = workload_row(workload, observed, pods=may_read_pods)
    known, pods = list(events), observed.pods_of(workload) if may_read_pods else []
    return WorkloadModel(
        row=row,
        uid=uid,
        job=_job(workload),
        timeline=timeline(workload, observed, about(known, _typed(workload)), past),
        pod_sets=list(_pod_sets(workload)),
        pods=[_pod(each) for each in sorted(pods, key=_created)],
        events=_events(known, workload, pods),
        checks=[_check(each) for each in _status(workload, "admissionChecks")],
        conditions=[_condition(each) for each in _status(workload, "conditions")],
        explanation=why,
        note=note,
        preempts=[workload_ref(each) for each in observed.preempted_by(uid)],
        devices=[device(each, observed) for each in devices if _holds(each, pods)],
        labels=dict(workload["metadata"].get("labels") or {}),
        time_limit_seconds=(workload.get("spec") or {}).get("maximumExecutionTimeSeconds"),
        requeue_at=_requeue_at(workload),
        priority_classes=_classes(observed),
        actions=_actions(row),
    )


def _holds(row: DeviceRow, pods: Iterable[Json]) -> bool:
    """Whether one of the pods holds the device."""
    keys = ((each["metadata"].get("namespace"), each["metadata"]["name"]) for each in pods)
    return bool(row.pod) and (row.namespace, row.pod) in keys


def _typed(workload: Json) -> Json:
    """Return the object with its kind, which items of a list may omit."""
    return {"kind": "Workload"} | workload


def _job(workload: Json) -> Ref | None:
    kind, name = owner(workload)
    space = str(workload["metadata"].get("namespace") or "")
    return Ref(kind=kind, name=name, namespace=space) if name else None


def _status(workload: Json, field: str) -> list[Json]:
    return list((workload.get("status") or {}).get(field) or ())


def _requeue_at(workload: Json) -> str:
    state = (workload.get("status") or {}).get("requeueState") or {}
    return str(state.get("requeueAt") or "")


def _pod_sets(workload: Json) -> Iterator[PodSetRow]:
    admission = (workload.get("status") or {}).get("admission") or {}
    assigned = {each.get("name"): each for each in admission.get("podSetAssignments") or ()}
    requests = {each.get("name"): each for each in _status(workload, "resourceRequests")}
    for each in (workload.get("spec") or {}).get("podSets") or ():
        given = assigned.get(each.get("name"))
        count = number(each.get("count"))
        yield PodSetRow(
            name=str(each.get("name") or ""),
            count=count,
            admitted=number(given.get("count")) or count if given is not None else None,
            requests=_requests(given, requests.get(each.get("name"))),
            flavors=dict((given or {}).get("flavors") or {}),
            topology=_topology(each.get("topologyRequest") or {}),
            placement=_placement((given or {}).get("topologyAssignment")),
        )


def _requests(given: Json | None, asked: Json | None) -> str:
    """Return what all pods of a pod set request. The status has it only until the admission."""
    resources = given.get("resourceUsage") if given is not None else (asked or {}).get("resources")
    return asks({"status": {"resourceRequests": [{"resources": resources}]}})


def _topology(request: Json) -> str:
    for word in ("required", "preferred"):
        if request.get(word):
            return f"{word}: {request[word]}"
    return "unconstrained" if request.get("unconstrained") else ""


def _placement(assignment: Json | None) -> list[PlacementRow]:
    """Return where the pods of a pod set are placed, with their ranks, from 0."""
    if not assignment:
        return []
    try:
        found = msgspec.convert(assignment, api.TopologyAssignment)
    except msgspec.ValidationError:
        return []
    rows, first = [], 0
    for each in expand(found)[:MOST_PLACES]:
        last = first + each.count - 1
        rows.append(
            PlacementRow(
                levels=list(found.levels or ()),
                domain=each.values,
                pods=each.count,
                ranks=str(first) if first == last else f"{first}-{last}",
            )
        )
        first = last + 1
    return rows


def _created(obj: Json) -> tuple[str, str]:
    metadata = obj["metadata"]
    return str(metadata.get("creationTimestamp") or ""), str(metadata["name"])


def _pod(pod: Json) -> PodRow:
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    statuses = list(status.get("containerStatuses") or ())
    ended = [
        str(((each.get("state") or {}).get("terminated") or {}).get("finishedAt") or "")
        for each in statuses
    ]
    over = status.get("phase") in ("Succeeded", "Failed")
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return PodRow(
        name=str(metadata["name"]),
        phase=str(status.get("phase") or "Unknown"),
        node=str(spec.get("nodeName") or ""),
        ready=holds(pod, "Ready"),
        restarts=sum(number(each.get("restartCount")) for each in statuses),
        why=pod_why(pod),
        created=str(metadata.get("creationTimestamp") or ""),
        started=str(status.get("startTime") or ""),
        finished=max(ended, default="") if over else "",
        containers=[str(each.get("name") or "") for each in containers],
        deleted=bool(metadata.get("deletionTimestamp")),
    )


def _events(events: Sequence[Json], workload: Json, pods: Iterable[Json]) -> list[EventRow]:
    """Return the Events of the Workload, its job and its pods, latest first."""
    references = workload["metadata"].get("ownerReferences") or ()
    uids = {str(each.get("uid")) for each in references}
    uids |= {str(each["metadata"].get("uid")) for each in pods}
    space = workload["metadata"].get("namespace")
    found = {id(each): each for each in about(events, _typed(workload))}
    for each in events:
        subject = each.get("involvedObject") or {}
        if subject.get("uid") in uids and subject.get("namespace") == space:
            found[id(each)] = each
    latest = sorted(found.values(), key=occurred, reverse=True)
    return [_event(each) for each in latest[:MOST_EVENTS]]


def _event(event: Json) -> EventRow:
    subject = event.get("involvedObject") or {}
    return EventRow(
        time=occurred(event),
        type=str(event.get("type") or ""),
        reason=str(event.get("reason") or ""),
        message=str(event.get("message") or ""),
        object=Ref(
            kind=str(subject.get("kind") or ""),
            name=str(subject.get("name") or ""),
            namespace=str(subject.get("namespace") or ""),
        ),
        first=str(event.get("firstTimestamp") or event.get("eventTime") or ""),
        count=occurrences(event),
        source=source(event),
    )


def _check(each: Json) -> CheckRow:
    return CheckRow(
        name=str(each.get("name") or ""),
        state=str(each.get("state") or ""),
        message=str(each.get("message") or ""),
        since=str(each.get("lastTransitionTime") or ""),
        retries=number(each.get("retryCount")),
    )


def _condition(each: Json) -> ConditionRow:
    return ConditionRow(
        type=str(each.get("type") or ""),
        status=str(each.get("status") or ""),
        reason=str(each.get("reason") or ""),
        message=str(each.get("message") or ""),
        since=str(each.get("lastTransitionTime") or ""),
    )


def _classes(observed: ObservedState) -> list[PriorityChoice]:
    """Return the WorkloadPriorityClasses, highest first."""
    found = [
        PriorityChoice(
            name=str(each["metadata"]["name"]),
            value=number(each.get("value")),
            description=str(each.get("description") or ""),
        )
        for each in observed.objects["WorkloadPriorityClass"].values()
    ]
    return sorted(found, key=lambda each: (-each.value, each.name))


def _actions(row: WorkloadRow) -> list[ActionName]:
    """Return the actions that make sense: none on a job that has finished."""
    if row.finished:
        return []
    return [ActionName.RELEASE if row.held else ActionName.HOLD, ActionName.SET_PRIORITY]
