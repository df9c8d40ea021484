# SPDX-License-Identifier: Apache-2.0
"""Determines the state of a workload and its cause from objects of a running server. Pure.

Objects are JSON in the current version. Fields that a controller has not written yet are omitted,
never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

from kuota.api.base import Json
from kuota.api.workload import PREEMPTOR_UID
from kuota.bridge.jobs.composable import IS_GROUP, POD_GROUP
from kuota.bridge.jobs.dispatch import OWNER_GVK, OWNER_NAME
from kuota.bridge.messages import PREEMPTION_CAUSES

from .conditions import condition, holds, message
from .endings import container_cause, workload_ending

_WAYS_OUT = {
    "ExceedsMaxQuota": "request less, or ask an admin to raise the quota; it never starts as it is",
    "NoMatchingFlavor": "request what `kuota describe cq` shows, or ask an admin to offer it there",
}
_UID = re.compile(r"\(UID: ([0-9A-Za-z-]+)[,)]")
_CAUSES = {reason.value: words for reason, words in PREEMPTION_CAUSES.items()}


class LiveState(StrEnum):
    """The state of a workload on a running server. States of kueuectl keep their names."""

    PENDING = "PENDING"
    QUOTARESERVED = "QUOTARESERVED"
    ADMITTED = "ADMITTED"
    PREEMPTED = "PREEMPTED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    DEACTIVATED = "DEACTIVATED"


WAITING = (LiveState.PENDING, LiveState.PREEMPTED)
"""States in which a workload waits for quota."""
OVER = (LiveState.SUCCEEDED, LiveState.FAILED, LiveState.TIMEOUT)
"""States in which the job of a workload has ended."""

Pods = Mapping[str, list[Json]]
"""Failed pods by the uid of the Job that owns them."""


def pods_by_owner(pods: Iterable[Json]) -> Pods:
    found: dict[str, list[Json]] = {}
    for pod in pods:
        for each in pod["metadata"].get("ownerReferences") or ():
            found.setdefault(str(each.get("uid")), []).append(pod)
    return found


def _own(workload: Json, failed: Pods) -> list[Json]:
    """Return the failed pods of the workload's job."""
    references = workload["metadata"].get("ownerReferences") or ()
    return [pod for each in references for pod in failed.get(str(each.get("uid")), ())]


def state(workload: Json, failed: Pods | None = None) -> LiveState:
    """Return the workload's state. Failed pods distinguish a pod's timeout from other failures."""
    ending = workload_ending(workload, _own(workload, failed or {}))
    if ending is not None:
        return LiveState(ending.result)
    if (workload.get("spec") or {}).get("active") is False:
        return LiveState.DEACTIVATED
    if holds(workload, "Admitted"):
        return LiveState.ADMITTED
    if holds(workload, "QuotaReserved"):
        return LiveState.QUOTARESERVED
    evicted = condition(workload, "Evicted") or {}
    if evicted.get("status") == "True" and evicted.get("reason") == "Preempted":
        return LiveState.PREEMPTED
    return LiveState.PENDING


def why(workload: Json, known: Iterable[Json] = (), failed: Pods | None = None) -> str:
    """Return why the workload does not run, or why it failed; "" if there is nothing to add.

    A preemptor is named if it is among the `known` Workloads.
    """
    ending = workload_ending(workload, _own(workload, failed or {}))
    if ending is not None:
        return ending.cause
    match state(workload):
        case LiveState.DEACTIVATED:
            return "it is being stopped"
        case LiveState.ADMITTED:
            waiting = condition(workload, "PodsReady")
            return "" if waiting is None else _unless_true(waiting)
        case LiveState.PREEMPTED:
            return _preemption(workload, known) or message(workload, "Evicted")
        case _:
            return waiting_words(workload)


def waiting_words(workload: Json) -> str:
    """Return why a workload waits for quota or for admission checks."""
    if holds(workload, "QuotaReserved"):
        return _checks(workload)
    return message(workload, "QuotaReserved") or "not evaluated yet"


def preemptor_uid(workload: Json) -> str:
    """Return the UID of the Workload that preempted this one last; "" if it is not recorded."""
    noted = (workload["metadata"].get("annotations") or {}).get(PREEMPTOR_UID)
    return str(noted or uid_in(message(workload, "Preempted")))


def uid_in(words: str) -> str:
    """Return the UID of the preemptor in the message of a preemption, also Kueue's; or ""."""
    found = _UID.search(words)
    return found[1] if found is not None else ""


def _preemption(workload: Json, known: Iterable[Json]) -> str:
    """Return which workload preempted this one, and by which rule; "" if it is not recorded."""
    uid, preempted = preemptor_uid(workload), condition(workload, "Preempted")
    cause = _CAUSES.get(str((preempted or {}).get("reason")))
    if not uid or cause is None:
        return ""
    found = next((each for each in known if each["metadata"].get("uid") == uid), None)
    return f"by {_named(found)} ({cause})"


def _named(workload: Json | None) -> str:
    if workload is None:
        return "another workload"
    kind, name = owner(workload)
    who = f"{kind} {name}" if name else f"Workload {workload['metadata']['name']}"
    return f"{who} in namespace {workload['metadata'].get('namespace')}"


def way_out(workload: Json) -> str:
    """Return a suggestion for a workload that will not start without a change; otherwise ""."""
    ending = workload_ending(workload)
    if ending is not None:
        return f"kuota resume workload {ending.workload}" if ending.workload else ""
    found = condition(workload, "QuotaReserved") or {}
    return _WAYS_OUT.get(str(found.get("reason")), "") if found.get("status") == "False" else ""


def _unless_true(found: Json) -> str:
    return "" if found.get("status") == "True" else str(found.get("message") or "")


def _checks(workload: Json) -> str:
    states = (workload.get("status") or {}).get("admissionChecks") or ()
    open_ones = [
        f"{each.get('name')} ({each.get('message') or each.get('state')})"
        for each in states
        if each.get("state") != "Ready"
    ]
    return f"quota is reserved; waiting for {', '.join(open_ones)}" if open_ones else ""


def pod_why(pod: Json) -> str:
    """Return why the pod does not run or how it failed, from its status; "" if it runs."""
    scheduled = condition(pod, "PodScheduled")
    if scheduled is not None and scheduled.get("status") == "False":
        return str(scheduled.get("message") or scheduled.get("reason") or "")
    status = pod.get("status") or {}
    for field, what in (("initContainerStatuses", "init container"), ("containerStatuses", "")):
        for each in status.get(field) or ():
            found = _container_why(each.get("state") or {})
            if found:
                return f"{what} {each.get('name')}: {found}".strip() if what else found
    return str(status.get("message") or "")


def _container_why(now: Json) -> str:
    waiting, ended = now.get("waiting") or {}, now.get("terminated") or {}
    if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
        return ": ".join(filter(None, (waiting.get("reason"), waiting.get("message"))))
    if ended.get("exitCode"):
        return container_cause(ended)
    return ""


def owner(workload: Json) -> tuple[str, str]:
    """Return the kind and name of the workload's job; both are empty if it has none.

    The Workload of a group of Pods has the name of the group, and its Pods own it. That of another
    object with several Pods names the object.
    """
    metadata = workload["metadata"]
    references = metadata.get("ownerReferences") or ()
    notes = metadata.get("annotations") or {}
    for each in references:
        if each.get("controller"):
            return str(each.get("kind") or ""), str(each.get("name") or "")
    if notes.get(OWNER_NAME):
        return str(notes.get(OWNER_GVK) or "").rpartition("=")[2], str(notes[OWNER_NAME])
    if notes.get(IS_GROUP) == "true":
        return POD_GROUP, str(metadata["name"])
    for each in references:
        return str(each.get("kind") or ""), str(each.get("name") or "")
    return "", ""
