# SPDX-License-Identifier: Apache-2.0
"""What Kueue's webhook holds a Cohort to. Cycles are not refused here: Kueue lets them in."""

from __future__ import annotations

from collections.abc import Iterator

from ..base import Json
from ..faults import FieldError
from .quota import Owner, resource_group_faults, weight_faults
from .report import child


def cohort_faults(obj: Json) -> Iterator[FieldError]:
    spec = child(obj, "spec")
    owner = Owner("parentName", bool(spec.get("parentName")), lends_at_most_nominal=False)
    yield from resource_group_faults(spec, owner)
    yield from weight_faults(spec)
