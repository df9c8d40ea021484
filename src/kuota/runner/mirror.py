# SPDX-License-Identifier: Apache-2.0
"""The objects of one kind as of a moment ago, our own writes among them at once.

A controller that has just made a pod must not make it again because the watch is slow to tell. So
answers to writes are learned like news, and the older of two states never replaces the newer:
revisions of one server are numbers that only grow, and a watch tells them in order.

Finished work may be kept by the server for very long, and much may wait for long. Both are kept
packed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kuota.api.base import Json, Key
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.informer import Informer
from kuota.kube.resources import JOBS, PODS, key_of

from .job_pods import controller_of, job_key
from .job_spec import is_finished
from .pod_trim import trimmed_pod

JOB = "job"
"""The index of pods by `str` of the key of their Job."""
OWNER = "owner"
"""The index of Jobs by the uid of the object that controls them."""


class Mirror(Informer[Json]):
    """An informer that also learns what its own side wrote."""

    def learn(self, obj: Json) -> None:
        """Take in the answer to a write, unless the watch was faster."""
        if obj.get("kind") != "Status":
            self._put(obj)

    def put_away(self, obj: Json) -> None:
        """Keep one of the objects packed: it will hardly be asked for again."""
        self._cache.pack(key_of(obj), obj)

    def _put(self, obj: Json) -> Key:
        key = key_of(obj)
        known = self._cache.revision(key)
        if _number(obj["metadata"].get("resourceVersion")) > _number(known or self._revision):
            self._cache.put(obj)
        return key

    def _keep_only(self, seen: Collection[Key], revision: str) -> None:
        """What was made after the list is not missing from it."""
        for key in tuple(self.keys()):
            if key not in seen and _number(self._cache.revision(key)) <= _number(revision):
                self._cache.drop(key)


def jobs_mirror(client: Client, clock: Clock | None = None) -> Mirror:
    """Jobs; those that have ended or wait for their turn take little memory."""
    return Mirror(client, JOBS, indexers={OWNER: _owner}, packs=_rests, clock=clock)


def pods_mirror(client: Client, clock: Clock | None = None) -> Mirror:
    """Pods by their Job, ended ones reduced to what somebody may still ask."""
    return Mirror(client, PODS, decode=trimmed_pod, indexers={JOB: _job}, clock=clock)


def _rests(job: Json) -> bool:
    return bool(job["spec"].get("suspend")) or is_finished(job)


def _owner(job: Json) -> Iterator[str]:
    owner = controller_of(job)
    if owner is not None:
        yield owner.get("uid") or ""


def _job(pod: Json) -> Iterator[str]:
    job = job_key(pod)
    if job is not None:
        yield str(job)


def _number(revision: str | None) -> int:
    return int(revision or 0)
