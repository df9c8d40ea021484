# SPDX-License-Identifier: Apache-2.0
"""Parts of several responses: amounts and references."""

from __future__ import annotations

from typing import dataclass_transform

import msgspec


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all responses."""


class Amount(Shape):
    """An amount of a resource: as text ("512Gi"), and as a number in base units for charts."""

    text: str
    value: float


class Ref(Shape):
    """A reference to an object. The namespace is "" for cluster-scoped kinds."""

    kind: str
    name: str
    namespace: str = ""
