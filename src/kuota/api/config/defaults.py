# SPDX-License-Identifier: Apache-2.0
"""Sets the defaults of a v1beta2 Configuration. A field that is set is never changed.

The waitForPodsReady section is filled in even when it is absent. Under v1beta2 the feature is
therefore enabled unless its gate disables it (`wait_for_pods_ready_enabled`).
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec.structs import fields, replace

from ..base import LabelSelector, LabelSelectorRequirement, Quantity
from ..gates import Gate, Gates
from ..quantity import QuantityError, canonical, format_of, parse
from ..resources import RETAIN, Transformation
from .duration import MINUTE, SECOND, Duration
from .frameworks import BATCH_JOB
from .shapes import (
    KIND,
    V1BETA2,
    ClientConnection,
    Configuration,
    IncrementalDispatcherConfig,
    Integrations,
    InternalCertManagement,
    LeaderElection,
    MultiKueue,
    RequeuingStrategy,
    Resources,
    VisibilityServer,
    WaitForPodsReady,
)

NAMESPACE = "kueue-system"
NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
ALL_AT_ONCE = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"
INCREMENTAL = "kueue.x-k8s.io/multikueue-dispatcher-incremental"
CLUSTER_QUEUE = "ClusterQueue"

S = TypeVar("S", bound=msgspec.Struct)


def default_configuration(namespace: str = NAMESPACE) -> Configuration:
    """Return the configuration that Kueue uses without a configuration file."""
    return defaulted(Configuration(api_version=V1BETA2, kind=KIND), namespace)


def defaulted(cfg: Configuration, namespace: str = NAMESPACE) -> Configuration:
    """Return the configuration with all defaults.

    `namespace` is the namespace that Kueue runs in. It is used if the configuration names none.
    """
    cfg = common_defaulted(cfg, namespace)
    labels = cfg.metrics.custom_labels
    labels = labels and [_filled(label, source_kind=CLUSTER_QUEUE) for label in labels]
    wait = cfg.wait_for_pods_ready or WaitForPodsReady()
    return replace(
        cfg,
        metrics=replace(cfg.metrics, custom_labels=labels),
        wait_for_pods_ready=wait_defaulted(wait, 30 * MINUTE, block=False),
        multi_kueue=cfg.multi_kueue and _with_steps(cfg.multi_kueue),
        visibility_server=_filled(cfg.visibility_server or VisibilityServer(), bind_port=8082),
    )


def wait_for_pods_ready_enabled(cfg: Configuration, gates: Gates) -> bool:
    return cfg.wait_for_pods_ready is not None and not gates.on(Gate.DisableWaitForPodsReady)


def local_queue_metrics_enabled(cfg: Configuration, gates: Gates) -> bool:
    """Whether LocalQueue metrics are enabled.

    The feature gate must be enabled. If the section is present, it must also set `enable`.
    """
    section = cfg.metrics.local_queue_metrics
    return gates.on(Gate.LocalQueueMetrics) and (section is None or section.enable)


def common_defaulted(cfg: Configuration, namespace: str) -> Configuration:
    """Return the configuration with the defaults that v1beta1 and v1beta2 have in common."""
    # As in Kueue, an empty namespace is not replaced.
    own = namespace if cfg.namespace is None else cfg.namespace
    fair = cfg.admission_fair_sharing
    return replace(
        cfg,
        namespace=own,
        webhook=_filled(cfg.webhook, port=9443),
        leader_election=_leader_election(cfg.leader_election or LeaderElection()),
        health=_filled(cfg.health, health_probe_bind_address=":8081"),
        metrics=_filled(cfg.metrics, bind_address=":8443"),
        managed_jobs_namespace_selector=cfg.managed_jobs_namespace_selector or _others(own),
        internal_cert_management=_certs(cfg.internal_cert_management or InternalCertManagement()),
        client_connection=_filled(
            cfg.client_connection or ClientConnection(), qps=300.0, burst=500
        ),
        admission_fair_sharing=fair and _filled(fair, usage_sampling_interval=Duration(5 * MINUTE)),
        integrations=_integrations(cfg.integrations or Integrations()),
        multi_kueue=_multi_kueue(cfg.multi_kueue or MultiKueue()),
        resources=_resources(cfg.resources),
    )


def wait_defaulted(wait: WaitForPodsReady, timeout: int, *, block: bool) -> WaitForPodsReady:
    wait = _filled(wait, timeout=Duration(timeout), block_admission=block)
    requeuing = _filled(
        wait.requeuing_strategy or RequeuingStrategy(),
        timestamp="Eviction",
        backoff_base_seconds=60,
        backoff_max_seconds=3600,
    )
    return replace(_filled(wait, recovery_timeout=wait.timeout), requeuing_strategy=requeuing)


def _integrations(integrations: Integrations) -> Integrations:
    # As in Kueue, an empty list of frameworks does not disable all of them.
    return replace(integrations, frameworks=integrations.frameworks or [BATCH_JOB])


def _filled(section: S, **defaults: Any) -> S:
    """Return the section with these defaults for all fields that are unset."""
    unset = {field.name: field.default for field in fields(section)}
    missing = [name for name in defaults if getattr(section, name) == unset[name]]
    return replace(section, **{name: defaults[name] for name in missing})


def _leader_election(election: LeaderElection) -> LeaderElection:
    return _filled(
        election,
        leader_elect=True,
        lease_duration=Duration(15 * SECOND),
        renew_deadline=Duration(10 * SECOND),
        retry_period=Duration(2 * SECOND),
        resource_lock="leases",
        resource_name="c1f6bfd2.kueue.x-k8s.io",
    )


def _others(own: str) -> LabelSelector:
    """Return a selector of all namespaces except Kueue's own and the system namespaces."""
    names = LabelSelectorRequirement(
        key=NAMESPACE_NAME_LABEL, operator="NotIn", values=["kube-system", own]
    )
    return LabelSelector(match_expressions=[names])


def _certs(certs: InternalCertManagement) -> InternalCertManagement:
    certs = _filled(certs, enable=True)
    if not certs.enable:
        return certs
    return _filled(
        certs,
        webhook_service_name="kueue-webhook-service",
        webhook_secret_name="kueue-webhook-server-cert",
    )


def _multi_kueue(multi: MultiKueue) -> MultiKueue:
    return _filled(
        multi,
        gc_interval=Duration(MINUTE),
        origin="multikueue",
        worker_lost_timeout=Duration(15 * MINUTE),
        dispatcher_name=ALL_AT_ONCE,
    )


def _with_steps(multi: MultiKueue) -> MultiKueue:
    if multi.dispatcher_name != INCREMENTAL:
        return multi
    steps = multi.incremental_dispatcher_config or IncrementalDispatcherConfig()
    return replace(multi, incremental_dispatcher_config=_filled(steps, step_size=3))


def _resources(resources: Resources | None) -> Resources | None:
    if resources is None or resources.transformations is None:
        return resources
    rules = [_transformation(rule) for rule in resources.transformations]
    return replace(resources, transformations=rules)


def _transformation(rule: Transformation) -> Transformation:
    outputs = rule.outputs and {name: _canonical(each) for name, each in rule.outputs.items()}
    return replace(rule, strategy=rule.strategy or RETAIN, outputs=outputs)


def _canonical(quantity: Quantity) -> Quantity:
    """Return the quantity in canonical form. An invalid one is kept, and validation rejects it."""
    try:
        return canonical(parse(quantity), format_of(quantity))
    except QuantityError:
        return quantity
