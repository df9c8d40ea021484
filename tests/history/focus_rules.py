# SPDX-License-Identifier: Apache-2.0
"""The rules of FOCUS 1.2 that apply to usage without commitments, as a table, and their check."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

STRING, DECIMAL, MOMENT, CURRENCY, PAIRS = "String", "Decimal", "Date/Time", "Currency", "JSON"
_FORMS = {
    # Integers and scientific notation are allowed, but tools may not recognize them as decimals.
    DECIMAL: re.compile(r"-?[0-9]+\.[0-9]+"),
    MOMENT: re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
    CURRENCY: re.compile(r"[A-Z]{3}"),
    STRING: re.compile(r".*\S.*"),
}
MANDATORY: dict[str, tuple[str, bool]] = {
    "BilledCost": (DECIMAL, False),
    "BillingAccountId": (STRING, False),
    "BillingAccountName": (STRING, True),
    "BillingCurrency": (CURRENCY, False),
    "BillingPeriodEnd": (MOMENT, False),
    "BillingPeriodStart": (MOMENT, False),
    "ChargeCategory": (STRING, False),
    "ChargeClass": (STRING, True),
    "ChargeDescription": (STRING, True),
    "ChargePeriodEnd": (MOMENT, False),
    "ChargePeriodStart": (MOMENT, False),
    "ContractedCost": (DECIMAL, False),
    "EffectiveCost": (DECIMAL, False),
    "InvoiceIssuerName": (STRING, False),
    "ListCost": (DECIMAL, False),
    "PricingQuantity": (DECIMAL, False),
    "PricingUnit": (STRING, False),
    "ProviderName": (STRING, False),
    "PublisherName": (STRING, False),
    "ServiceCategory": (STRING, False),
    "ServiceName": (STRING, False),
}
"""Type, and whether a row of usage may have no value."""
OPTIONAL: dict[str, tuple[str, bool]] = {
    "ChargeFrequency": (STRING, False),
    "ConsumedQuantity": (DECIMAL, False),
    "ConsumedUnit": (STRING, False),
    "ContractedUnitPrice": (DECIMAL, False),
    "ListUnitPrice": (DECIMAL, False),
    "PricingCategory": (STRING, False),
    "ResourceId": (STRING, False),
    "ResourceName": (STRING, True),
    "ResourceType": (STRING, False),
    "ServiceSubcategory": (STRING, False),
    "SkuId": (STRING, False),
    "SkuMeter": (STRING, True),
    "SkuPriceDetails": (PAIRS, True),
    "SkuPriceId": (STRING, False),
    "SubAccountId": (STRING, False),
    "SubAccountName": (STRING, False),
    "Tags": (PAIRS, True),
}
"""Conditional and recommended columns that Kuota has."""
ALLOWED = {
    "ChargeCategory": {"Usage", "Purchase", "Tax", "Credit", "Adjustment"},
    "ChargeClass": {"Correction"},
    "ChargeFrequency": {"One-Time", "Recurring", "Usage-Based"},
    "PricingCategory": {"Standard", "Dynamic", "Committed", "Other"},
    "ServiceCategory": {"AI and Machine Learning", "Compute", "Other"},
    "ServiceSubcategory": {"Containers", "Serverless Compute", "Virtual Machines"}
    | {"Other (Compute)"},
}
"""Allowed values; of the service columns only those that can describe Kuota."""
UNIT = re.compile(r"(GiB|Core|GPU|Pod|Device)-Hours")
PRODUCTS = {"ListCost": "ListUnitPrice", "ContractedCost": "ContractedUnitPrice"}


def faults(columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return every violation."""
    known = MANDATORY | OPTIONAL
    found = [f"{name} is missing" for name in MANDATORY if name not in columns]
    own = [each for each in columns if not each.startswith("x_")]
    found += [f"{name} is unknown" for name in own if name not in known]
    if list(columns[: len(own)]) != own:
        found.append("custom columns are not last")
    for row in rows:
        found += _row_faults(row, {name: known[name] for name in own if name in known})
    return found


def _row_faults(row: Mapping[str, str], known: Mapping[str, tuple[str, bool]]) -> Iterator[str]:
    for name, (type_, nullable) in known.items():
        value = row[name]
        if not value:
            if not nullable:
                yield f"{name} is null"
            continue
        if type_ == PAIRS:
            pairs = json.loads(value)
            if not all(isinstance(each, str) for each in pairs.values()):
                yield f"{name} has nested values"
        elif not _FORMS[type_].fullmatch(value):
            yield f"{name}={value!r} is no {type_}"
        if value not in ALLOWED.get(name, {value}):
            yield f"{name}={value!r} is not allowed"
    yield from _relations(row)


def _relations(row: Mapping[str, str]) -> Iterator[str]:
    """Yield violations of rules about several columns."""
    for start, end in (("ChargePeriodStart", "ChargePeriodEnd"),):
        if not row["BillingPeriodStart"] <= row[start] < row[end] <= row["BillingPeriodEnd"]:
            yield f"{start} {row[start]} to {row[end]} is not within the billing period"
    for unit in ("ConsumedUnit", "PricingUnit"):
        if not UNIT.fullmatch(row[unit]):
            yield f"{unit} {row[unit]!r} has no FOCUS format"
    for cost, price in PRODUCTS.items():
        if price in row and Decimal(row[price]) * Decimal(row["PricingQuantity"]) != Decimal(
            row[cost]
        ):
            yield f"{cost} is not the product of {price} and PricingQuantity"
