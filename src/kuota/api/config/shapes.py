# SPDX-License-Identifier: Apache-2.0
"""Defines the structs of Kueue's Configuration, `config.kueue.x-k8s.io/v1beta2`.

No defaults are set here. An absent field is None, or it is "", 0 or false where Kueue does not
distinguish these from absent. `Common` has the fields that have the same form in v1beta1.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from ..base import LabelSelector, Struct
from ..resources import Transformation
from .duration import Duration

GROUP = "config.kueue.x-k8s.io"
V1BETA2 = f"{GROUP}/v1beta2"
KIND = "Configuration"
CONFIG_KEY = "controller_manager_config.yaml"
"""The key of the ConfigMap that contains the configuration file."""
FINAL_SHARE = "LessThanOrEqualToFinalShare"
INITIAL_SHARE = "LessThanInitialShare"

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]


class Webhook(Struct):
    port: int | None = None
    host: str = ""
    cert_dir: str = ""


class LeaderElection(Struct):
    leader_elect: bool | None = None
    lease_duration: Duration = Duration(0)
    renew_deadline: Duration = Duration(0)
    retry_period: Duration = Duration(0)
    resource_lock: str = ""
    resource_name: str = ""
    resource_namespace: str = ""


class CustomLabel(Struct):
    """A label that metrics copy from an object. `source_kind` defaults to ClusterQueue."""

    name: str = ""
    source_label_key: str = ""
    source_annotation_key: str = ""
    source_kind: str | None = None
    tracked_values: list[str] | None = None


class LocalQueueMetrics(Struct):
    """Disabled if present without `enable`, but enabled if the whole section is absent."""

    enable: bool = False
    local_queue_selector: LabelSelector | None = None


class Metrics(Struct):
    bind_address: str = ""
    enable_cluster_queue_resources: bool = False
    custom_labels: list[CustomLabel] | None = None
    local_queue_metrics: LocalQueueMetrics | None = None


class Health(Struct):
    health_probe_bind_address: str = ""
    readiness_endpoint_name: str = ""
    liveness_endpoint_name: str = ""


class Controller(Struct):
    """`cache_sync_timeout` is an integer number of nanoseconds, unlike all other durations."""

    group_kind_concurrency: dict[str, int] | None = None
    cache_sync_timeout: int | None = None


class TLS(Struct):
    min_version: str = ""
    cipher_suites: list[str] | None = None
    curve_preferences: list[Int32] | None = None


class InternalCertManagement(Struct):
    enable: bool | None = None
    webhook_service_name: str | None = None
    webhook_secret_name: str | None = None


class RequeuingStrategy(Struct):
    """Without `backoff_limit_count`, a workload is requeued without limit."""

    timestamp: str | None = None
    backoff_limit_count: Int32 | None = None
    backoff_base_seconds: Int32 | None = None
    backoff_max_seconds: Int32 | None = None


class WaitForPodsReady(Struct):
    timeout: Duration = Duration(0)
    block_admission: bool | None = None
    recovery_timeout: Duration | None = None
    requeuing_strategy: RequeuingStrategy | None = None


class ClientConnection(Struct):
    qps: float | None = None
    burst: Int32 | None = None


class Integrations(Struct):
    frameworks: list[str] | None = None
    external_frameworks: list[str] | None = None
    label_keys_to_copy: list[str] | None = None


class ExternalFramework(Struct):
    name: str = ""


class ExecEnvVar(Struct):
    name: str = ""
    value: str = ""


class ExecConfig(Struct):
    """How to obtain credentials for a cluster by running a command, as in a kubeconfig."""

    command: str = ""
    args: list[str] | None = None
    env: list[ExecEnvVar] | None = None
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class AccessProvider(Struct):
    name: str = ""
    exec_config: ExecConfig = ExecConfig()


class ClusterProfile(Struct):
    """`credentials_providers` is the deprecated name of `access_providers`."""

    access_providers: list[AccessProvider] | None = None
    credentials_providers: list[AccessProvider] | None = None


class IncrementalDispatcherConfig(Struct):
    step_size: Int32 | None = None


class MultiKueueCommon(Struct):
    gc_interval: Duration | None = None
    origin: str = ""
    worker_lost_timeout: Duration | None = None
    dispatcher_name: str | None = None
    external_frameworks: list[ExternalFramework] | None = None


class MultiKueue(MultiKueueCommon):
    cluster_profile: ClusterProfile | None = None
    incremental_dispatcher_config: IncrementalDispatcherConfig | None = None


class FairSharing(Struct):
    """Fair sharing is enabled if this section is present."""

    preemption_strategies: list[str] | None = None


class AdmissionFairSharing(Struct):
    usage_half_life_time: Duration = Duration(0)
    usage_sampling_interval: Duration = Duration(0)
    resource_weights: dict[str, float] | None = None


class CELSelector(Struct):
    expression: str = ""


class DeviceSelector(Struct):
    cel: CELSelector | None = None


class DeviceSource(Struct):
    """One counter or one capacity of the devices that match the selector."""

    name: str = ""
    driver: str = ""
    device_selector: DeviceSelector = DeviceSelector()


class DeviceClassSource(Struct):
    counter: DeviceSource | None = None
    capacity: DeviceSource | None = None


class DeviceClassMapping(Struct):
    """The quota resource that devices of some classes are charged to."""

    name: str = ""
    device_class_names: list[str] | None = None
    sources: list[DeviceClassSource] | None = None


class Resources(Struct):
    quota_check_strategy: str | None = None
    exclude_resource_prefixes: list[str] | None = None
    transformations: list[Transformation] | None = None
    device_class_mappings: list[DeviceClassMapping] | None = None


class WorkloadRetention(Struct):
    """How long finished workloads are retained. None means forever; 0 deletes them immediately."""

    after_finished: Duration | None = None
    after_deactivated_by_kueue: Duration | None = None


class ObjectRetentionPolicies(Struct):
    workloads: WorkloadRetention | None = None


class VisibilityServer(Struct):
    bind_address: str | None = None
    bind_port: Int32 | None = None


class Common(Struct):
    """The sections that have the same form in v1beta1 and v1beta2."""

    api_version: str = ""
    kind: str = ""
    namespace: str | None = None
    webhook: Webhook = Webhook()
    leader_election: LeaderElection | None = None
    health: Health = Health()
    pprof_bind_address: str = ""
    controller: Controller | None = None
    tls: TLS | None = None
    manage_jobs_without_queue_name: bool = False
    managed_jobs_namespace_selector: LabelSelector | None = None
    internal_cert_management: InternalCertManagement | None = None
    client_connection: ClientConnection | None = None
    admission_fair_sharing: AdmissionFairSharing | None = None
    feature_gates: dict[str, bool] | None = None
    object_retention_policies: ObjectRetentionPolicies | None = None


class Configuration(Common):
    """Kueue's configuration. `kuota.api.config.load` returns one with all defaults."""

    metrics: Metrics = Metrics()
    wait_for_pods_ready: WaitForPodsReady | None = None
    integrations: Integrations | None = None
    multi_kueue: MultiKueue | None = None
    fair_sharing: FairSharing | None = None
    resources: Resources | None = None
    visibility_server: VisibilityServer | None = None
