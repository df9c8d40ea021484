# SPDX-License-Identifier: Apache-2.0
"""Pods under review: what is refused of new and changed ones, by `kuota.api.rules.pod`.

Nothing is given to new ones. A Pod that were gated here would wait for ever, because no controller
opens the gate yet.
"""

from __future__ import annotations

from functools import partial

from kuota.api.base import Json
from kuota.api.rules.pod import pod_faults, pod_warnings
from kuota.bridge.jobs.ancestor import owned
from kuota.bridge.jobs.job_arrival import left_default_queue
from kuota.bridge.lifecycle_view import Rules

from .lookup import Lookup, answered
from .review import CREATE, UNTOUCHED, UPDATE, Request, Verdict, expected, judged


class PodReviews:
    """Answers for Pods, by what `lookup` finds."""

    def __init__(self, lookup: Lookup, rules: Rules) -> None:
        self._lookup = lookup
        self._rules = rules

    async def validation(self, request: Request) -> Verdict:
        """What is refused; raises Unreadable, and KubeError when others cannot be read."""
        if request.operation not in (CREATE, UPDATE) or request.sub_resource:
            return UNTOUCHED
        pod = _pod(request.new())
        old = _pod(request.old()) if request.operation == UPDATE else None
        default = await answered(self._lookup, partial(left_default_queue, pod, old))
        faults = pod_faults(pod, old, self._rules.gates, default_queue=default)
        warnings = pod_warnings(pod, old, owned=owned(pod, self._rules.owners))
        return judged(request, faults, warnings)


def _pod(obj: Json) -> Json:
    return expected(obj, "v1", "Pod")
