# SPDX-License-Identifier: Apache-2.0
"""The MPIJob of Kubeflow's MPI operator: a launcher and its workers."""

from __future__ import annotations

from kuota.api.base import Json
from kuota.api.config.frameworks import FRAMEWORKS
from kuota.api.gates import Gate, Gates
from kuota.api.rules.metadata import PREFIX
from kuota.api.rules.report import child
from kuota.api.rules.topology import GROUP_NAME

from .fields import put
from .training_jobs import TrainingJob

INDEX_OFFSET = f"{PREFIX}pod-index-offset"


class MPIJob(TrainingJob):
    """An MPIJob. Its launcher and its workers can share a topology group."""

    framework = "kubeflow.org/mpijob"
    described_pod_sets = "`launcher`, `worker`"
    gvk = FRAMEWORKS[framework]
    replica_specs = "mpiReplicaSpecs"
    replica_types = ("Launcher", "Worker")
    native_manager = "kubeflow.org/mpi-operator"
    validates_groups = True

    def defaulted(self, job: Json, gates: Gates, *, managed: bool) -> Json:
        """Return the job with the index of its first worker.

        A launcher that runs as a worker has index 0. In a topology group, the group decides.
        """
        slots = {each.name: each for each in self.templates(job)}
        shared = child(job, "spec").get("runLauncherAsWorker") is True
        if len(slots) != 2 or not shared or not gates.on(Gate.TopologyAwareScheduling):
            return job
        launcher, worker = slots["launcher"], slots["worker"]
        metadata = self.pod_template(job, launcher).get("metadata")
        if GROUP_NAME in child(metadata, "annotations"):
            return job
        return put(job, (*worker.path, "metadata", "annotations", INDEX_OFFSET), "1")
