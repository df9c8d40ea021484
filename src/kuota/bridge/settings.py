# SPDX-License-Identifier: Apache-2.0
"""Kueue's configuration -> the engine's policy, and how workloads are accounted."""

from __future__ import annotations

from collections.abc import Iterable

from kuota.api.config.defaults import wait_for_pods_ready_enabled
from kuota.api.config.shapes import Configuration
from kuota.api.core import LimitRange, RuntimeClass
from kuota.api.gates import Gate, Gates
from kuota.api.resources import by_input
from kuota.engine.policy import AdmissionFairSharing, Policy

from .devices.claims import Devices
from .inbound_workload import AccountingContext

_IGNORE = "IgnoreUndeclared"
_BY_CREATION = "Creation"


def policy(cfg: Configuration | None, gates: Gates) -> Policy:
    """Return the policy of an engine; Kueue's defaults without a configuration."""
    if cfg is None:
        return Policy(gates=gates)
    fair, ready, resources = cfg.fair_sharing, cfg.wait_for_pods_ready, cfg.resources
    requeuing = ready.requeuing_strategy if ready is not None else None
    return Policy(
        gates=gates,
        fair_sharing=tuple(fair.preemption_strategies or ()) if fair is not None else None,
        admission_fair_sharing=_history(cfg),
        ignore_undeclared=resources is not None and resources.quota_check_strategy == _IGNORE,
        block_until_ready=wait_for_pods_ready_enabled(cfg, gates)
        and ready is not None
        and bool(ready.block_admission),
        by_eviction=requeuing is None or requeuing.timestamp != _BY_CREATION,
        sizes=_sizes(cfg, gates),
    )


def _sizes(cfg: Configuration, gates: Gates) -> frozenset[str]:
    """Return the resources that counters or the capacity of devices are charged to."""
    if cfg.resources is None or not charges_devices(cfg, gates):
        return frozenset()
    return frozenset(
        mapping.name
        for mapping in cfg.resources.device_class_mappings or ()
        for source in mapping.sources or ()
        if source.counter is not None or source.capacity is not None
    )


def _history(cfg: Configuration) -> AdmissionFairSharing | None:
    given = cfg.admission_fair_sharing
    if given is None:
        return None
    return AdmissionFairSharing(
        half_life_s=given.usage_half_life_time.seconds,
        sampling_s=given.usage_sampling_interval.seconds,
        resource_weights=given.resource_weights or {},
    )


def charges_devices(cfg: Configuration | None, gates: Gates) -> bool:
    """Whether devices are charged: dynamic resource allocation is enabled and configured."""
    resources = cfg.resources if cfg is not None else None
    mapped = resources is not None and bool(resources.device_class_mappings)
    return mapped and gates.on(Gate.KueueDRAIntegration)


def accounting(
    cfg: Configuration | None,
    gates: Gates,
    limit_ranges: Iterable[LimitRange] = (),
    runtime_classes: Iterable[RuntimeClass] = (),
    devices: Devices | None = None,
) -> AccountingContext:
    """Return how workloads are accounted, from the configuration and their namespaces."""
    resources = cfg.resources if cfg is not None else None
    ranges: dict[str, list[LimitRange]] = {}
    for each in limit_ranges:
        ranges.setdefault(each.metadata.namespace, []).append(each)
    return AccountingContext(
        gates=gates,
        transformations=by_input((resources.transformations if resources else None) or ()),
        excluded_prefixes=tuple((resources.exclude_resource_prefixes if resources else None) or ()),
        limit_ranges=ranges,
        runtime_classes={each.metadata.name: each for each in runtime_classes},
        devices=devices or Devices(),
    )
