# SPDX-License-Identifier: Apache-2.0
"""The part of `kuota describe` about a workload: its state, the cause, and what would help."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from kuota.api.base import Json, Key
from kuota.api.rules.job_common import QUEUE_NAME
from kuota.kube.errors import ApiError
from kuota.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, PODS, WORKLOADS, key_of
from kuota.view.live import asks, gets, queue_rows
from kuota.view.plan import WhyRow
from kuota.view.words import several
from kuota.view.workload_state import (
    WAITING,
    LiveState,
    Pods,
    owner,
    pod_why,
    pods_by_owner,
    preemptor_uid,
    state,
    waiting_words,
    way_out,
    why,
)
from kuota.visibility.reading import read_explanation

from .device_report import print_devices
from .job_objects import JOB_NAME, failed_pods
from .output import one_line, show_field, show_table
from .remote_pods import cluster_of, remote_pods, unreadable
from .tables import print_details

if TYPE_CHECKING:
    from .session import Session

_UNDER_WAY = (LiveState.PENDING, LiveState.QUOTARESERVED, LiveState.ADMITTED)
"""States that get an explanation on a separate line."""


async def print_workload(session: Session, workload: Json, *, of_job: bool) -> None:
    """Print the workload's state, why it does not run, and what would help."""
    queue = await _cluster_queue(session, workload)
    spec = workload.get("spec") or {}
    failed = await _failed(session, workload)
    now = state(workload, failed)
    cause = await _cause(session, workload, failed)
    waits = now in (*WAITING, LiveState.QUOTARESERVED)
    found, note = await read_explanation(session.client, key_of(workload)) if waits else (None, "")
    shown = f"{now}: {cause}" if cause and now not in _UNDER_WAY else str(now)
    lines = [
        ("Workload", workload["metadata"]["name"] if of_job else ""),
        ("Queue", _queue_words(spec, queue)),
        ("Priority", _priority(spec)),
        ("Requests", "" if gets(workload) else asks(workload)),
        ("State", shown),
        ("Position", _position(found) if found is not None else ""),
        ("Quota", gets(workload)),
        ("Cluster", cluster_of(workload)),
    ]
    queues = await _queues_there(session, workload)
    if found is not None and found.text:
        lines += [("Why", found.text), ("To fix", queues)]
        # This advice names the queues that exist, which the explanation does not know.
        found = replace(found, help=[]) if queues else found
    else:
        lines += [
            ("Why", _why(workload, queue) if waits else cause if now in _UNDER_WAY else ""),
            ("To fix", way_out(workload) or queues),
            ("Note", note),
        ]
    for name, value in lines:
        if value:
            show_field(name, value)
    if found is not None:
        print_details(found)
    if now is LiveState.ADMITTED:
        await print_devices(session, workload)
    if cluster_of(workload) and now is LiveState.ADMITTED:
        await _print_remote_pods(session, workload)


async def _print_remote_pods(session: Session, workload: Json) -> None:
    """Print the pods of a workload that runs in another cluster."""
    try:
        pods = await remote_pods(session, workload)
    except ApiError as error:
        click.echo(f"{'Pods:':<13}{unreadable(workload, error)}")
        return
    click.echo(f"{'Pods:':<13}{'' if pods else 'none yet'}".rstrip())
    if pods:
        show_table(("  NAME", "PHASE", "NODE", "WHY"), [_pod_row(each) for each in pods])


def _pod_row(pod: Json) -> list[str]:
    phase = (pod.get("status") or {}).get("phase")
    node = (pod.get("spec") or {}).get("nodeName")
    cells = (phase or "Pending", node or "-", one_line(pod_why(pod)))
    return [f"  {pod['metadata']['name']}", *(str(each) for each in cells)]


async def _failed(session: Session, workload: Json) -> Pods:
    """Return failed pods in the namespace if the cause of the failure depends on them."""
    if state(workload) is not LiveState.FAILED:
        return {}
    return pods_by_owner(await failed_pods(session, key_of(workload).namespace))


async def _cause(session: Session, workload: Json, failed: Pods) -> str:
    """Return the cause of the workload's state. If it is admitted, why its pods do not start."""
    kind, name = owner(workload)
    now = state(workload, failed)
    known: list[Json] = []
    if now is LiveState.PREEMPTED and preemptor_uid(workload):
        known = await _workloads_seen(session, key_of(workload).namespace)
    words = why(workload, known, failed)
    if kind == "Job" and now is LiveState.ADMITTED:
        words = await pods_why(session, Key(key_of(workload).namespace, name)) or words
    return words


def _why(workload: Json, queue: Json | None) -> str:
    """Return why a workload is not admitted, and why its queue is inactive if it is."""
    words = waiting_words(workload)
    inactive = queue_rows([queue])[0].inactive if queue is not None else ""
    if queue is None or not inactive:
        return words
    return f"{words}. ClusterQueue {queue['metadata']['name']}: {inactive}"


async def _cluster_queue(session: Session, workload: Json) -> Json | None:
    """The workload's ClusterQueue; None if it does not exist or cannot be read."""
    admission = (workload.get("status") or {}).get("admission") or {}
    name = str(admission.get("clusterQueue") or "")
    local = str((workload.get("spec") or {}).get("queueName") or "")
    try:
        if not name and local:
            key = Key(key_of(workload).namespace, local)
            found = await session.client.get(LOCAL_QUEUES, key)
            name = str(found["spec"].get("clusterQueue") or "")
        return await session.client.get(CLUSTER_QUEUES, Key("", name)) if name else None
    except ApiError:
        return None


async def _queues_there(session: Session, workload: Json) -> str:
    """Return a suggestion for a pending workload without an existing LocalQueue; otherwise ""."""
    local = str((workload.get("spec") or {}).get("queueName") or "")
    place = key_of(workload).namespace
    if state(workload) is not LiveState.PENDING:
        return ""
    try:
        listed = await session.client.list(LOCAL_QUEUES, place)
    except ApiError:
        return ""
    names = sorted(str(each["metadata"]["name"]) for each in listed.items)
    if local in names:
        return ""
    if not names:
        made = f"LocalQueue {local}" if local else "a LocalQueue"
        return f"create {made}; namespace {place} has no LocalQueue"
    if not local:
        return f"set the label {QUEUE_NAME} to a LocalQueue of namespace {place}: {several(names)}"
    return f"create LocalQueue {local}, or use another one of namespace {place}: {several(names)}"


def _queue_words(spec: Json, queue: Json | None) -> str:
    local = str(spec.get("queueName") or "(none)")
    return f"{local} (ClusterQueue {queue['metadata']['name']})" if queue else local


def _priority(spec: Json) -> str:
    named = (spec.get("priorityClassRef") or {}).get("name")
    amount = str(spec.get("priority") or 0)
    return f"{amount} ({named})" if named else amount


def _position(found: WhyRow) -> str:
    return f"{found.position} of {found.waiting} in the ClusterQueue" if found.position else ""


async def _workloads_seen(session: Session, namespace: str) -> list[Json]:
    """Return all Workloads, or those of the namespace if the user may not read others."""
    for place in (None, namespace):
        with suppress(ApiError):
            return (await session.client.list(WORKLOADS, place)).items
    return []


async def pods_why(session: Session, job: Key) -> str:
    """Return why the first pending pod of the Job does not start, or how its last pod failed.

    Returns "" if no pod is pending and one is running.
    """
    try:
        listed = await session.client.list(
            PODS, job.namespace, label_selector=f"{JOB_NAME}={job.name}"
        )
    except ApiError:
        return ""
    by_phase: dict[str, list[Json]] = {}
    for each in sorted(listed.items, key=lambda each: str(each["metadata"]["creationTimestamp"])):
        by_phase.setdefault(str(each["status"].get("phase")), []).append(each)
    blamed = by_phase.get("Pending", [])
    if "Running" not in by_phase:
        blamed = [*blamed, *reversed(by_phase.get("Failed", []))]
    reasons = ((each["metadata"]["name"], pod_why(each)) for each in blamed)
    return next((f"pod {pod}: {reason}" for pod, reason in reasons if reason), "")
