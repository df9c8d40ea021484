# SPDX-License-Identifier: Apache-2.0
"""Computes the status of a pod as a kubelet would. Pure.

One condition is specific to Kuota: `kuota.dev/LocalProcess` lists the differences from a container
in a cluster, in particular that no image was pulled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kuota.api.base import Json
from kuota.api.core import ENDED, containers

from .instants import time_text
from .pod_steps import (
    SIDECAR,
    ContainerRun,
    RunHistory,
    disrupted,
    init_failed,
    initialized,
    restarts,
)

LOCAL = "kuota.dev/LocalProcess"
DISRUPTION = "DisruptionTarget"
"""The condition of a pod that failed for reasons outside of it. Policies of Jobs match it."""
_NEVER = RunHistory()


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What the runner knows about a pod besides its spec."""

    histories: Mapping[str, RunHistory] = {}
    waiting: Mapping[str, tuple[str, str]] = {}
    """Why a container cannot start: reason and message."""
    over: bool = False
    failure: tuple[str, str] | None = None
    """Why the pod as a whole failed: reason and message."""
    started: float = 0.0
    notes: Sequence[str] = ()
    ip: str = "127.0.0.1"


def pod_status(pod: Json, seen: Observed, now: float) -> Json:
    """The parts of the status that a runner is responsible for."""
    spec = pod["spec"]
    phase = pod_phase(spec, seen)
    status: Json = {
        "phase": phase,
        "startTime": time_text(seen.started),
        "hostIP": seen.ip,
        "hostIPs": [{"ip": seen.ip}],
        "podIP": seen.ip,
        "podIPs": [{"ip": seen.ip}],
        "containerStatuses": [
            _container(pod, each, seen, phase) for each in spec.get("containers") or ()
        ],
    }
    if spec.get("initContainers"):
        status["initContainerStatuses"] = [
            _container(pod, each, seen, phase, init=True) for each in spec["initContainers"]
        ]
    disruption = _disruption(pod, seen, phase)
    failure = seen.failure or disruption
    if failure is not None:
        status["reason"], status["message"] = failure
    status["conditions"] = _conditions(pod, seen, status, disruption, now)
    return status


def pod_phase(spec: Json, seen: Observed) -> str:
    containers = spec.get("containers") or ()
    runs = [seen.histories.get(each["name"], _NEVER).current for each in containers]
    if seen.over:
        well = seen.failure is None and not init_failed(spec, seen.histories)
        well = well and all(run is not None and run.ended and run.code == 0 for run in runs)
        return "Succeeded" if well else "Failed"
    begun = any(run is not None and run.started is not None for run in runs)
    return "Running" if begun and initialized(spec, seen.histories) else "Pending"


def _disruption(pod: Json, seen: Observed, phase: str) -> tuple[str, str] | None:
    """Reason and message of the disruption that failed the pod, unless it had to end anyway."""
    if phase != "Failed" or seen.failure or pod["metadata"].get("deletionTimestamp"):
        return None
    run = disrupted(pod["spec"], seen.histories)
    return None if run is None else (run.disruption, run.message)


def _container(
    pod: Json, container: Json, seen: Observed, phase: str, *, init: bool = False
) -> Json:
    name = container["name"]
    history = seen.histories.get(name, _NEVER)
    run = history.current
    state, last = _states(pod, container, seen, phase)
    running = run is not None and run.running
    done = init and run is not None and run.ended and run.code == 0
    status: Json = {
        "name": name,
        "image": container.get("image") or "",
        "imageID": "",
        "ready": done or running,
        "started": running,
        "restartCount": run.attempt if run else 0,
        "state": state,
        "lastState": last,
    }
    if run is not None:
        status["containerID"] = _id(pod, name, run)
    return status


def _states(pod: Json, container: Json, seen: Observed, phase: str) -> tuple[Json, Json]:
    """The state of a container and its last state."""
    name = container["name"]
    history = seen.histories.get(name, _NEVER)
    run = history.current
    last = _terminated(pod, name, history.previous) if history.previous else {}
    if run is not None and run.running:
        assert run.started is not None
        return {"running": {"startedAt": time_text(run.started)}}, last
    ends = phase in ENDED
    if run is not None and run.ended and (ends or not _goes_on(pod, container, seen, run)):
        return _terminated(pod, name, run), last
    if run is not None and run.ended:
        last = _terminated(pod, name, run)
    return {"waiting": _waiting(pod, container, seen)}, last


def _goes_on(pod: Json, container: Json, seen: Observed, run: ContainerRun) -> bool:
    spec = pod["spec"]
    if init_failed(spec, seen.histories):
        return False
    names = [each["name"] for each in spec.get("initContainers") or ()]
    if container["name"] in names and container.get("restartPolicy") != SIDECAR:
        return run.code != 0
    return restarts(spec, container, run)


def _waiting(pod: Json, container: Json, seen: Observed) -> Json:
    name = container["name"]
    if name in seen.waiting:
        reason, message = seen.waiting[name]
        return {"reason": reason, "message": message}
    run = seen.histories.get(name, _NEVER).current
    if run is not None and run.ended:
        meta = pod["metadata"]
        place = f"{meta['name']}_{meta.get('namespace') or ''}({meta.get('uid') or ''})"
        message = f"back-off restarting failed container={name} pod={place}"
        return {"reason": "CrashLoopBackOff", "message": message}
    main = any(each is container for each in pod["spec"].get("containers") or ())
    early = main and not initialized(pod["spec"], seen.histories)
    return {"reason": "PodInitializing" if early else "ContainerCreating"}


def _terminated(pod: Json, name: str, run: ContainerRun) -> Json:
    ended: Json = {
        "exitCode": run.code,
        "reason": run.reason or ("Completed" if run.code == 0 else "Error"),
        "startedAt": time_text(run.started or run.finished or 0),
        "finishedAt": time_text(run.finished or 0),
        "containerID": _id(pod, name, run),
    }
    if run.signal:
        ended["signal"] = run.signal
    if run.message:
        ended["message"] = run.message
    return {"terminated": ended}


def _id(pod: Json, name: str, run: ContainerRun) -> str:
    return f"kuota://{pod['metadata'].get('uid') or ''}/{name}/{run.attempt}"


def _conditions(
    pod: Json, seen: Observed, status: Json, disruption: tuple[str, str] | None, now: float
) -> list[Json]:
    spec, phase = pod["spec"], status["phase"]
    unready = [each["name"] for each in status["containerStatuses"] if not each["ready"]]
    pending = [
        each["name"] for each in status.get("initContainerStatuses") or () if not each["ready"]
    ]
    ready = _readiness(phase, unready)
    first = ("True", "", "")
    if not initialized(spec, seen.histories) and phase != "Succeeded":
        words = f"containers with incomplete status: [{' '.join(pending)}]"
        first = ("False", "ContainersNotInitialized", words)
    wanted = {
        "PodReadyToStartContainers": ("False" if seen.over else "True", "", ""),
        "Initialized": first,
        "Ready": ready,
        "ContainersReady": ready,
        LOCAL: ("True", "ImageNotPulled", "; ".join((image_note(spec), *seen.notes))),
    }
    if disruption is not None:
        wanted[DISRUPTION] = ("True", *disruption)
    before = {each.get("type"): each for each in (pod.get("status") or {}).get("conditions") or ()}
    if "PodScheduled" not in before:
        wanted["PodScheduled"] = ("True", "", "")
    return [_condition(type_, *words, before.get(type_), now) for type_, words in wanted.items()]


def _readiness(phase: str, unready: Sequence[str]) -> tuple[str, str, str]:
    if phase == "Succeeded":
        return "False", "PodCompleted", ""
    if phase == "Failed":
        return "False", "PodFailed", ""
    if unready:
        words = f"containers with unready status: [{' '.join(unready)}]"
        return "False", "ContainersNotReady", words
    return "True", "", ""


def _condition(
    type_: str, status: str, reason: str, message: str, before: Json | None, now: float
) -> Json:
    # The informer keeps only type and status of the conditions of an ended pod.
    since = before.get("lastTransitionTime") if before and before.get("status") == status else None
    at = since or time_text(now)
    found: Json = {"type": type_, "status": status, "lastTransitionTime": at}
    # Written even if empty, so that a patch removes earlier values.
    found["reason"], found["message"] = reason or None, message or None
    return found


def image_note(spec: Json) -> str:
    """A note that the images were not pulled."""
    images = dict.fromkeys(each.get("image") or "" for each in containers(spec))
    return f"runs as a process of this machine: image {', '.join(images)} is recorded, not pulled"


def notes_in(pod: Json) -> list[str]:
    """The notes of an earlier runner about the pod, except those about images."""
    for each in (pod.get("status") or {}).get("conditions") or ():
        if each.get("type") == LOCAL:
            return (each.get("message") or "").split("; ")[1:]
    return []
