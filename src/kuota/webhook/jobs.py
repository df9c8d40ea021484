# SPDX-License-Identifier: Apache-2.0
"""batch/v1 Jobs under review: what new ones are given, and what is refused of new and changed ones.

The rules are those of `kuota.bridge.jobs.job_arrival` and `kuota.api.rules.job`, which the embedded
server goes by as well; here is found out what they need to know of other objects.
"""

from __future__ import annotations

import logging

import msgspec

from kuota.api.base import Json, Key
from kuota.api.check_config import MULTIKUEUE
from kuota.api.gates import Gate
from kuota.api.priority import DEFAULT_CLASS
from kuota.api.rules.job import job_faults
from kuota.api.rules.job_common import queue_name
from kuota.api.rules.report import child, elements, mapping, text
from kuota.bridge.jobs.ancestor import JOB, GroupKind, Nesting, owned
from kuota.bridge.jobs.job_arrival import Arrival, arrived, nested
from kuota.bridge.lifecycle_view import Rules
from kuota.kube import resources as kinds
from kuota.kube.errors import KubeError

from .lookup import Lookup, has_default_queue
from .review import (
    CREATE,
    UNTOUCHED,
    UPDATE,
    Request,
    Verdict,
    changed,
    expected,
    judged,
    refused,
)

_log = logging.getLogger(__name__)


class _Unasked(Exception):
    """An owner that nobody has asked for yet."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class JobReviews:
    """Answers for Jobs, by what `lookup` finds."""

    def __init__(self, lookup: Lookup, rules: Rules) -> None:
        self._lookup = lookup
        self._rules = rules
        # Of all kinds of owners, Jobs are the ones that the controllers follow as well.
        self._followed = msgspec.structs.replace(rules, owners=rules.owners.among({JOB}))

    async def mutation(self, request: Request) -> Verdict:
        """What a new Job is given; raises Unreadable, and KubeError when others cannot be read."""
        if request.operation != CREATE or request.sub_resource:
            return UNTOUCHED
        job = _job(request.new())
        try:
            arrival = await self._arrival(job, request.namespace)
        except Nesting as error:
            return refused(403, "Forbidden", str(error))
        after = arrived(job, arrival)
        if await self._sent_away(after, request.namespace):
            after = arrived(job, msgspec.structs.replace(arrival, sent_away=True))
        return changed(job, after)

    async def validation(self, request: Request) -> Verdict:
        """What is refused; raises Unreadable, and KubeError when others cannot be read."""
        if request.operation not in (CREATE, UPDATE) or request.sub_resource:
            return UNTOUCHED
        job = _job(request.new())
        old = _job(request.old()) if request.operation == UPDATE else None
        default = await left_default(self._lookup, job, old, request.namespace)
        return judged(request, job_faults(job, old, self._rules.gates, default_queue=default))

    async def _arrival(self, job: Json, namespace: str) -> Arrival:
        found = await self._lookup.find(kinds.NAMESPACES, Key("", namespace))
        return Arrival(
            namespace=child(found, "metadata", "labels") if found is not None else None,
            default_queue=await has_default_queue(self._lookup, namespace),
            default_class=await self._has_default_class(),
            owned=owned(job, self._rules.owners),
            nested=await self._nested(job, namespace),
            rules=self._rules,
        )

    async def _has_default_class(self) -> bool:
        """A class that cannot be read counts as absent: defaults must not stop a creation."""
        if not self._rules.gates.on(Gate.WorkloadPriorityClassDefaulting):
            return False
        key = Key("", DEFAULT_CLASS)
        try:
            return await self._lookup.find(kinds.WORKLOAD_PRIORITY_CLASSES, key) is not None
        except KubeError as error:
            _log.warning("no default priority class is given: %s", error)
            return False

    async def _nested(self, job: Json, namespace: str) -> bool:
        """Whether a managed Job is above this one; raises Nesting."""
        known: dict[str, Json | None] = {}

        def look_up(kind: GroupKind, name: str) -> Json | None:
            if name not in known:
                raise _Unasked(name)
            return known[name]

        while True:
            try:
                return nested(job, self._followed, look_up, lenient=True)
            except _Unasked as missing:
                key = Key(namespace, missing.name)
                known[missing.name] = await self._lookup.find(kinds.JOBS, key)

    async def _sent_away(self, job: Json, namespace: str) -> bool:
        """Whether the queue of the job hands its jobs to other clusters."""
        name = queue_name(job)
        if not name or not self._rules.gates.on(Gate.MultiKueue):
            return False
        local = await self._lookup.find(kinds.LOCAL_QUEUES, Key(namespace, name))
        queue = text(child(local, "spec").get("clusterQueue"))
        if not queue:
            return False
        found = await self._lookup.find(kinds.CLUSTER_QUEUES, Key("", queue))
        checks = elements(child(found, "spec", "admissionChecksStrategy").get("admissionChecks"))
        for name in (text(mapping(each).get("name")) for each in checks):
            check = await self._lookup.find(kinds.ADMISSION_CHECKS, Key("", name)) if name else None
            if child(check, "spec").get("controllerName") == MULTIKUEUE:
                return True
        return False


def _job(obj: Json) -> Json:
    return expected(obj, "batch/v1", "Job")


async def left_default(lookup: Lookup, job: Json, old: Json | None, namespace: str) -> bool:
    """Whether a job gives up its queue name where jobs without one go to the default queue."""
    emptied = old is not None and bool(queue_name(old)) and not queue_name(job)
    return emptied and await has_default_queue(lookup, namespace)
