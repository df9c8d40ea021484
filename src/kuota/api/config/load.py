# SPDX-License-Identifier: Apache-2.0
"""Loads a configuration file and returns a Configuration with all defaults.

Decoding is strict. As in Kubernetes, null is the same as absent, an integer may be written 5.0, and
an unknown field is a fault. All faults are collected, whereas msgspec alone stops at the first one.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from ..base import Json
from ..faults import FieldError, Invalid, invalid
from ..gates import Gates, resolved
from ..manifest_yaml import load_all
from ..schema.walk import schema_of
from ..structure import Cleaning, Compiler, SchemaNode, value_faults
from .defaults import NAMESPACE, defaulted
from .duration import Duration
from .rules import faults
from .shapes import CONFIG_KEY, KIND, V1BETA2, Configuration
from .v1beta1 import V1BETA1, V1beta1Configuration, upgraded

T = TypeVar("T")
_EXTRACTION = (
    "extract it: kubectl -n kueue-system get configmap kueue-manager-config "
    r"-o jsonpath='{.data.controller_manager_config\.yaml}' > config.yaml"
)


def load(text: str, namespace: str = NAMESPACE) -> Configuration:
    """Return the configuration that a file describes, converted to v1beta2.

    Raises Invalid with every unknown field, wrong type and malformed duration. Call `faults` to
    check whether Kueue can start with the configuration. `namespace` is the namespace that Kueue
    runs in.
    """
    found = load_all(text)
    if len(found) != 1:
        raise Invalid([invalid("", None, f"contains {len(found)} objects instead of one {KIND}")])
    value = found[0]
    if wrong := _type_faults(value):
        raise Invalid(wrong)
    if value["apiVersion"] == V1BETA1:
        return upgraded(_decoded(value, V1beta1Configuration), namespace)
    return defaulted(from_json(value), namespace)


def from_json(value: Json) -> Configuration:
    """Decode a v1beta2 configuration without defaults. Raises Invalid with every fault."""
    return _decoded(value, Configuration)


def checked(
    text: str, feature_gates: str = "", namespace: str = NAMESPACE
) -> tuple[Configuration, Gates]:
    """Return the configuration and the feature gates that Kueue would start with.

    The gates come from the file or from the flag. Raises Invalid with every fault.
    """
    cfg = load(text, namespace)
    try:
        gates, wrong = resolved(feature_gates, cfg.feature_gates), list[FieldError]()
    except Invalid as rejected:
        gates, wrong = Gates(), list(rejected.errors)
    wrong += faults(cfg, gates)
    if wrong:
        raise Invalid(wrong)
    return cfg, gates


def _type_faults(value: Json) -> list[FieldError]:
    contained = value.get("data") if value.get("kind") == "ConfigMap" else None
    if isinstance(contained, dict) and CONFIG_KEY in contained:
        message = f'this is a ConfigMap; the {KIND} is in its data."{CONFIG_KEY}"'
        return [invalid("", None, message, _EXTRACTION)]
    wrong = []
    for field, known in (("apiVersion", (V1BETA2, V1BETA1)), ("kind", (KIND,))):
        given = value.get(field)
        if given not in known:
            wrong.append(invalid(field, None, f"{given!r} is not {' or '.join(known)}"))
    return wrong


def _decoded(value: Json, shape: type[T]) -> T:
    """Decode the value as `shape`. Raises Invalid with every fault."""
    known = _compiled(cast(Any, shape))
    cleaning = Cleaning()
    clean = cleaning.clean(value, known)
    errors = [each.fault("it has no effect") for each in cleaning.unknown]
    errors += value_faults(clean, known)
    if errors:
        raise Invalid(errors)
    return msgspec.convert(clean, shape, dec_hook=lambda _, text: Duration.parse(text))


@cache
def _compiled(shape: type) -> SchemaNode:
    return Compiler(formats={"duration": Duration.parse}).node(schema_of(shape))
