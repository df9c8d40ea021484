# SPDX-License-Identifier: Apache-2.0
"""Cleans, defaults and validates documents by their structural schema.

The same code serves Kueue's kinds, whose schemas `kuota.api.schema` generates, the kinds of
Kubernetes, and kinds that CustomResourceDefinitions install.
"""

from .checking import value_faults
from .cleaning import Cleaning, filled
from .faults import UnknownField, suggestion
from .node import Compiler, SchemaNode

__all__ = [
    "Cleaning",
    "Compiler",
    "SchemaNode",
    "UnknownField",
    "filled",
    "suggestion",
    "value_faults",
]
