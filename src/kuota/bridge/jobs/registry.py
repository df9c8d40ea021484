# SPDX-License-Identifier: Apache-2.0
"""All job kinds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .ancestor import GroupKind
from .app_wrapper import AppWrapper
from .batch_job import BatchJob
from .deployment import Deployment
from .job_set import JobSet
from .kind import JobKind
from .leader_worker_set import LeaderWorkerSet
from .mpi_job import MPIJob
from .pod import PodKind
from .pod_group import PodGroup
from .ray_cluster import RayCluster
from .ray_job import RayJob
from .ray_service import RayService
from .spark_application import SparkApplication
from .stateful_set import StatefulSet
from .train_job import TrainJob
from .training_jobs import JAXJob, PaddleJob, PyTorchJob, TFJob, XGBoostJob

JOB = BatchJob()

BUILT_IN: tuple[JobKind, ...] = (
    JOB,
    JobSet(),
    PyTorchJob(),
    TFJob(),
    XGBoostJob(),
    PaddleJob(),
    JAXJob(),
    MPIJob(),
    TrainJob(),
    RayCluster(),
    RayJob(),
    RayService(),
    AppWrapper(),
    SparkApplication(),
    PodKind(),
    PodGroup(),
    Deployment(),
    StatefulSet(),
    LeaderWorkerSet(),
)
"""The kinds that Kuota queues. Others can be added to a `JobKindRegistry`."""


class JobKindRegistry:
    """Job kinds by group and kind."""

    def __init__(self, kinds: Iterable[JobKind] = BUILT_IN) -> None:
        self._kinds: dict[GroupKind, JobKind] = {}
        for each in kinds:
            self.add(each)

    def add(self, kind: JobKind) -> None:
        """Add a kind. Raises ValueError if there is one with the same group and kind."""
        if kind.group_kind in self._kinds:
            raise ValueError(f"there are two integrations for {kind.name}")
        self._kinds[kind.group_kind] = kind

    def __iter__(self) -> Iterator[JobKind]:
        return iter(self._kinds.values())

    def get(self, kind: GroupKind) -> JobKind | None:
        return self._kinds.get(kind)

    def kind(self, kind: GroupKind) -> JobKind:
        """Return the kind, which must be registered."""
        return self._kinds[kind]


ALL = JobKindRegistry()
"""The kinds of this process. Packages add theirs at start-up (`kuota.plugins`)."""
