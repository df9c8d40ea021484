# SPDX-License-Identifier: Apache-2.0
"""What `kubectl get pods` shows: readiness, the one word that says how a pod is, restarts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kuota.api.base import Json

from .columns import AGE, NAME, NONE, Column, age, dig, listed, mapped, parsed_time


def ready(pod: Json, now: datetime) -> str:
    statuses = listed(dig(pod, "status", "containerStatuses"))
    count = sum(1 for each in statuses if dig(each, "ready") is True)
    return f"{count}/{len(listed(dig(pod, 'spec', 'containers')))}"


def word(pod: Json, now: datetime) -> str:
    """The reason that matters most: of an init container, of a container, else the phase."""
    found = _init_word(pod)
    if found is None:
        found = _container_word(pod) or dig(pod, "status", "reason")
    found = found or dig(pod, "status", "phase") or "Unknown"
    if dig(pod, "metadata", "deletionTimestamp"):
        return "Unknown" if dig(pod, "status", "reason") == "NodeLost" else "Terminating"
    if found == "Pending" and listed(dig(pod, "spec", "schedulingGates")):
        return "SchedulingGated"
    return str(found)


def _init_word(pod: Json) -> str | None:
    """What keeps the init containers from being done; None when they are, or there are none."""
    statuses = listed(dig(pod, "status", "initContainerStatuses"))
    total = len(listed(dig(pod, "spec", "initContainers")))
    for done, status in enumerate(statuses):
        ended, waiting = dig(status, "state", "terminated"), dig(status, "state", "waiting")
        if dig(ended, "exitCode") == 0:
            continue
        if ended is not None:
            return "Init:" + _ended(mapped(ended))
        reason = dig(waiting, "reason")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{done}/{total}"
    return None


def _container_word(pod: Json) -> str | None:
    found, running = None, False
    for status in reversed(listed(dig(pod, "status", "containerStatuses"))):
        state = mapped(dig(status, "state"))
        if reason := dig(state, "waiting", "reason"):
            found = str(reason)
        elif "terminated" in state:
            found = _ended(mapped(state["terminated"]))
        elif dig(status, "ready") and "running" in state:
            running = True
    if found == "Completed" and running:
        return "Running"
    return found


def _ended(state: Json) -> str:
    if state.get("reason"):
        return str(state["reason"])
    if state.get("signal"):
        return f"Signal:{state['signal']}"
    return f"ExitCode:{state.get('exitCode', 0)}"


def restarts(pod: Json, now: datetime) -> str:
    """How often, and how long ago the last time was."""
    count, last = 0, None
    for status in listed(dig(pod, "status", "containerStatuses")):
        count += dig(status, "restartCount") or 0
        at = dig(status, "lastState", "terminated", "finishedAt")
        if parsed_time(at) is not None and (last is None or at > last):
            last = at
    return f"{count} ({age(last, now)} ago)" if count and last else str(count)


def _field(*path: str) -> Any:
    return lambda pod, now: dig(pod, *path) or NONE


POD_COLUMNS = (
    NAME,
    Column("Ready", ready, description="Containers that are ready, of all"),
    Column("Status", word, description="How the pod is, in a word"),
    Column("Restarts", restarts, description="How often its containers were restarted"),
    AGE,
    Column("IP", _field("status", "podIP"), wide=True),
    Column("Node", _field("spec", "nodeName"), wide=True),
    Column("Nominated Node", _field("status", "nominatedNodeName"), wide=True),
    Column("Readiness Gates", lambda pod, now: NONE, wide=True),
)
