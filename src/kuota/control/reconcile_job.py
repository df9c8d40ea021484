# SPDX-License-Identifier: Apache-2.0
"""Brings one batch/v1 Job in line with its Workload, as `kuota.bridge.lifecycle_job` says."""

from __future__ import annotations

from kuota.api.base import Json, Key
from kuota.api.rules.job_common import queue_name
from kuota.bridge.draft import Seen
from kuota.bridge.lifecycle_job import job_pass
from kuota.bridge.lifecycle_match import prebuilt_name
from kuota.bridge.lifecycle_view import Ancestor, JobView, Rules
from kuota.kube.clock import Clock

from .effects import Sender
from .world import World

DEEPEST = 10
"""How many owners above a job are looked at."""


class Unfinished(Exception):
    """A pass came to nothing for now, and has to be made again."""


class JobReconciler:
    """Reads the world, and writes through `sender`."""

    def __init__(self, world: World, sender: Sender, clock: Clock, rules: Rules) -> None:
        self._world = world
        self._sender = sender
        self._clock = clock
        self._rules = rules

    async def reconcile(self, key: Key) -> float | None:
        """One pass; the seconds after which to look again. Raises Unfinished to be called again."""
        result = job_pass(self.view(key), self._clock.now().timestamp())
        await self._sender.send(result.effects)
        if result.fault:
            raise Unfinished(f"{key}: {result.fault}")
        return result.again_s

    def view(self, key: Key) -> JobView:
        """What the pass looks at."""
        world, held = self._world, self._world.job(key)
        job = held.json if held is not None else None
        namespace = world.namespaces.get(Key("", key.namespace))
        ancestor, too_deep = self._ancestor(key, job)
        return JobView(
            key=key,
            job=job,
            workloads=tuple(self._seen(key)),
            prebuilt=self._prebuilt(key, job),
            namespace=namespace.json["metadata"].get("labels") or {} if namespace else None,
            ancestor=ancestor,
            nested_too_deep=too_deep,
            flavors=world.flavor_objects(),
            classes=world.classes(),
            rules=self._rules,
        )

    def _seen(self, job: Key) -> list[Seen]:
        return [each.value for each in self._world.workloads_of(job) if each.value is not None]

    def _prebuilt(self, key: Key, job: Json | None) -> Seen | None:
        name = prebuilt_name(job, self._rules.gates) if job is not None else ""
        held = self._world.workload(Key(key.namespace, name)) if name else None
        return held.value if held is not None else None

    def _ancestor(self, key: Key, job: Json | None) -> tuple[Ancestor | None, bool]:
        """The topmost managed Job above this one, and whether there are too many above it.

        An owner of any other kind, or whose uid is not the one referred to, ends the walk.
        """
        found: Key | None = None
        at = job
        for _ in range(DEEPEST):
            above = self._owner(key.namespace, at)
            if above is None:
                break
            at = above
            if queue_name(at) or self._rules.manage_all:
                found = Key(key.namespace, at["metadata"]["name"])
        else:
            return None, self._owner(key.namespace, at) is not None
        if found is None:
            return None, False
        unfinished = [each for each in self._seen(found) if not each.true("Finished")]
        newest = max(unfinished, key=_age, default=None)
        return Ancestor(key=found, newest=newest), False

    def _owner(self, namespace: str, job: Json | None) -> Json | None:
        for owner in ((job or {}).get("metadata") or {}).get("ownerReferences") or ():
            if owner.get("controller") and owner.get("kind") == "Job":
                held = self._world.job(Key(namespace, owner["name"]))
                if held is not None and held.uid == owner.get("uid"):
                    return held.json
        return None


def _age(seen: Seen) -> float:
    created = seen.obj.metadata.creation_timestamp
    return created.timestamp() if created is not None else 0.0
