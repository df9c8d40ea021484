# SPDX-License-Identifier: Apache-2.0
"""Compiles and evaluates CEL selectors of devices.

Attributes and capacities are grouped by domain, as in Kubernetes: `device.attributes["d"].model`.
Names without a domain belong to that of the driver. Values are plain CEL values; the functions of
Kubernetes for quantities and versions are not available (`kuota.cel`).
"""

from __future__ import annotations

from kuota.api.base import Json
from kuota.api.config.cel_syntax import cel_complaints
from kuota.api.rules.report import mapping
from kuota.bridge.devices.charges import DeviceFault
from kuota.bridge.devices.claims import Selector
from kuota.cel import DEVICE, CelError, Expression, expression

_BOOLEAN = ("BOOL", "DYN")


def compile_selector(text: str) -> Selector:
    """Return the selector of this expression. Raises DeviceFault if it does not compile."""
    if complaints := cel_complaints(text):
        raise _fault(text, complaints[0])
    try:
        compiled = expression(text, DEVICE)
    except CelError as error:
        raise _fault(text, str(error)) from None
    if compiled.returns not in _BOOLEAN:
        raise _fault(text, f"its result must be a boolean, not {compiled.returns}")
    return lambda driver, device: _selects(compiled, text, driver, device)


def _selects(compiled: Expression, text: str, driver: str, device: Json) -> bool:
    values = {
        "driver": driver,
        "attributes": _by_domain(device.get("attributes"), driver),
        "capacity": _by_domain(device.get("capacity"), driver),
    }
    try:
        result = compiled.evaluate({"device": values})
    except CelError as error:
        raise _fault(text, str(error)) from None
    if not isinstance(result, bool):
        raise _fault(text, f"its result must be a boolean, not {result!r}")
    return result


def _fault(text: str, complaint: str) -> DeviceFault:
    return DeviceFault("", f"the selector {text!r} cannot be evaluated: {complaint}")


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
