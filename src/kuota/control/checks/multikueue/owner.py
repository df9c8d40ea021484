# SPDX-License-Identifier: Apache-2.0
"""The job of a Workload, as MultiKueue dispatches it."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from kuota.api.base import Json, group_of
from kuota.api.rules.metadata import annotation
from kuota.api.rules.report import child, elements, mapping, text
from kuota.bridge.jobs.ancestor import GroupKind
from kuota.bridge.jobs.dispatch import OWNER_GVK, OWNER_NAME


class JobOwner(NamedTuple):
    """The kind and the name of the job of a Workload. `described` is for messages."""

    kind: GroupKind
    name: str
    described: str


def owner_of(workload: Json, known: Collection[GroupKind]) -> JobOwner | None:
    """Return the job of a Workload: the one that it names, its controller, or its first owner.

    A job that it names must be of a `known` kind, otherwise the owner counts.
    """
    gvk, name = annotation(workload, OWNER_GVK), annotation(workload, OWNER_NAME)
    if gvk and name:
        version, _, kind = gvk.partition(", Kind=")
        named = _owner(version.removeprefix("/"), kind, name)
        if named.kind in known:
            return named
    listed = elements(child(workload, "metadata").get("ownerReferences"))
    owners = [mapping(each) for each in listed]
    controllers = [each for each in owners if each.get("controller") is True]
    for each in controllers or owners:
        return _owner(text(each.get("apiVersion")), text(each.get("kind")), text(each.get("name")))
    return None


def _owner(api_version: str, kind: str, name: str) -> JobOwner:
    group = group_of(api_version)
    return JobOwner((group, kind), name, f"{kind}.{group}" if group else kind)
