# SPDX-License-Identifier: Apache-2.0
"""The admission check controllers that other packages provide, by name."""

from __future__ import annotations

from collections.abc import Iterator

from kuota.api.kueue import MULTIKUEUE, PROVISIONING

from .controller import CheckController


class CheckControllerRegistry:
    """Controllers, each with a name of its own."""

    def __init__(self) -> None:
        self._by_name: dict[str, CheckController] = {}

    def __iter__(self) -> Iterator[CheckController]:
        return iter(self._by_name.values())

    def add(self, controller: CheckController) -> None:
        """Add a controller. Adding one of the same class again changes nothing.

        Raises ValueError if its name is missing or belongs to another controller.
        """
        name = getattr(controller, "name", "")
        if not isinstance(name, str) or not name:
            raise ValueError("has no name; set `name` to the controllerName of its checks")
        known = self._by_name.get(name)
        if known is not None and type(known) is not type(controller):
            raise ValueError(f"the name {name} belongs to {type(known).__qualname__} already")
        self._by_name[name] = controller


PLUGINS = CheckControllerRegistry()
"""The controllers of installed packages. `kuota.plugins` fills it at start-up."""


def controller_names() -> frozenset[str]:
    """Return the names of Kueue's controllers and of those in `PLUGINS`."""
    return frozenset({MULTIKUEUE, PROVISIONING, *(each.name for each in PLUGINS)})
