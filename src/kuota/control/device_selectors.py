# SPDX-License-Identifier: Apache-2.0
"""Evaluates CEL selectors of devices.

Attributes and capacities are grouped by domain, as in Kubernetes: `device.attributes["d"].model`.
Names without a domain belong to that of the driver. Values are plain CEL values; the functions of
Kubernetes for quantities and versions are not available (`kuota.cel`).
"""

from __future__ import annotations

from kuota.api.base import Json
from kuota.api.rules.report import mapping
from kuota.bridge.devices.charges import DeviceFault
from kuota.cel import DEVICE, CelError, expression


def selects(text: str, driver: str, device: Json) -> bool:
    """Whether a device matches a selector. Raises DeviceFault if it cannot be evaluated."""
    values = {
        "driver": driver,
        "attributes": _by_domain(device.get("attributes"), driver),
        "capacity": _by_domain(device.get("capacity"), driver),
    }
    try:
        return expression(text, DEVICE).evaluate({"device": values}) is True
    except CelError as error:
        raise DeviceFault("", f"the selector {text!r} cannot be evaluated: {error}") from None


def _by_domain(named: object, driver: str) -> Json:
    found: Json = {}
    for name, value in mapping(named).items():
        domain, slash, own = str(name).rpartition("/")
        found.setdefault(domain if slash else driver, {})[own] = _plain(value)
    return found


def _plain(value: object) -> object:
    """Return the value of an attribute or a capacity, which is an object with one field."""
    fields = list(mapping(value).values())
    return fields[0] if len(fields) == 1 else mapping(value).get("value")
