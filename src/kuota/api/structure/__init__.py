# SPDX-License-Identifier: Apache-2.0
"""Walks over documents along their structural schema: clean, fill in defaults, check.

The same code serves Kueue's kinds, with the schemas that `kuota.api.schema` makes of their types
and constraint tables, Kubernetes' own kinds, and kinds that CustomResourceDefinitions install.
"""

from .checking import value_faults
from .cleaning import Cleaning, filled
from .faults import Unknown, suggestion
from .node import Compiler, Node

__all__ = ["Cleaning", "Compiler", "Node", "Unknown", "filled", "suggestion", "value_faults"]
