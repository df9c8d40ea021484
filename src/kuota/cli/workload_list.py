# SPDX-License-Identifier: Apache-2.0
"""`kuota list workload`: workloads with the columns of kueuectl, their states and causes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import click
import msgspec

from kuota.api.base import Json, Key
from kuota.kube.errors import ApiError, Forbidden
from kuota.kube.resources import LOCAL_QUEUES, WORKLOADS, key_of
from kuota.view.links import cluster_queue_of, local_queue_key
from kuota.view.live import execution
from kuota.view.workload_state import (
    WAITING,
    LiveState,
    Pods,
    owner,
    pods_by_owner,
    state,
    why,
)

from .connect import conduct
from .job_objects import failed_pods
from .kinds import missing_namespace
from .list_query import EVERYWHERE, ListQuery, age_text, list_options, spec_text
from .output import one_line

if TYPE_CHECKING:
    from .session import Session

_FINISHED, _RUNNING, _PENDING = "finished", "running", str(LiveState.PENDING).lower()
_SYNONYMS = {
    LiveState.SUCCEEDED: _FINISHED,
    LiveState.FAILED: _FINISHED,
    LiveState.PREEMPTED: _PENDING,
    LiveState.TIMEOUT: _PENDING,
    LiveState.DEACTIVATED: _PENDING,
    LiveState.ADMITTED: _RUNNING,
}
"""Other values of --status for these states: those of kueuectl, and running."""
_FILTERS = [*(str(each).lower() for each in LiveState), _FINISHED, _RUNNING]
_EXPLAINED = frozenset(LiveState) - {LiveState.ADMITTED, LiveState.SUCCEEDED}
_HEADER = (
    *("Name", "Job Type", "Job Name", "LocalQueue", "ClusterQueue"),
    *("Status", "Position in Queue", "Exec Time", "Age", "Cause"),
)
_OPTIONAL = ("Job Type", "Name", "ClusterQueue", "Exec Time", "Position in Queue", "LocalQueue")
_VISIBILITY = "/apis/visibility.kueue.x-k8s.io/v1beta2"


def _statuses(state: LiveState) -> frozenset[str]:
    """Return the values of --status that select a workload in this state."""
    return frozenset({str(state).lower(), _SYNONYMS.get(state, "")})


class WorkloadFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter for workloads. Empty fields match everything."""

    cluster_queue: str = ""
    local_queue: str = ""
    statuses: frozenset[str] = frozenset()
    owner: str = ""

    def wants(self, workload: Json, queue: str, failed: Pods) -> bool:
        return (
            self.cluster_queue in ("", queue)
            and self.local_queue in ("", spec_text(workload, "queueName"))
            and (not self.statuses or bool(self.statuses & _statuses(state(workload, failed))))
            and (not self.owner or self._owns(workload))
        )

    def _owns(self, workload: Json) -> bool:
        """Whether the workload belongs to the selected job. The job's kind may be a plural.

        Every Pod of a group selects the workload of the group.
        """
        words, _, wanted_name = self.owner.rpartition("/")
        wanted = words.partition(".")[0].lower()
        references = workload["metadata"].get("ownerReferences") or ()
        owners = [(str(each.get("kind")), str(each.get("name"))) for each in references]
        return any(
            name == wanted_name and kind.lower() in (wanted, wanted.removesuffix("s"))
            for kind, name in (owner(workload), *owners)
        )


@click.command("workload")
@click.option("-c", "--clusterqueue", default="", metavar="NAME", help="Of this ClusterQueue only.")
@click.option("-q", "--localqueue", default="", metavar="NAME", help="Of this LocalQueue only.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(["all", *_FILTERS], case_sensitive=False),
    help="Show only workloads in this state. May be repeated.",
)
@click.option("--for", "owner", default="", metavar="KIND/NAME", help="Of this job only.")
@EVERYWHERE
@list_options
def workload(
    clusterqueue: str, localqueue: str, statuses: tuple[str, ...], owner: str, query: ListQuery
) -> None:
    """List workloads: their jobs, queues and states, and why they wait or ended.

    \b
    States:
      PENDING         waits for quota
      QUOTARESERVED   has quota, and waits for admission checks
      ADMITTED        runs, or starts to
      PREEMPTED       was stopped for another workload, and waits to run again
      SUCCEEDED, FAILED
      TIMEOUT         exceeded its time limit
      DEACTIVATED     was stopped, and does not run until `kuota resume workload`

    As in kueuectl, --status finished selects SUCCEEDED and FAILED, and --status pending selects
    every workload without quota that is not finished. --status running is the same as admitted.

    \b
    Examples:
      kuota list
      kuota list jobs -A --status pending
      kuota list workload --for job/train -o yaml
    """
    only = WorkloadFilter(
        cluster_queue=clusterqueue,
        local_queue=localqueue,
        statuses=frozenset(each.lower() for each in statuses) - {"all"},
        owner=owner,
    )
    conduct(query.choice, lambda session: _show_workloads(session, query, only))


async def _show_workloads(session: Session, query: ListQuery, only: WorkloadFilter) -> None:
    found, queues = await asyncio.gather(
        query.items(session, WORKLOADS),
        # Selectors apply to the Workloads alone.
        msgspec.structs.replace(query, labels="", fields="").items(session, LOCAL_QUEUES),
    )
    queue_of = partial(cluster_queue_of, local_queues={key_of(each): each for each in queues})
    failed = await _failed(session, query, found)
    items = [each for each in found if only.wants(each, queue_of(each), failed)]
    waiting = [each for each in items if state(each) in WAITING and queue_of(each)]
    places = await positions(session, {local_queue_key(each): queue_of(each) for each in waiting})

    def row(workload: Json, now: datetime) -> list[str]:
        key, shown = key_of(workload), state(workload, failed)
        return [
            key.name,
            *owner(workload),
            spec_text(workload, "queueName"),
            queue_of(workload),
            str(shown),
            places.get((key.namespace, key.name), ""),
            execution(workload, now),
            age_text(workload, now),
            one_line(why(workload, found, failed)) if shown in _EXPLAINED else "",
        ]

    query.show(session, WORKLOADS, items, _HEADER, row, _OPTIONAL)
    if not (found or queues or query.everywhere) and query.output in ("table", "wide"):
        text = "this namespace has no LocalQueue, so its jobs are not queued: `kubectl get jobs`."
        text = await missing_namespace(session) or text
        click.echo(text[0].upper() + text[1:], err=True)


async def _failed(session: Session, query: ListQuery, workloads: Sequence[Json]) -> Pods:
    """Return failed pods if the cause of a workload's failure depends on them."""
    failed = [key_of(each).namespace for each in workloads if state(each) is LiveState.FAILED]
    if not failed:
        return {}
    where = query.where(session, WORKLOADS)
    found = await failed_pods(session, where)
    if not found and where is None:
        # Members may not list the pods of all namespaces.
        found = [pod for each in sorted(set(failed)) for pod in await failed_pods(session, each)]
    return pods_by_owner(found)


async def positions(session: Session, queues: Mapping[Key, str]) -> dict[tuple[str, str], str]:
    """Return positions in ClusterQueues, from 1; empty if the server does not report them.

    `queues` are the LocalQueues with their ClusterQueues. Members may read only the LocalQueues.
    """
    found = await _pending(session, {f"clusterqueues/{each}" for each in queues.values()})
    if found is None:
        local = {f"namespaces/{each.namespace}/localqueues/{each.name}" for each in queues}
        found = await _pending(session, local) or []
    places: dict[tuple[str, str], str] = {}
    for each in found:
        metadata = each["metadata"]
        place = str(int(each.get("positionInClusterQueue") or 0) + 1)
        places[metadata.get("namespace", ""), metadata["name"]] = place
    return places


async def _pending(session: Session, queues: Iterable[str]) -> list[Json] | None:
    """Return the pending workloads of these queues; None if one of them may not be read."""
    found: list[Json] = []
    for queue in sorted(queues):
        try:
            summary = await session.client.fetch(f"{_VISIBILITY}/{queue}/pendingworkloads")
        except Forbidden:
            return None
        except ApiError:
            return found
        found += summary.get("items") or ()
    return found
