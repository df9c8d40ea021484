# SPDX-License-Identifier: Apache-2.0
"""From the text of a configuration file to a Configuration with every default filled in."""

from __future__ import annotations

from ..base import Json
from ..faults import ErrorType, FieldError, Invalid
from ..gates import Gates, resolved
from ..manifest_yaml import load_all
from ..strict import Text, decoded
from .defaults import NAMESPACE, defaulted
from .duration import Duration
from .rules import faults
from .shapes import KIND, V1BETA2, Configuration
from .v1beta1 import V1BETA1, V1beta1Configuration, upgraded

_TEXTS: dict[type, Text] = {Duration: Duration.parse}


def load(text: str, namespace: str = NAMESPACE) -> Configuration:
    """The configuration a file describes, in the form of v1beta2.

    Raises Invalid with every unknown field, wrong type and malformed duration. Whether Kueue
    could start with it is for `faults` to say. `namespace` is where Kueue itself runs.
    """
    found = load_all(text)
    if len(found) != 1:
        raise Invalid([_fault("", f"holds {len(found)} objects, wanted one {KIND}")])
    value = found[0]
    wrong = _type_faults(value)
    if wrong:
        raise Invalid(wrong)
    if value["apiVersion"] == V1BETA1:
        return upgraded(decoded(value, V1beta1Configuration, _TEXTS), namespace)
    return defaulted(from_json(value), namespace)


def from_json(value: Json) -> Configuration:
    """The v1beta2 configuration as written, nothing filled in; raises Invalid with every fault."""
    return decoded(value, Configuration, _TEXTS)


def checked(
    text: str, feature_gates: str = "", namespace: str = NAMESPACE
) -> tuple[Configuration, Gates]:
    """The configuration and the gates Kueue would start with, the latter from file or flag.

    Raises Invalid with every fault.
    """
    cfg = load(text, namespace)
    try:
        gates, wrong = resolved(feature_gates, cfg.feature_gates), list[FieldError]()
    except Invalid as invalid:
        gates, wrong = Gates(), list(invalid.errors)
    wrong += faults(cfg, gates)
    if wrong:
        raise Invalid(wrong)
    return cfg, gates


def _type_faults(value: Json) -> list[FieldError]:
    wrong = []
    if value.get("apiVersion") not in (V1BETA2, V1BETA1):
        given = value.get("apiVersion")
        wrong.append(_fault("apiVersion", f"{given!r} is not {V1BETA2} or {V1BETA1}"))
    if value.get("kind") != KIND:
        wrong.append(_fault("kind", f"{value.get('kind')!r} is not {KIND}"))
    return wrong


def _fault(path: str, message: str) -> FieldError:
    return FieldError(path=path, type=ErrorType.INVALID, message=message)
