# SPDX-License-Identifier: Apache-2.0
"""Which requested resources are left out of quota, and which count as others instead.

Factors and multipliers are decimals, so products are finer than nano-units. They are kept exact
and rounded up to nano-units once, at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .base import ResourceList, Struct
from .quantity import NANO, parse

RETAIN = "Retain"
REPLACE = "Replace"


class Transformation(Struct):
    """One rule of the configuration: `input` also counts as (or is replaced by) `outputs`."""

    input: str = ""
    strategy: str = ""
    multiply_by: str = ""
    outputs: ResourceList | None = None


def by_input(rules: Iterable[Transformation]) -> dict[str, Transformation]:
    """The rules by the resource they apply to, as `transformed` wants them."""
    return {rule.input: rule for rule in rules}


def transformed(
    requests: Mapping[str, int],
    rules: Mapping[str, Transformation],
    excluded: tuple[str, ...] = (),
) -> dict[str, int]:
    """The requests of one pod as quota sees them, in nano-units.

    Exclusion comes first and is a plain prefix test; outputs are exempt from it. Outputs may
    cancel one another through negative factors, but never reduce what was asked for directly.
    """
    asked = {
        name: nano
        for name, nano in requests.items()
        if not (excluded and name.startswith(excluded))
    }
    if not any(name in rules for name in asked):
        return asked
    kept: dict[str, int] = {}
    generated: dict[str, int] = {}
    for name, nano in asked.items():
        rule = rules.get(name)
        if rule is None or rule.strategy != REPLACE:
            kept[name] = nano
        if rule is not None:
            _generate(generated, nano * asked.get(rule.multiply_by, NANO), rule.outputs)
    for name, fine in generated.items():
        kept[name] = kept.get(name, 0) + -(-max(0, fine) // NANO**2)
    return kept


def _generate(generated: dict[str, int], base: int, outputs: ResourceList | None) -> None:
    """Add base (in 10^-18) x factor to each output (in 10^-27)."""
    for name, factor in (outputs or {}).items():
        generated[name] = generated.get(name, 0) + base * parse(factor)
