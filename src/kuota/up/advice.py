# SPDX-License-Identifier: Apache-2.0
"""Warns users of this machine about objects that can never have an effect (`kuota.api.advice`)."""

from __future__ import annotations

from collections.abc import Sequence

from kuota.api.advice import Environment, advice
from kuota.api.rules.report import child, objects, string_map, text
from kuota.bridge.lifecycle_view import LifecycleConfig
from kuota.control.checks.registry import controller_names
from kuota.kube.resources import LOCAL_QUEUES, NODES, TOPOLOGIES, WORKLOAD_PRIORITY_CLASSES
from kuota.server.admission import Adviser, Review
from kuota.server.misspelt_fields import misspelt_fields
from kuota.server.store import Store, key_of

from .local import SYSTEM


def adviser(store: Store, config: LifecycleConfig) -> Adviser:
    """Return an adviser that warns users, but not the controllers of this process."""
    environment = Environment(
        queued=config.queued(),
        pulls_images=False,
        node_labels=lambda: _node_labels(store),
        topology_levels=lambda: _topology_levels(store),
        local_queues=lambda namespace: _names(store, LOCAL_QUEUES.name, namespace),
        priority_classes=lambda: _names(store, WORKLOAD_PRIORITY_CLASSES.name),
        check_controllers=controller_names(),
    )

    def advise(review: Review) -> Sequence[str]:
        if review.subresource or review.user.name == SYSTEM.name:
            return ()
        found = (*advice(review.object, environment), *misspelt_fields(review.object))
        return [str(each) for each in found]

    return advise


def _names(store: Store, resource: str, namespace: str | None = None) -> frozenset[str]:
    return frozenset(key_of(each).name for each in store.list(resource, namespace).items)


def _node_labels(store: Store) -> frozenset[str]:
    nodes = store.list(NODES.name).items
    return frozenset(
        key for each in nodes for key in string_map(child(each, "metadata").get("labels"))
    )


def _topology_levels(store: Store) -> frozenset[str]:
    return frozenset(
        text(level.get("nodeLabel"))
        for each in store.list(TOPOLOGIES.name).items
        for _, level in objects(child(each, "spec").get("levels"), "")
    )
