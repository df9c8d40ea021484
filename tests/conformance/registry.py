# SPDX-License-Identifier: Apache-2.0
"""Which adapter feeds which suite. An adapter raises Difference when a run disagrees."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from . import adapters
from .case import Run

Adapter = Callable[[Run], None]
SUITES: dict[str, Adapter] = {}


def suite(*names: str) -> Callable[[Adapter], Adapter]:
    """Register an adapter for suites named `<group>/<file stem>`."""

    def register(adapter: Adapter) -> Adapter:
        for name in names:
            if name in SUITES:
                raise ValueError(f"suite {name} has two adapters")
            SUITES[name] = adapter
        return adapter

    return register


def load_adapters() -> dict[str, Adapter]:
    for module in pkgutil.iter_modules(adapters.__path__):
        importlib.import_module(f"{adapters.__name__}.{module.name}")
    return SUITES
