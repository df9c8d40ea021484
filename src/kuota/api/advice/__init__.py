# SPDX-License-Identifier: Apache-2.0
"""Warnings about valid objects that can never have the effect their author expects. Pure.

Kueue accepts these objects silently. The embedded server, the webhooks and `kuota check` all call
`advice`, so a user gets the same text from each of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..base import Json
from ..faults import FieldError
from ..rules.report import mapping
from .environment import ANY_CLUSTER, Environment, Names
from .keys import misplaced_queue_name, misspelt_keys
from .kueue_kinds import (
    check_without_controller,
    queue_without_namespaces,
)
from .pods import pods_without_command
from .queueing import queue_name_without_controller, references_without_object
from .topology import levels_without_nodes, required_levels_without_nodes

__all__ = [
    "ANY_CLUSTER",
    "Environment",
    "Names",
    "advice",
]


def advice(obj: Json, environment: Environment = ANY_CLUSTER) -> list[FieldError]:
    """Return all warnings about one object. Objects of kueue.x-k8s.io must be in v1beta2."""
    return list(_all(mapping(obj), environment))


def _all(obj: Json, environment: Environment) -> Iterator[FieldError]:
    yield from misspelt_keys(obj)
    yield from misplaced_queue_name(obj)
    yield from queue_name_without_controller(obj, environment)
    yield from references_without_object(obj, environment)
    yield from queue_without_namespaces(obj)
    yield from check_without_controller(obj, environment)
    yield from pods_without_command(obj, environment)
    yield from levels_without_nodes(obj, environment)
    yield from required_levels_without_nodes(obj, environment)
