# SPDX-License-Identifier: Apache-2.0
"""The contract of an admission check controller: objects in, effects out. Pure.

A controller answers two questions: whether an AdmissionCheck that names it can be used, and what
to write for a Workload that lists such a check. `loop.CheckLoop` asks them whenever an object that
the answer depends on has changed, and sends the effects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple, Protocol

from kuota.api.base import Json, Key
from kuota.api.kueue import AdmissionCheck, ResourceFlavor
from kuota.api.workload import AdmissionCheckState
from kuota.bridge.draft import PassResult, StoredWorkload
from kuota.engine.model import Struct
from kuota.kube.resources import Resource

BAD_PARAMETERS = "BadParametersRef"
"""The reason of a check whose parameters are missing or refer to something unusable."""


class Activity(NamedTuple):
    """Status, reason and message of the condition Active of an AdmissionCheck."""

    active: bool
    reason: str = "Active"
    message: str = "The admission check is active"


ACTIVE = Activity(True)


class Watched(Struct):
    """A kind that a controller reads besides Workloads, AdmissionChecks and ResourceFlavors.

    `workloads` returns the Workloads that an object concerns. Without it, a change of an object
    concerns all checks of the controller and the Workloads that list them. The server need not
    serve the kind. Only objects that match `label_selector` are read.
    """

    resource: Resource
    workloads: Callable[[Json], Iterable[Key]] | None = None
    label_selector: str = ""


class CheckObjects(Protocol):
    """The newest known objects of the watched kinds."""

    def get(self, resource: Resource, key: Key) -> Json | None:
        """Return one object; None if it does not exist."""

    def for_workload(self, resource: Resource, workload: Key) -> Sequence[Json]:
        """Return the objects of a kind that concern a Workload."""

    def lacking(self, resource: Resource) -> bool:
        """Whether the server does not serve this kind."""


class CheckedWorkload(Struct):
    """The inputs of one pass over a Workload.

    `checks` contains the AdmissionChecks of the controller that the Workload lists, by name. It is
    empty if the Workload lists none any more but watched objects still concern it. `jitter` is
    random and between 0 and 1.
    """

    stored: StoredWorkload
    checks: Mapping[str, AdmissionCheck]
    objects: CheckObjects
    flavors: Mapping[str, ResourceFlavor]
    now: float
    jitter: float = 0.0

    @property
    def key(self) -> Key:
        return self.stored.key

    @property
    def states(self) -> list[AdmissionCheckState]:
        """The states of the controller's checks."""
        listed = self.stored.obj.status.admission_checks or ()
        return [each for each in listed if each.name in self.checks]


class CheckController:
    """An admission check controller. `name` is what AdmissionChecks have as `controllerName`.

    Methods must not do I/O, and must not depend on anything but their arguments.
    """

    name: ClassVar[str]
    watched: ClassVar[Sequence[Watched]] = ()
    effect_kinds: ClassVar[Sequence[Resource]] = ()
    """The kinds besides Workloads and `watched` that effects may name."""

    def activity(self, check: AdmissionCheck, objects: CheckObjects) -> Activity:
        """Return whether the check can be used. ClusterQueues with an unusable check stop."""
        return ACTIVE

    def reconcile(self, workload: CheckedWorkload) -> PassResult:
        """Return what to write for a Workload, and when to look at it again without a change.

        The Workload may be in any state: without quota, evicted, finished or being deleted.
        """
        raise NotImplementedError

    def failed(self, workload: CheckedWorkload, error: str) -> PassResult:
        """Return what to write because the effects of the last pass were rejected.

        The pass is repeated later in any case.
        """
        return PassResult()
