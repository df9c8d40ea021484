# SPDX-License-Identifier: Apache-2.0
"""Which manager created a copy. Pure."""

from __future__ import annotations

from kuota.api.base import Json
from kuota.api.rules.report import mapping, text

MANAGER = "kuota.dev/multikueue-manager"
"""The annotation of a copy with the identity of the cluster whose manager created it.

Two managers that were given the same origin by mistake do not delete the copies of each other.
"""


def created_by_other(copy: Json, own: str) -> bool:
    """Whether the manager of another cluster created the copy."""
    creator = text(mapping(copy["metadata"].get("annotations")).get(MANAGER))
    return bool(own and creator and creator != own)
