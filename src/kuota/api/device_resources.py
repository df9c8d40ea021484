# SPDX-License-Identifier: Apache-2.0
"""Which resources are devices, such as GPUs, whose hours are accounted for."""

from __future__ import annotations

_NOT_DEVICES = frozenset({"cpu", "memory", "ephemeral-storage", "storage", "pods"})
_SIZES = ("hugepages-", "attachable-volumes-")


def is_device(resource: str) -> bool:
    """Whether the resource is a device: an extended resource, or a resource of device classes."""
    return resource not in _NOT_DEVICES and not resource.startswith(_SIZES)


def resource_order(resource: str) -> tuple[bool, str]:
    """Sort devices first, and what every node has last."""
    return not is_device(resource), resource
