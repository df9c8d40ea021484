# SPDX-License-Identifier: Apache-2.0
"""Finds the AdmissionChecks of MultiKueue that a change of another object concerns."""

from __future__ import annotations

from collections.abc import Callable

from kuota.api.base import Key
from kuota.api.kueue import MultiKueueCluster, MultiKueueConfig
from kuota.control.cached_object import CachedObject
from kuota.control.cluster_cache import ClusterCache

from .activity import active_condition
from .objects import MultiKueueObjects
from .references import config_name, is_multikueue, lists_others


class CheckChanges:
    """Calls `on_check` with the key of each check whose activity may have changed."""

    def __init__(
        self, cache: ClusterCache, objects: MultiKueueObjects, on_check: Callable[[Key], None]
    ) -> None:
        self._cache, self._objects, self._on_check = cache, objects, on_check

    def follow(self) -> None:
        """Report all existing checks, and those that a later change concerns."""
        for each in list(self._cache.checks.values()):
            if each.value is not None and is_multikueue(each.value):
                self._on_check(each.key)
        self._objects.configs.observe(self._config)
        self._objects.clusters.observe(self._cluster)

    def _config(
        self,
        old: CachedObject[MultiKueueConfig] | None,
        new: CachedObject[MultiKueueConfig] | None,
    ) -> None:
        cached = new or old
        assert cached is not None
        if old and new and old.value and new.value and not lists_others(old.value, new.value):
            return
        self._report({cached.key.name})

    def _cluster(
        self,
        old: CachedObject[MultiKueueCluster] | None,
        new: CachedObject[MultiKueueCluster] | None,
    ) -> None:
        cached = new or old
        assert cached is not None
        if old and new and old.value and new.value:
            before, after = active_condition(old.value), active_condition(new.value)
            if before == after:
                return
        configs = self._objects.config_map()
        users = (n for n, each in configs.items() if cached.key.name in (each.spec.clusters or ()))
        self._report(set(users))

    def _report(self, configs: set[str]) -> None:
        for each in list(self._cache.checks.values()):
            if each.value is not None and config_name(each.value) in configs:
                self._on_check(each.key)
