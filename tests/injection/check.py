# SPDX-License-Identifier: Apache-2.0
"""An admission check controller that is ready once a ConfigMap says so."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from msgspec.structs import replace

from kuota.api.base import Key
from kuota.bridge.draft import PassResult
from kuota.kube.resources import CONFIG_MAPS

NAME = "example.com/switch"
SWITCH = Key("team", "switch")


def switch_controller(contract: ModuleType, states: ModuleType) -> Any:
    """Return the controller, by the rewritten modules of the contract and of states."""

    class SwitchController(contract.CheckController):  # type: ignore[name-defined,misc]
        """Sets its checks to Ready once the ConfigMap has the key `on`."""

        name = NAME
        watched = (contract.Watched(resource=CONFIG_MAPS),)

        def reconcile(self, workload: Any) -> PassResult:
            switch = workload.objects.get(CONFIG_MAPS, SWITCH) or {}
            if "on" not in (switch.get("data") or {}):
                return PassResult()
            ready = [replace(each, state="Ready") for each in workload.states]
            return PassResult(effects=states.state_effects(workload.stored, ready, workload.now))

    return SwitchController()
