# SPDX-License-Identifier: Apache-2.0
"""Says that jobs of some kinds are queued and admitted here, but that nothing starts their pods."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from kuota.api.base import Json
from kuota.bridge.jobs.ancestor import GroupKind
from kuota.bridge.jobs.kind import JobKind
from kuota.bridge.jobs.registry import JOB
from kuota.bridge.lifecycle_view import LifecycleConfig
from kuota.kube.events import Recorder
from kuota.kube.informer import Informer
from kuota.runner.group_controller import RULES
from kuota.runner.replica_controller import REPLICA_KINDS

from .charges import POD_GROUP, POD_KIND

REASON = "NothingStartsPods"
_RUN = frozenset({JOB.group_kind, POD_KIND, POD_GROUP, *RULES, *REPLICA_KINDS})
_CONTROLLER = "kuota-runner"


def runs_here(kind: GroupKind) -> bool:
    """Whether a controller of this machine starts the pods of jobs of this kind."""
    return kind in _RUN


def statement(kind: JobKind) -> str:
    """What users are told about a kind whose pods nothing starts."""
    return (
        f"nothing on this machine starts pods for kind {kind.gvk.kind}: it is queued and admitted, "
        "and uses quota until it is deleted; submit a Job, JobSet, PyTorchJob or TrainJob instead, "
        f"or run a controller of {kind.gvk.kind} against this server"
    )


def report_unsupported(
    jobs: Mapping[GroupKind, Informer[Json]], config: LifecycleConfig, recorder: Recorder
) -> None:
    """Record an event whenever a job starts whose pods nothing starts."""
    for group_kind, informer in jobs.items():
        kind = config.registry.get(group_kind)
        if kind is not None and not runs_here(group_kind):
            informer.observe(partial(_changed, kind, recorder))


def _changed(kind: JobKind, recorder: Recorder, old: Json | None, new: Json | None) -> None:
    if new is None or kind.suspended(new) or kind.end(new) is not None:
        return
    if old is None or kind.suspended(old):
        recorder.record(new, REASON, statement(kind), warning=True, controller=_CONTROLLER)
