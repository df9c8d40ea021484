# SPDX-License-Identifier: Apache-2.0
"""The informer of pods, which all parts of a runner share."""

from __future__ import annotations

from collections.abc import Iterator

from kuota.api.base import Json
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.informer import Informer
from kuota.kube.resources import PODS

from .job_pods import job_key
from .pod_trim import trimmed_pod

JOB = "job"
"""The index of pods by `str` of the key of their Job."""


def pod_informer(client: Client, clock: Clock | None = None) -> Informer[Json]:
    """Pods by their Job. Of those that have ended only what the runner still reads is kept."""
    return Informer(client, PODS, decode=trimmed_pod, indexers={JOB: _job}, clock=clock)


def _job(pod: Json) -> Iterator[str]:
    job = job_key(pod)
    if job is not None:
        yield str(job)
