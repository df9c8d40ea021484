# SPDX-License-Identifier: Apache-2.0
"""The informer of pods of a runner without a control plane."""

from __future__ import annotations

from kuota.api.base import Json
from kuota.control.node_pod_informers import pod_informer
from kuota.kube.client import Client
from kuota.kube.clock import Clock, SystemClock
from kuota.kube.informer import Informer
from kuota.runner.pod_informer import shared_informer


def runner_pods(client: Client, clock: Clock | None = None) -> Informer[Json]:
    """Return the informer that control plane and runner share, for a runner alone."""
    return shared_informer(pod_informer(client, clock or SystemClock(), ()))
