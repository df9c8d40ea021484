# SPDX-License-Identifier: Apache-2.0
"""Reads quotas, taints and tolerations as kueuectl writes them on one line."""

from __future__ import annotations

from collections.abc import Sequence

import click

from kuota.api.base import Json
from kuota.api.quantity import QuantityError, parse

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
Amounts = dict[str, dict[str, str]]
"""By flavor, then by resource, both in the order written."""


def groups(nominal: Sequence[str], borrowing: Sequence[str], lending: Sequence[str]) -> list[Json]:
    """The resource groups. Flavors that offer the same resources make one group."""
    own = amounts(nominal, "--nominal-quota")
    limits = {
        "borrowingLimit": amounts(borrowing, "--borrowing-limit"),
        "lendingLimit": amounts(lending, "--lending-limit"),
    }
    for option, given in (
        ("--borrowing-limit", limits["borrowingLimit"]),
        ("--lending-limit", limits["lendingLimit"]),
    ):
        for flavor, resources in given.items():
            for resource in resources:
                if resource not in own.get(flavor, {}):
                    raise click.BadParameter(
                        f"{flavor}:{resource} has no --nominal-quota; give it one, 0 if need be",
                        param_hint=option,
                    )
    made: dict[tuple[str, ...], Json] = {}
    for flavor, resources in own.items():
        covered = tuple(sorted(resources))
        group = made.setdefault(covered, {"coveredResources": list(resources), "flavors": []})
        group["flavors"].append(_flavor(flavor, group["coveredResources"], resources, limits))
    return list(made.values())


def _flavor(
    name: str, order: Sequence[str], own: dict[str, str], limits: dict[str, Amounts]
) -> Json:
    """One flavor, its resources in the order in which its group covers them."""
    resources = []
    for resource in order:
        quota: Json = {"name": resource, "nominalQuota": own[resource]}
        for field, given in limits.items():
            if resource in given.get(name, {}):
                quota[field] = given[name][resource]
        resources.append(quota)
    return {"name": name, "resources": resources}


def amounts(given: Sequence[str], option: str) -> Amounts:
    """`flavor:cpu=4;memory=8Gi,other:cpu=2`, each flavor and resource once."""
    found: Amounts = {}
    for part in [each.strip() for words in given for each in words.split(",") if each.strip()]:
        flavor, colon, rest = part.partition(":")
        if not colon or not flavor:
            raise click.BadParameter(f"'{part}' is not FLAVOR:RESOURCE=AMOUNT", param_hint=option)
        of_flavor = found.setdefault(flavor, {})
        for pair in [each.strip() for each in rest.split(";") if each.strip()]:
            resource, equals, amount = pair.partition("=")
            if not equals or not resource:
                raise click.BadParameter(f"'{pair}' is not RESOURCE=AMOUNT", param_hint=option)
            if resource in of_flavor:
                raise click.BadParameter(f"{flavor}:{resource} is given twice", param_hint=option)
            of_flavor[resource] = _quantity(amount, option)
    return found


def _quantity(amount: str, option: str) -> str:
    try:
        parse(amount)
    except QuantityError as error:
        raise click.BadParameter(str(error), param_hint=option) from None
    return amount


def taint(words: str) -> Json:
    """KEY[=VALUE]:EFFECT"""
    pair, colon, effect = words.rpartition(":")
    if not colon or effect not in _EFFECTS:
        raise click.BadParameter(
            f"'{words}' is not KEY[=VALUE]:EFFECT with one of {', '.join(_EFFECTS)}",
            param_hint="--node-taints",
        )
    key, _, value = pair.partition("=")
    return {"key": key, "effect": effect} | ({"value": value} if value else {})


def toleration(words: str) -> Json:
    """KEY[=VALUE][:EFFECT]; without a value any will do, without an effect all are tolerated."""
    pair, colon, effect = words.rpartition(":") if ":" in words else (words, "", "")
    if colon and effect not in _EFFECTS:
        raise click.BadParameter(
            f"'{effect}' is none of {', '.join(_EFFECTS)}", param_hint="--tolerations"
        )
    key, equals, value = pair.partition("=")
    matched = {"operator": "Equal", "value": value} if equals else {"operator": "Exists"}
    return {"key": key, **matched} | ({"effect": effect} if effect else {})
