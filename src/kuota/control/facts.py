# SPDX-License-Identifier: Apache-2.0
"""Feeds the engine: every change that an informer sees becomes a fact.

An object that cannot be decoded counts as deleted for the engine, and gets an event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from kuota.api.config.shapes import Configuration
from kuota.api.gates import Gates
from kuota.bridge import inbound
from kuota.bridge.devices.claims import needs_devices
from kuota.bridge.devices.mappings import class_mappings
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.inbound_workload import AccountingContext
from kuota.bridge.inbound_workload import workload as inbound_workload
from kuota.bridge.settings import accounting
from kuota.engine import model
from kuota.engine.facts import EngineObject, Fact, ObjectDeleted, ObjectStored
from kuota.failures import report
from kuota.kube.events import Recorder

from .cached_object import CachedObject
from .cluster_cache import ClusterCache

ApplyFact = Callable[[Fact], None]

UNREADABLE = "Unreadable"


class FactSource:
    """Connects a ClusterCache to an engine. `apply` receives the facts in order.

    As in Kueue, a deactivated Workload is not charged, even while its pods are being ended. With
    `charges_inactive`, it is charged until its quota reservation is cleared.
    """

    def __init__(
        self,
        cache: ClusterCache,
        apply: ApplyFact,
        recorder: Recorder,
        config: Configuration | None,
        gates: Gates,
        *,
        charges_inactive: bool = False,
    ) -> None:
        self._cache = cache
        self._apply = apply
        self._recorder = recorder
        self._config = config
        self._gates = gates
        self._charges_inactive = charges_inactive
        mappings = config.resources.device_class_mappings if config and config.resources else None
        self._mappings = class_mappings(mappings or ())
        self.accounting: AccountingContext = accounting(config, gates)

    def follow(self) -> None:
        """Start to report all existing objects and every later change."""
        cache = self._cache
        cache.limit_ranges.observe(lambda old, new: self._account_again(old, new))
        cache.runtime_classes.observe(lambda old, new: self._account_again(None, None))
        if cache.devices is not None:
            cache.devices.observe(self._devices_changed)
        self._follow(cache.namespaces, model.Namespace, inbound.namespace)
        self._follow(cache.topologies, model.Topology, inbound.topology)
        self._follow(cache.flavors, model.ResourceFlavor, inbound.flavor)
        self._follow(cache.checks, model.AdmissionCheck, inbound.admission_check)
        self._follow(cache.cohorts, model.Cohort, inbound.cohort)
        self._follow(cache.cluster_queues, model.ClusterQueue, inbound.cluster_queue)
        self._follow(cache.local_queues, model.LocalQueue, inbound.local_queue)
        self._follow(cache.workloads, model.Workload, self._workload)

    def workload(self, stored: StoredWorkload) -> model.Workload:
        """Convert a Workload to the engine's model. Raises if its quantities are invalid."""
        found = inbound_workload(stored.obj, self.accounting)
        if self._charges_inactive and found.reservation is not None and not found.active:
            return replace(found, active=True)
        return found

    def _workload(self, stored: StoredWorkload) -> EngineObject:
        return self.workload(stored)

    def _follow(
        self, informer: Any, kind: type[EngineObject], read: Callable[[Any], EngineObject]
    ) -> None:
        informer.observe(lambda old, new: self._changed(kind, read, old, new))

    def _changed(
        self,
        kind: type[EngineObject],
        read: Callable[[Any], EngineObject],
        old: CachedObject[Any] | None,
        new: CachedObject[Any] | None,
    ) -> None:
        if new is None:
            if old is not None:
                self._apply(ObjectDeleted(kind=kind, key=old.key))
            return
        known, fault = _read(read, new)
        if isinstance(known, model.ClusterQueue):
            fault = "; ".join(known.faults)
        if fault:
            self._recorder.record(new.json, UNREADABLE, f"Ignored: {fault}", warning=True)
        fact = (
            inbound.unreadable(kind, new.json, fault)
            if known is None
            else ObjectStored(value=known)
        )
        self._apply(fact)

    def _account_again(self, old: CachedObject[Any] | None, new: CachedObject[Any] | None) -> None:
        """Account for pending Workloads again, because a LimitRange or RuntimeClass changed."""
        cache = self._cache
        self._refresh()
        changed = new or old
        for cached in cache.waiting_in(changed.key.namespace if changed is not None else ""):
            self._changed(model.Workload, self._workload, cached, cached)

    def _refresh(self) -> None:
        cache = self._cache
        self.accounting = accounting(
            self._config,
            self._gates,
            [each.value for each in cache.limit_ranges.values() if each.value],
            [each.value for each in cache.runtime_classes.values() if each.value],
            cache.devices.offered(self._mappings) if cache.devices is not None else None,
        )

    def _devices_changed(self, namespace: str) -> None:
        """Account for pending Workloads that request devices again; "" means in all namespaces."""
        self._refresh()
        extended = self.accounting.devices.extended
        for cached in self._cache.waiting_in(namespace):
            stored = cached.value
            if stored is not None and needs_devices(stored.obj, extended, self._gates):
                self._changed(model.Workload, self._workload, cached, cached)


def _read(
    read: Callable[[Any], EngineObject], cached: CachedObject[Any]
) -> tuple[EngineObject | None, str]:
    """Convert an object to the engine's model. Returns None and the reason if that fails."""
    if cached.value is None:
        return None, cached.fault
    try:
        return read(cached.value), ""
    except (ValueError, TypeError, LookupError) as error:
        return None, str(error)
    except Exception as error:
        # Only this object is affected: the engine has not received it yet.
        report("translation", error, f"{cached.key} cannot be translated")
        return None, repr(error)
