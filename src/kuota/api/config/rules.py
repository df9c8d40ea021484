# SPDX-License-Identifier: Apache-2.0
"""Validates a Configuration and reports every fault, with Kueue's paths and error types.

Decoding reports unknown fields and wrong types, and `kuota.api.gates` validates the feature gates.
Neither is checked here.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

import msgspec

from .. import names
from ..faults import FieldError, at_most_one, invalid, not_supported, required
from ..gates import Gates
from .defaults import wait_for_pods_ready_enabled
from .rules_integrations import integration_faults
from .rules_metrics import custom_label_faults
from .rules_multi_kueue import multi_kueue_faults
from .rules_resources import resource_faults
from .shapes import (
    FINAL_SHARE,
    INITIAL_SHARE,
    TLS,
    AdmissionFairSharing,
    Configuration,
    FairSharing,
    InternalCertManagement,
    ObjectRetentionPolicies,
    VisibilityServer,
    WaitForPodsReady,
)
from .syntax import dns_1035_label, negative_faults

STRATEGY_LISTS = ([FINAL_SHARE], [INITIAL_SHARE], [FINAL_SHARE, INITIAL_SHARE])
TLS_12 = "VersionTLS12"
TLS_13 = "VersionTLS13"
CIPHER_SUITES = frozenset(
    {
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
        "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
        "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_RSA_WITH_AES_128_CBC_SHA",
        "TLS_RSA_WITH_AES_128_CBC_SHA256",
        "TLS_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_RSA_WITH_AES_256_CBC_SHA",
        "TLS_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_RSA_WITH_RC4_128_SHA",
    }
)
CURVES = frozenset({23, 24, 25, 29, 4587, 4588, 4589})
"""The key exchange groups that Go's crypto/tls names.

They are P-256, P-384, P-521, X25519, and hybrids of P-256, P-384 and X25519 with ML-KEM.
"""
_LAST_CURVE = 65535
_LAST_PORT = 65535


def faults(cfg: Configuration, gates: Gates) -> list[FieldError]:
    """Return every fault of the configuration under these gates. Defaults are not required."""
    return list(_faults(cfg, gates))


def _faults(cfg: Configuration, gates: Gates) -> Iterator[FieldError]:
    if wait_for_pods_ready_enabled(cfg, gates):
        yield from _wait_faults(cfg.wait_for_pods_ready)
    yield from integration_faults(cfg, gates)
    yield from multi_kueue_faults(cfg)
    yield from _fair_sharing_faults(cfg.fair_sharing)
    yield from _admission_fair_sharing_faults(cfg.admission_fair_sharing)
    yield from _certificate_faults(cfg.internal_cert_management)
    yield from resource_faults(cfg.resources, gates)
    yield from _retention_faults(cfg.object_retention_policies)
    yield from _tls_faults(cfg.tls)
    yield from custom_label_faults(cfg)
    yield from _visibility_faults(cfg.visibility_server)
    port = cfg.webhook.port if cfg.webhook is not None else None
    if port is not None and not 0 <= port <= _LAST_PORT:
        yield invalid("webhook.port", port, f"must be from 0 to {_LAST_PORT}")


def _wait_faults(wait: WaitForPodsReady | None) -> Iterator[FieldError]:
    if wait is None:
        return
    if wait.timeout == 0:
        yield required("waitForPodsReady.timeout", "must be set")
    yield from negative_faults(wait, "waitForPodsReady", "timeout", "recovery_timeout")
    strategy, at = wait.requeuing_strategy, "waitForPodsReady.requeuingStrategy"
    if strategy is None:
        return
    if strategy.timestamp not in (None, "Eviction", "Creation"):
        yield not_supported(f"{at}.timestamp", strategy.timestamp, ("Creation", "Eviction"))
    bounds = ("backoff_limit_count", "backoff_base_seconds", "backoff_max_seconds")
    yield from negative_faults(strategy, at, *bounds)


def _fair_sharing_faults(fair: FairSharing | None) -> Iterator[FieldError]:
    if fair is None:
        return
    at, strategies = "fairSharing.preemptionStrategies", fair.preemption_strategies
    if not strategies:
        fix = f"the usual list is [{FINAL_SHARE}, {INITIAL_SHARE}]"
        yield required(at, "must say how to preempt under fair sharing", fix)
    elif strategies not in STRATEGY_LISTS:
        yield not_supported(at, strategies, (f"[{', '.join(each)}]" for each in STRATEGY_LISTS))


def _admission_fair_sharing_faults(fair: AdmissionFairSharing | None) -> Iterator[FieldError]:
    if fair is None:
        return
    path = "admissionFairSharing"
    yield from negative_faults(fair, path, "usage_half_life_time")
    if fair.usage_sampling_interval <= 0:
        interval = str(fair.usage_sampling_interval)
        yield invalid(f"{path}.usageSamplingInterval", interval, "must be more than 0")
    for resource, weight in (fair.resource_weights or {}).items():
        if weight < 0:
            yield invalid(f"{path}.resourceWeights[{resource}]", weight, "must be 0 or more")


def _certificate_faults(certs: InternalCertManagement | None) -> Iterator[FieldError]:
    if certs is None or not certs.enable:
        return
    path = "internalCertManagement"
    if certs.webhook_service_name is not None:
        at, name = f"{path}.webhookServiceName", certs.webhook_service_name
        yield from at_most_one(at, name, dns_1035_label(name))
    if certs.webhook_secret_name is not None:
        at, name = f"{path}.webhookSecretName", certs.webhook_secret_name
        yield from at_most_one(at, name, names.dns_subdomain(name))


def _retention_faults(policies: ObjectRetentionPolicies | None) -> Iterator[FieldError]:
    if policies is None or policies.workloads is None:
        return
    path, bounds = (
        "objectRetentionPolicies.workloads",
        ("after_finished", "after_deactivated_by_kueue"),
    )
    yield from negative_faults(policies.workloads, path, *bounds)


def _tls_faults(tls: TLS | None) -> Iterator[FieldError]:
    """Yield at most one fault: all values that cannot be parsed, or else an invalid combination."""
    if tls is None:
        return
    suites = tls.cipher_suites or []
    complaints = [
        *_version_complaints(tls.min_version),
        *_suite_complaints(suites),
        *_curve_complaints(tls.curve_preferences or []),
    ]
    if complaints:
        yield invalid("tls", msgspec.to_builtins(tls), "; ".join(complaints))
    elif tls.min_version == TLS_13 and suites:
        fix = f"remove cipherSuites, or set minVersion: {TLS_12}"
        yield invalid("tls.cipherSuites", suites, "cannot be chosen under TLS 1.3", fix)


def _version_complaints(version: str) -> Iterator[str]:
    if version not in ("", TLS_12, TLS_13):
        yield f"minVersion {version!r} is not supported, use {TLS_12} or {TLS_13}"


def _suite_complaints(suites: list[str]) -> Iterator[str]:
    unknown = [suite for suite in suites if suite not in CIPHER_SUITES]
    if unknown:
        yield f"unknown cipher suites: {', '.join(unknown)}"


def _curve_complaints(curves: list[int]) -> Iterator[str]:
    for index, curve in enumerate(curves):
        if not 1 <= curve <= _LAST_CURVE:
            yield f"curve preference {curve} is not from 1 to {_LAST_CURVE}"
        elif curve in curves[:index]:
            yield f"curve preference {curve} is listed twice"
        elif curve not in CURVES:
            yield f"curve preference {curve} is unknown, use one of {sorted(CURVES)}"


def _visibility_faults(server: VisibilityServer | None) -> Iterator[FieldError]:
    if server is None:
        return
    address, port = server.bind_address, server.bind_port
    if address is not None and not _is_ip(address):
        yield invalid("visibilityServer.bindAddress", address, f"{address!r} is not an IP address")
    if port is not None and not 1 <= port <= _LAST_PORT:
        yield invalid("visibilityServer.bindPort", port, f"must be from 1 to {_LAST_PORT}")


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text
