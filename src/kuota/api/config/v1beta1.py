# SPDX-License-Identifier: Apache-2.0
"""Reads the older Configuration, `config.kueue.x-k8s.io/v1beta1`, and converts it to v1beta2.

Only the defaults of v1beta1 apply, not those of v1beta2. A v1beta1 file that does not enable
waitForPodsReady or fairSharing therefore leaves them disabled.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from ..base import LabelSelector, Struct
from ..resources import Transformation
from .defaults import NAMESPACE, common_defaulted, wait_defaulted
from .duration import MINUTE
from .shapes import (
    FINAL_SHARE,
    GROUP,
    INITIAL_SHARE,
    KIND,
    V1BETA2,
    Common,
    Configuration,
    FairSharing,
    Integrations,
    LocalQueueMetrics,
    MultiKueueCommon,
    WaitForPodsReady,
)

V1BETA1 = f"{GROUP}/v1beta1"


class V1beta1CustomLabel(Struct):
    name: str = ""
    source_label_key: str = ""
    source_annotation_key: str = ""


class V1beta1Metrics(Struct):
    bind_address: str = ""
    enable_cluster_queue_resources: bool = False
    custom_labels: list[V1beta1CustomLabel] | None = None
    local_queue_metrics: LocalQueueMetrics | None = None


class V1beta1WaitForPodsReady(WaitForPodsReady):
    enable: bool = False


class V1beta1FairSharing(FairSharing):
    enable: bool = False


class PodOptions(Struct):
    """Accepted and ignored."""

    namespace_selector: LabelSelector | None = None
    pod_selector: LabelSelector | None = None


class V1beta1Integrations(Integrations):
    pod_options: PodOptions | None = None


class ClusterQueueVisibility(Struct):
    max_count: int = 10


class QueueVisibility(Struct):
    """Accepted and ignored."""

    update_interval_seconds: int = 5
    cluster_queues: ClusterQueueVisibility | None = None


class V1beta1DeviceClassMapping(Struct):
    name: str = ""
    device_class_names: list[str] | None = None


class V1beta1Resources(Struct):
    exclude_resource_prefixes: list[str] | None = None
    transformations: list[Transformation] | None = None
    device_class_mappings: list[V1beta1DeviceClassMapping] | None = None


class V1beta1Configuration(Common):
    metrics: V1beta1Metrics = V1beta1Metrics()
    wait_for_pods_ready: V1beta1WaitForPodsReady | None = None
    integrations: V1beta1Integrations | None = None
    multi_kueue: MultiKueueCommon | None = None
    fair_sharing: V1beta1FairSharing | None = None
    resources: V1beta1Resources | None = None
    queue_visibility: QueueVisibility | None = None


def upgraded(old: V1beta1Configuration, namespace: str = NAMESPACE) -> Configuration:
    """Return the configuration with the defaults of v1beta1, converted to v1beta2."""
    wait, fair = old.wait_for_pods_ready, old.fair_sharing
    enabled = replace(
        old,
        wait_for_pods_ready=wait if wait and wait.enable else None,
        fair_sharing=fair if fair and fair.enable else None,
    )
    cfg = common_defaulted(msgspec.convert(enabled, Configuration, from_attributes=True), namespace)
    waiting, sharing = cfg.wait_for_pods_ready, cfg.fair_sharing
    return replace(
        cfg,
        api_version=V1BETA2,
        kind=KIND,
        wait_for_pods_ready=waiting and wait_defaulted(waiting, 5 * MINUTE, block=True),
        fair_sharing=sharing and _with_strategies(sharing),
    )


def _with_strategies(fair: FairSharing) -> FairSharing:
    strategies = fair.preemption_strategies or [FINAL_SHARE, INITIAL_SHARE]
    return FairSharing(preemption_strategies=strategies)
