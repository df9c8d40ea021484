# SPDX-License-Identifier: Apache-2.0
"""Price lists: what an hour of each resource costs, and who charges for it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from kuota.api.faults import FieldError, Invalid, invalid

_CURRENCY = re.compile(r"[A-Z]{3}")
_MOST_DIGITS = 20


class Price(msgspec.Struct, frozen=True):
    """The price of one hour of a core, a GiB or a device. No flavor means all flavors."""

    resource: str
    per_hour: Decimal
    flavor: str = ""


class PriceList(msgspec.Struct, frozen=True):
    """The prices, their currency, and the names that appear on each charge."""

    currency: str = "USD"
    provider: str = "Kuota"
    account: str = "kuota"
    account_name: str = ""
    prices: tuple[Price, ...] = ()

    def price(self, resource: str, flavor: str) -> Decimal | None:
        """Return the price of an hour; None if the list has none. A flavor's own price wins."""
        found = {each.flavor: each.per_hour for each in self.prices if each.resource == resource}
        return found.get(flavor, found.get(""))


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    resource: str
    per_hour: int | float | str
    flavor: str = ""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    currency: str
    prices: list[_Entry]
    provider: str = "Kuota"
    account: str = "kuota"
    account_name: str = ""


def parsed(document: Any) -> PriceList:
    """Return the price list of a YAML document. Raises Invalid with all faults."""
    try:
        given = msgspec.convert(document, _File)
    except msgspec.ValidationError as error:
        text, _, where = str(error).partition(" - at `$")
        raise Invalid([invalid(where.strip("`.") or "document", None, text)]) from None
    faults = [*_faults(given)]
    if faults:
        raise Invalid(faults)
    return PriceList(
        currency=given.currency,
        provider=given.provider,
        account=given.account,
        account_name=given.account_name,
        prices=tuple(
            Price(each.resource, _amount(each.per_hour) or Decimal(0), each.flavor)
            for each in given.prices
        ),
    )


def _faults(given: _File) -> Iterator[FieldError]:
    if not _CURRENCY.fullmatch(given.currency):
        yield invalid("currency", given.currency, "must be an ISO 4217 code such as EUR")
    for name, value in (("provider", given.provider), ("account", given.account)):
        if not value.strip():
            yield invalid(name, value, "must not be empty")
    seen = set()
    for at, each in enumerate(given.prices):
        amount = _amount(each.per_hour)
        if amount is None:
            reason = f"must be a number from 0 with at most {_MOST_DIGITS} digits"
            yield invalid(f"prices[{at}].perHour", each.per_hour, reason)
        if not each.resource:
            yield invalid(f"prices[{at}].resource", "", "must name a resource: nvidia.com/gpu")
        if (each.resource, each.flavor) in seen:
            yield invalid(f"prices[{at}]", each.resource, "has the resource and flavor of another")
        seen.add((each.resource, each.flavor))


def _amount(given: float | str) -> Decimal | None:
    """Return a price as an exact decimal; None if it is no price."""
    try:
        # The text of a float is the shortest decimal that was written.
        amount = Decimal(str(given))
    except InvalidOperation:
        return None
    digits = amount.as_tuple()
    exponent = digits.exponent
    if not isinstance(exponent, int) or abs(exponent) + len(digits.digits) > _MOST_DIGITS:
        return None
    return amount if amount >= 0 else None
