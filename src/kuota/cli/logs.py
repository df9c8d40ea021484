# SPDX-License-Identifier: Apache-2.0
"""`kuota logs`: prints the output of a pod, or of all pods of a job."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import msgspec

from kuota.api.base import Json, Key
from kuota.bridge.jobs.composable import IS_GROUP
from kuota.kube.errors import ApiError, BadRequest, NotFound
from kuota.kube.requests import LogOptions
from kuota.kube.resources import ARCHIVED_PODS, JOBS, PODS, WORKLOADS, Resource, key_of
from kuota.view.conditions import condition, holds
from kuota.view.endings import Result
from kuota.view.workload_state import LiveState, owner, pod_why, state, why

from .amounts import Integer, Seconds
from .connect import FAILED, Choice, Failed, conduct, server_options
from .job_follow import JobFollow
from .job_objects import (
    archived_pods_of,
    jobs_of,
    own_pods_of,
    pods_of,
    workload_of,
)
from .kinds import absent, exists, kind_of_job, resource_of
from .log_lines import Copying, Writer, begun, until_begun
from .output import name_text
from .pods_follow import POD_GROUP, PodsFollow, pods_of_group
from .progress import Progress
from .remote_pods import cluster_of, remote_copying, remote_pods, unreadable

if TYPE_CHECKING:
    from .session import Session


@click.command("logs")
@click.argument("what", metavar="POD | JOB | KIND/NAME | podgroup/NAME | workload/NAME")
@click.option("-f", "--follow", is_flag=True, help="Follow the log to the end.")
@click.option("-c", "--container", default="", metavar="NAME", help="The container to read.")
@click.option("-p", "--previous", is_flag=True, help="Only earlier runs.")
@click.option("--tail", type=Integer(0), metavar="LINES", help="Only the last lines of each pod.")
@click.option(
    "--since",
    "since_s",
    type=Seconds(),
    metavar="SECONDS",
    help="Only lines newer than this: seconds, or for example 10m.",
)
@click.option("--timestamps", is_flag=True, help="Print the time of each line.")
@server_options
def command(what: str, choice: Choice, **options: Any) -> None:
    """Print the log of a pod, or the logs of all pods of a Job, Deployment, pod group or other job.

    A name without a kind is that of a pod, or else that of a job. The pods of a job that MultiKueue
    has sent to another cluster are read there.

    With -f, follow the pod or job to its end, through preemptions and restarts of its pods. If it
    has several pods, all are followed at once, and each line begins with the name of its pod.

    On `kuota up`, the logs of a Job include those of its runs before it was preempted, as long as
    the Job exists; -p prints only these. For a pod, -p prints the run before its last restart.

    \b
    Exit status:
      0   the log was printed, whatever became of the Job
      1   there is no such log, or the Job or its queue was deleted
      2   wrong usage
      3   the server cannot be reached

    \b
    Examples:
      kuota logs -f train
      kuota logs -p job/train
      kuota logs -f deployment/web
      kuota logs train-x7k2p --tail 20
    """
    wanted = LogOptions(**options)

    async def work(session: Session) -> int:
        return await _of(session, what, wanted)

    conduct(choice, work)


async def _of(session: Session, what: str, options: LogOptions) -> int:
    kind, slash, name = what.partition("/")
    if not slash and not await exists(session, PODS, what):
        found = await kind_of_job(session, what)
        if found is not None:
            kind, slash, name = found.name, "/", what
    if not slash or kind in ("pod", "pods", "po"):
        return await _of_pod(session, name or kind, options)
    group = await _group(session, kind, name)
    if group is not None:
        return await _of_group(session, group, options)
    resource, job = await _job(session, kind, name)
    if resource == PODS:
        return await _of_pod(session, job["metadata"]["name"], options)
    if not options.follow:
        workload = await workload_of(session, resource, job)
        if workload is not None and cluster_of(workload):
            return await _of_remote(session, workload, options, name_text(resource, job))
    of_kind = _of_job if resource == JOBS else partial(_of_jobs, resource)
    return await of_kind(session, job, options)


async def _of_pod(session: Session, name: str, options: LogOptions) -> int:
    key = session.key(PODS, name)
    try:
        pod = await session.client.get(PODS, key)
    except NotFound as error:
        raise Failed(await absent(session, PODS, name, error, JOBS)) from None
    copying = Copying(session, key, options)
    workload = await workload_of(session, PODS, pod) if _is_gated(pod) else None
    if workload is not None and cluster_of(workload):
        if options.follow:
            await PodsFollow(session, key, options, Progress(), (PODS, pod)).run()
            return 0
        copying = remote_copying(session, workload, name, options)
    try:
        if options.follow and not begun(pod, options.container):
            click.echo(f"waiting for pod {name} to start{_because(pod)}", err=True)
            pod = await until_begun(session, pod, options.container)
        await copying.run()
    except BadRequest as error:
        raise Failed(_with_why(error.message, pod)) from None
    if copying.silent:
        _tell_silence(pod, options)
    return 0


def _is_gated(pod: Json) -> bool:
    """Whether the pod does not run here: not yet, or because it runs in another cluster."""
    return bool((pod.get("spec") or {}).get("schedulingGates"))


def _because(pod: Json) -> str:
    reason = pod_why(pod)
    return f": {reason}" if reason else ""


def _with_why(message: str, pod: Json) -> str:
    reason = _because(pod)
    return message if reason.removeprefix(": ") in message else f"{message}{reason}"


def _tell_silence(pod: Json, options: LogOptions) -> None:
    """Print why a pod failed that wrote no output."""
    reason = "" if options.container or options.previous else pod_why(pod)
    if reason:
        click.echo(f"pod {pod['metadata']['name']} wrote nothing: {reason}", err=True)


async def _job(session: Session, kind: str, name: str) -> tuple[Resource, Json]:
    """Return the job, or the job of the Workload. Raises Failed if it does not exist."""

    async def found(resource: Resource, name: str) -> Json:
        try:
            return await session.client.get(resource, session.key(resource, name))
        except NotFound as error:
            raise Failed(await absent(session, resource, name, error)) from None

    resource = await resource_of(session, kind)
    if resource == WORKLOADS:
        workload = await found(WORKLOADS, name)
        kind, name = owner(workload)
        if not name:
            raise Failed(f"Workload {workload['metadata']['name']} is not that of a job")
        resource = await resource_of(session, kind.lower())
    if not resource.namespaced:
        raise click.UsageError(f"logs are of pods and jobs, not of {kind}")
    return resource, await found(resource, name)


async def _group(session: Session, kind: str, name: str) -> Key | None:
    """Return the pod group that is meant, by its name or by that of its Workload."""
    if kind.lower() == POD_GROUP:
        return session.key(PODS, name)
    if await resource_of(session, kind) != WORKLOADS:
        return None
    try:
        workload = await session.client.get(WORKLOADS, session.key(WORKLOADS, name))
    except NotFound:
        return None
    notes = workload["metadata"].get("annotations") or {}
    return key_of(workload) if notes.get(IS_GROUP) == "true" else None


async def _of_group(session: Session, key: Key, options: LogOptions) -> int:
    """Print the logs of all pods of a group."""
    pods = await pods_of_group(session, key)
    if not pods:
        raise Failed(f"there is no pod of the group {key}")
    if options.follow:
        await PodsFollow(session, key, options, Progress()).run()
        return 0
    workload = await workload_of(session, PODS, pods[0])
    if workload is not None and cluster_of(workload):
        return await _of_remote(session, workload, options, f"podgroup/{key.name}")
    return await _of_each(session, pods, options)


async def _of_remote(session: Session, workload: Json, options: LogOptions, name: str) -> int:
    """Print the logs of all pods of a job that runs in another cluster."""
    try:
        pods = await remote_pods(session, workload)
    except ApiError as error:
        raise Failed(f"{name} has no logs here: {unreadable(workload, error)}") from None
    if not pods:
        raise Failed(f"{name} has no pods in cluster {cluster_of(workload)} yet; wait with -f")
    statuses = [0]
    for pod in pods:
        writer = Writer(f"[{pod['metadata']['name']}] " if len(pods) > 1 else "")
        copying = remote_copying(session, workload, pod["metadata"]["name"], options, writer)
        statuses.append(await _finished(copying, pod, options))
    return max(statuses)


async def _of_each(session: Session, pods: Sequence[Json], options: LogOptions) -> int:
    """Print the logs of pods, each line with the name of its pod."""
    statuses = [0]
    for pod in pods:
        writer = Writer(f"[{pod['metadata']['name']}] ")
        statuses.append(await _copied(session, pod, options, writer, PODS))
    return max(statuses)


async def _of_jobs(resource: Resource, session: Session, job: Json, options: LogOptions) -> int:
    """Print the logs of all pods of a job of another kind: its own, and those of its Jobs."""
    if options.follow:
        key = key_of(job)
        await PodsFollow(session, key, options, Progress(), (resource, job)).run()
        return 0
    jobs, own = await jobs_of(session, job), await own_pods_of(session, job)
    name = name_text(resource, job)
    if not jobs and not own:
        waiting = await _waiting(session, job, resource)
        why = f": {waiting}" if waiting else ""
        raise Failed(f"{name} has no pods, so it has no logs{why}")
    statuses = [await _of_pods(session, each, options, several=True) for each in jobs]
    return max([*statuses, await _of_each(session, own, options)])


async def _of_job(session: Session, job: Json, options: LogOptions) -> int:
    if not options.follow:
        return await _of_pods(session, job, options)
    if options.tail is None and options.since_s is None:
        for pod in await archived_pods_of(session, job):
            click.echo(f"earlier run, pod {pod['metadata']['name']}:", err=True)
            await _copied(session, pod, options, Writer(), ARCHIVED_PODS)
    ending = await JobFollow(session, job, options, Progress()).run()
    if ending.result is Result.DELETED:
        raise Failed(f"{name_text(JOBS, job)} was deleted before it ended")
    if ending.result is not Result.SUCCEEDED:
        click.echo(f"{name_text(JOBS, job)}: {ending}", err=True)
    return 0


async def _of_pods(
    session: Session, job: Json, options: LogOptions, *, several: bool = False
) -> int:
    """Print the logs of all pods, oldest first, including deleted pods.

    With --previous, print only the logs of deleted pods, if there are any.
    """
    earlier = [(each, ARCHIVED_PODS) for each in await archived_pods_of(session, job)]
    pods = [(each, PODS) for each in await pods_of(session, job)]
    if options.previous and earlier:
        pods, options = [], msgspec.structs.replace(options, previous=False)
    if not pods and not earlier:
        raise Failed(_without_pods(job, await _waiting(session, job, JOBS)))
    status = 0
    for pod, resource in (*earlier, *pods):
        several = several or len(earlier) + len(pods) > 1
        writer = Writer(f"[{pod['metadata']['name']}] " if several else "")
        status = await _copied(session, pod, options, writer, resource) or status
    return status


async def _copied(
    session: Session, pod: Json, options: LogOptions, writer: Writer, resource: Resource
) -> int:
    """Print the log of one pod of a Job, and return the exit status."""
    return await _finished(Copying(session, key_of(pod), options, writer, resource), pod, options)


async def _finished(copying: Copying, pod: Json, options: LogOptions) -> int:
    """Copy a log to its end, and return the exit status."""
    try:
        await copying.run()
    except ApiError as error:
        name = pod["metadata"]["name"]
        click.echo(f"Error: pod {name}: {_with_why(error.message, pod)}", err=True)
        return FAILED
    if copying.silent:
        _tell_silence(pod, options)
    return 0


async def _waiting(session: Session, job: Json, resource: Resource) -> str:
    """Return why the job waits in its queue; "" if it is not queued or is admitted."""
    workload = await workload_of(session, resource, job)
    if workload is None or state(workload) is LiveState.ADMITTED:
        return ""
    return why(workload)


def _without_pods(job: Json, waiting: str) -> str:
    name = job["metadata"]["name"]
    failed = condition(job, "Failed")
    if failed is not None and failed.get("status") == "True":
        return f"Job {name} failed and its pods are gone: {failed.get('message')}"
    if holds(job, "Complete"):
        return f"Job {name} has completed, and its pods are gone"
    if waiting:
        return f"Job {name} has no pods yet: {waiting}\nWait for them with -f."
    return f"Job {name} has no pods yet; wait for them with -f"
