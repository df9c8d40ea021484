# SPDX-License-Identifier: Apache-2.0
"""The older Configuration, `config.kueue.x-k8s.io/v1beta1`: shape, defaults, way to v1beta2.

Defaults are v1beta1's own and v1beta2's are not added afterwards, so a v1beta1 file that does not
enable waitForPodsReady or fairSharing leaves them off.
"""

from __future__ import annotations

from msgspec.structs import fields, replace

from ..base import LabelSelector, Struct
from ..resources import Transformation
from .defaults import (
    NAMESPACE,
    bind_address_defaulted,
    common_defaulted,
    integrations_defaulted,
    multi_kueue_defaulted,
    resources_defaulted,
    wait_defaulted,
)
from .duration import MINUTE
from .shapes import (
    FINAL_SHARE,
    GROUP,
    INITIAL_SHARE,
    KIND,
    V1BETA2,
    Common,
    Configuration,
    CustomLabel,
    DeviceClassMapping,
    FairSharing,
    Integrations,
    LocalQueueMetrics,
    Metrics,
    MultiKueue,
    MultiKueueCommon,
    Resources,
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
    """The old configuration with its own defaults, in the form of v1beta2."""
    old = common_defaulted(old, namespace)
    common = {field.name: getattr(old, field.name) for field in fields(Common)}
    cfg = Configuration(
        **common,
        metrics=_metrics(old.metrics),
        wait_for_pods_ready=_wait(old.wait_for_pods_ready),
        integrations=_integrations(old.integrations),
        multi_kueue=_multi_kueue(old.multi_kueue or MultiKueueCommon()),
        fair_sharing=_fair_sharing(old.fair_sharing),
        resources=_resources(old.resources),
    )
    return replace(cfg, api_version=V1BETA2, kind=KIND)


def _metrics(old: V1beta1Metrics) -> Metrics:
    labels = old.custom_labels
    return Metrics(
        bind_address=bind_address_defaulted(old.bind_address),
        enable_cluster_queue_resources=old.enable_cluster_queue_resources,
        custom_labels=None if labels is None else [_custom_label(label) for label in labels],
        local_queue_metrics=old.local_queue_metrics,
    )


def _custom_label(old: V1beta1CustomLabel) -> CustomLabel:
    return CustomLabel(
        name=old.name,
        source_label_key=old.source_label_key,
        source_annotation_key=old.source_annotation_key,
    )


def _wait(old: V1beta1WaitForPodsReady | None) -> WaitForPodsReady | None:
    if old is None or not old.enable:
        return None
    same = {field.name: getattr(old, field.name) for field in fields(WaitForPodsReady)}
    return wait_defaulted(WaitForPodsReady(**same), 5 * MINUTE, block=True)


def _integrations(old: V1beta1Integrations | None) -> Integrations:
    old = old or V1beta1Integrations()
    same = {field.name: getattr(old, field.name) for field in fields(Integrations)}
    return integrations_defaulted(Integrations(**same))


def _multi_kueue(old: MultiKueueCommon) -> MultiKueue:
    same = {field.name: getattr(old, field.name) for field in fields(MultiKueueCommon)}
    return multi_kueue_defaulted(MultiKueue(**same))


def _fair_sharing(old: V1beta1FairSharing | None) -> FairSharing | None:
    if old is None or not old.enable:
        return None
    return FairSharing(
        preemption_strategies=old.preemption_strategies or [FINAL_SHARE, INITIAL_SHARE]
    )


def _resources(old: V1beta1Resources | None) -> Resources | None:
    if old is None:
        return None
    mappings = old.device_class_mappings
    new = Resources(
        exclude_resource_prefixes=old.exclude_resource_prefixes,
        transformations=old.transformations,
        device_class_mappings=None if mappings is None else [_mapping(each) for each in mappings],
    )
    return resources_defaulted(new)


def _mapping(old: V1beta1DeviceClassMapping) -> DeviceClassMapping:
    return DeviceClassMapping(name=old.name, device_class_names=old.device_class_names)
