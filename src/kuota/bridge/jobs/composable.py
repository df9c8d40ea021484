# SPDX-License-Identifier: Apache-2.0
"""Optional features of job kinds whose jobs consist of pods, with or without a common object."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from kuota.api.base import Json, Key
from kuota.api.gates import Gates
from kuota.api.rules.metadata import PREFIX
from kuota.engine.model import Struct

from ..draft import StoredWorkload
from ..effects import Effect
from .ancestor import GroupKind
from .members import Member, Members

IS_GROUP = f"{PREFIX}is-group-workload"
"""An annotation of the Workload of a composed job, which has the name of the job."""
POD_GROUP = "PodGroup"
"""The kind of a group of Pods. There are no objects of this kind."""


class StopCause(Struct):
    """Why a job is stopped, and when."""

    reason: str
    message: str
    now: float


@runtime_checkable
class JobWithTermination(Protocol):
    """A kind whose jobs cannot be suspended again. They are stopped by deleting their pods."""

    def terminate(self, job: Json, cause: StopCause) -> list[Effect]:
        """Return the writes, with an event about each pod. It is called instead of `stop`."""


class ReportedCondition(Struct):
    """A condition of a Workload."""

    type: str
    status: bool
    reason: str
    message: str


@runtime_checkable
class JobWithConditions(Protocol):
    """A kind that sets conditions of its Workloads."""

    def conditions(self, job: Json, stored: StoredWorkload) -> list[ReportedCondition]:
        """Return the conditions as they should be. Others stay as they are."""


class Match(Struct):
    """How a composed job relates to a Workload, and the writes to its members.

    `job` has only the members that count. Not `matches` means that the Workload is outdated.
    `refused` is why the pass ends; it is not retried before something changes.
    """

    job: Json
    matches: bool = True
    effects: tuple[Effect, ...] = ()
    refused: str = ""


@runtime_checkable
class ComposableJob(Protocol):
    """A kind whose job consists of several objects with one Workload, as a group of pods does.

    Its job is JSON like a Kubernetes List: `items` are its Members, `metadata` has the name and
    namespace of the group and the labels and annotations of its first member. Its Workload has the
    name of the group, and every member owns it.
    """

    member: ClassVar[GroupKind]

    def group_of(self, member: Json, gates: Gates) -> str:
        """Return the name of the group of a member; "" if it belongs to none."""

    def matters(self, old: Json, new: Json) -> bool:
        """Whether a change of a member can change the result of a pass over its group."""

    def described(self, member: Json) -> Member[Any]:
        """Return what a pass over the group depends on about a member."""

    def compose(
        self, key: Key, members: Members[Any], gates: Gates, now: float, *, stale: bool = False
    ) -> Json:
        """Return the job that consists of these members.

        `stale` is whether members may have changed since they were read.
        """

    def abandoned(self, job: Json) -> bool:
        """Whether all members are being deleted and some of them are held by a finalizer."""

    def owns(self, stored: StoredWorkload, gates: Gates) -> bool:
        """Whether a Workload with the name of the group is released when the group is gone."""

    def woken_by(self, workload: Json, gates: Gates, *, deleted: bool) -> bool:
        """Whether a change of this Workload concerns the group of the same name."""

    def match(self, job: Json, stored: StoredWorkload, gates: Gates) -> Match:
        """Return whether the Workload is that of the job, and what becomes of the members."""

    def equivalent(self, job: Json, stored: StoredWorkload, gates: Gates) -> bool:
        """Whether a prebuilt Workload has the pod sets of the job. Raises PodSetsUnknown."""

    def prepare(self, job: Json, gates: Gates) -> Match:
        """Return the job from which a Workload can be constructed. Raises PodSetsUnknown."""

    def workload_metadata(self, job: Json) -> Json:
        """Return name, annotations and owner references of a new Workload."""

    def owner(self, member: Json) -> Json:
        """Return the reference of a Workload to a member."""

    def copied(self, job: Json, field: str, keys: Sequence[str]) -> dict[str, str]:
        """Return the labels or annotations of the members that a new Workload gets.

        Raises PodSetsUnknown if the members disagree.
        """


def members_of(job: Json) -> Members[Any]:
    """Return the members of a composed job."""
    items = job.get("items")
    return items if isinstance(items, Members) else Members("", lambda key: None)


def composed(
    kind: ComposableJob,
    key: Key,
    objects: Iterable[Json],
    gates: Gates,
    now: float,
    *,
    stale: bool = False,
) -> Json:
    """Return the job that consists of these objects."""
    described = [(kind.described(each), each) for each in objects]
    by_name = {each.key.name: obj for each, obj in described}
    members = Members[Any](key.namespace, lambda member: by_name.get(member.name))
    for each, _ in described:
        members.put(each)
    return kind.compose(key, members, gates, now, stale=stale)
