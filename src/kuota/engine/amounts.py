# SPDX-License-Identifier: Apache-2.0
"""Amounts of resources, by resource and by flavor-resource, as sparse integer vectors.

Integers are Kueue's decision units: milli-cores for cpu, whole units for the rest. `UNLIMITED`
and the saturating operations come from `kuota.api.quantity`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kuota.api.quantity import add


class FlavorResource(msgspec.Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """One column of the quota table: a resource in one flavor."""

    flavor: str
    resource: str

    def __str__(self) -> str:
        return f"{self.flavor}/{self.resource}"

    @classmethod
    def parse(cls, text: str) -> FlavorResource:
        """Parse `flavor/resource`. The resource itself may contain slashes."""
        flavor, _, resource = text.partition("/")
        return cls(flavor, resource)


Amounts = dict[FlavorResource, int]
"""Amount per column."""

Requests = dict[str, int]
"""Amount per resource, before a flavor is chosen."""


def add_into(total: dict[FlavorResource, int], more: Mapping[FlavorResource, int]) -> None:
    for column, amount in more.items():
        total[column] = add(total.get(column, 0), amount)
