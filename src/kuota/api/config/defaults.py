# SPDX-License-Identifier: Apache-2.0
"""What Kueue fills into a v1beta2 Configuration. A field that is set is never changed.

waitForPodsReady is filled in even when absent, so under v1beta2 that feature is on unless its
gate says otherwise (`wait_for_pods_ready_enabled`).
"""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from ..base import LabelSelector, LabelSelectorRequirement, Quantity
from ..gates import Gate, Gates
from ..quantity import QuantityError, canonical, format_of, parse
from ..resources import RETAIN, Transformation
from .duration import MINUTE, SECOND, Duration
from .frameworks import BATCH_JOB
from .shapes import (
    KIND,
    V1BETA2,
    AdmissionFairSharing,
    ClientConnection,
    Common,
    Configuration,
    CustomLabel,
    Health,
    IncrementalDispatcherConfig,
    Integrations,
    InternalCertManagement,
    LeaderElection,
    Metrics,
    MultiKueue,
    MultiKueueCommon,
    RequeuingStrategy,
    Resources,
    VisibilityServer,
    WaitForPodsReady,
    Webhook,
)

NAMESPACE = "kueue-system"
NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
ALL_AT_ONCE = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"
INCREMENTAL = "kueue.x-k8s.io/multikueue-dispatcher-incremental"
CLUSTER_QUEUE = "ClusterQueue"

C = TypeVar("C", bound=Common)
M = TypeVar("M", bound=MultiKueueCommon)
V = TypeVar("V")


def default_configuration(namespace: str = NAMESPACE) -> Configuration:
    """The configuration of a Kueue that was given no file."""
    return defaulted(Configuration(api_version=V1BETA2, kind=KIND), namespace)


def defaulted(cfg: Configuration, namespace: str = NAMESPACE) -> Configuration:
    """`namespace` is where Kueue itself runs, used when the configuration does not say."""
    cfg = common_defaulted(cfg, namespace)
    return replace(
        cfg,
        metrics=_metrics(cfg.metrics),
        wait_for_pods_ready=wait_defaulted(
            cfg.wait_for_pods_ready or WaitForPodsReady(), 30 * MINUTE, block=False
        ),
        integrations=integrations_defaulted(cfg.integrations),
        multi_kueue=_multi_kueue(multi_kueue_defaulted(cfg.multi_kueue or MultiKueue())),
        resources=resources_defaulted(cfg.resources),
        visibility_server=_visibility(cfg.visibility_server or VisibilityServer()),
    )


def wait_for_pods_ready_enabled(cfg: Configuration, gates: Gates) -> bool:
    return cfg.wait_for_pods_ready is not None and not gates.on(Gate.DisableWaitForPodsReady)


def local_queue_metrics_enabled(cfg: Configuration, gates: Gates) -> bool:
    """On without a section of its own; with one, only if that says so."""
    section = cfg.metrics.local_queue_metrics
    return gates.on(Gate.LocalQueueMetrics) and (section is None or section.enable)


def common_defaulted(cfg: C, namespace: str) -> C:
    """The sections that v1beta1 and v1beta2 default alike."""
    own = cfg.namespace or namespace
    fair = cfg.admission_fair_sharing
    return replace(
        cfg,
        namespace=own,
        webhook=_webhook(cfg.webhook),
        leader_election=_leader_election(cfg.leader_election or LeaderElection()),
        health=_health(cfg.health),
        managed_jobs_namespace_selector=cfg.managed_jobs_namespace_selector or _others(own),
        internal_cert_management=_certs(cfg.internal_cert_management or InternalCertManagement()),
        client_connection=_client(cfg.client_connection or ClientConnection()),
        admission_fair_sharing=fair and _admission_fair_sharing(fair),
    )


def wait_defaulted(wait: WaitForPodsReady, timeout: int, block: bool) -> WaitForPodsReady:
    # A timeout of zero cannot be told from none at all, so it too becomes the default.
    wait = replace(
        wait,
        timeout=wait.timeout or Duration(timeout),
        block_admission=_set(wait.block_admission, block),
    )
    return replace(
        wait,
        recovery_timeout=_set(wait.recovery_timeout, wait.timeout),
        requeuing_strategy=_requeuing(wait.requeuing_strategy or RequeuingStrategy()),
    )


def integrations_defaulted(integrations: Integrations | None) -> Integrations:
    integrations = integrations or Integrations()
    return replace(integrations, frameworks=_set(integrations.frameworks, [BATCH_JOB]))


def multi_kueue_defaulted(multi: M) -> M:
    return replace(
        multi,
        gc_interval=_set(multi.gc_interval, Duration(MINUTE)),
        origin=multi.origin or "multikueue",
        worker_lost_timeout=_set(multi.worker_lost_timeout, Duration(15 * MINUTE)),
        dispatcher_name=_set(multi.dispatcher_name, ALL_AT_ONCE),
    )


def resources_defaulted(resources: Resources | None) -> Resources | None:
    if resources is None or resources.transformations is None:
        return resources
    rules = [_transformation(rule) for rule in resources.transformations]
    return replace(resources, transformations=rules)


def _transformation(rule: Transformation) -> Transformation:
    outputs = rule.outputs and {name: _canonical(each) for name, each in rule.outputs.items()}
    return replace(rule, strategy=rule.strategy or RETAIN, outputs=outputs)


def _canonical(quantity: Quantity) -> Quantity:
    """The quantity as Kubernetes writes it; one it cannot read stays for the rules to refuse."""
    try:
        return canonical(parse(quantity), format_of(quantity))
    except QuantityError:
        return quantity


def bind_address_defaulted(address: str) -> str:
    return address or ":8443"


def _set(value: V | None, default: V) -> V:
    return default if value is None else value


def _webhook(webhook: Webhook) -> Webhook:
    return replace(webhook, port=_set(webhook.port, 9443))


def _leader_election(election: LeaderElection) -> LeaderElection:
    return replace(
        election,
        leader_elect=_set(election.leader_elect, True),
        lease_duration=election.lease_duration or Duration(15 * SECOND),
        renew_deadline=election.renew_deadline or Duration(10 * SECOND),
        retry_period=election.retry_period or Duration(2 * SECOND),
        resource_lock=election.resource_lock or "leases",
        resource_name=election.resource_name or "c1f6bfd2.kueue.x-k8s.io",
    )


def _health(health: Health) -> Health:
    return replace(health, health_probe_bind_address=health.health_probe_bind_address or ":8081")


def _metrics(metrics: Metrics) -> Metrics:
    labels = metrics.custom_labels
    return replace(
        metrics,
        bind_address=bind_address_defaulted(metrics.bind_address),
        custom_labels=labels and [_custom_label(label) for label in labels],
    )


def _custom_label(label: CustomLabel) -> CustomLabel:
    return replace(label, source_kind=label.source_kind or CLUSTER_QUEUE)


def _others(own: str) -> LabelSelector:
    """Every namespace but Kueue's own and the system's."""
    names = LabelSelectorRequirement(
        key=NAMESPACE_NAME_LABEL, operator="NotIn", values=["kube-system", own]
    )
    return LabelSelector(match_expressions=[names])


def _certs(certs: InternalCertManagement) -> InternalCertManagement:
    certs = replace(certs, enable=_set(certs.enable, True))
    if not certs.enable:
        return certs
    return replace(
        certs,
        webhook_service_name=_set(certs.webhook_service_name, "kueue-webhook-service"),
        webhook_secret_name=_set(certs.webhook_secret_name, "kueue-webhook-server-cert"),
    )


def _client(client: ClientConnection) -> ClientConnection:
    return replace(client, qps=_set(client.qps, 300.0), burst=_set(client.burst, 500))


def _admission_fair_sharing(fair: AdmissionFairSharing) -> AdmissionFairSharing:
    interval = fair.usage_sampling_interval or Duration(5 * MINUTE)
    return replace(fair, usage_sampling_interval=interval)


def _requeuing(strategy: RequeuingStrategy) -> RequeuingStrategy:
    return replace(
        strategy,
        timestamp=_set(strategy.timestamp, "Eviction"),
        backoff_base_seconds=_set(strategy.backoff_base_seconds, 60),
        backoff_max_seconds=_set(strategy.backoff_max_seconds, 3600),
    )


def _multi_kueue(multi: MultiKueue) -> MultiKueue:
    if multi.dispatcher_name != INCREMENTAL:
        return multi
    given = multi.incremental_dispatcher_config or IncrementalDispatcherConfig()
    steps = replace(given, step_size=_set(given.step_size, 3))
    return replace(multi, incremental_dispatcher_config=steps)


def _visibility(server: VisibilityServer) -> VisibilityServer:
    return replace(server, bind_port=_set(server.bind_port, 8082))
