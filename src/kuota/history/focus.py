# SPDX-License-Identifier: Apache-2.0
"""Charges as rows of a FOCUS 1.2 dataset (FinOps Open Cost and Usage Specification). Pure.

Kuota measures usage and bills nothing: without a price list all costs are 0, and the columns that
require published prices are absent. A null is an empty text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal

from kuota.api.quantity import is_size
from kuota.kube.clock import time_text

from .charges import Charge
from .prices import PriceList

_PRICED = frozenset(
    {"ContractedUnitPrice", "ListUnitPrice", "SkuPriceDetails", "SkuPriceId"},
)
"""Columns that exist only if prices are published."""
_COLUMNS = (
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "ServiceSubcategory",
    "SkuId",
    "SkuMeter",
    "SkuPriceDetails",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
    "Tags",
    "x_ClusterQueue",
    "x_Flavor",
    "x_LocalQueue",
    "x_Resource",
    "x_ResourceSeconds",
    "x_User",
)
_GIB = 2**30
_EXACT = Context(prec=60)
_QUANTUM = Decimal("1e-12")
"""The resolution of quantities. `x_ResourceSeconds` is exact."""

Row = dict[str, str]


def columns(prices: PriceList | None) -> tuple[str, ...]:
    """Return the names of the columns: those of FOCUS first, in alphabetical order."""
    return tuple(each for each in _COLUMNS if prices is not None or each not in _PRICED)


def rows(charges: Iterable[Charge], prices: PriceList | None) -> Iterator[Row]:
    """Yield one row per charge."""
    listed = prices or PriceList()
    names = columns(prices)
    for each in charges:
        row = _named(each, listed) | _measured(each, listed)
        yield {name: row[name] for name in names}


def unit(resource: str) -> str:
    """Return the unit of measure, in FOCUS' format."""
    if is_size(resource):
        return "GiB-Hours"
    known = {"cpu": "Core-Hours", "pods": "Pod-Hours", "gpu": "GPU-Hours"}
    return known.get(resource.rpartition("/")[2], "Device-Hours")


def quantity(charge: Charge) -> Decimal:
    """Return the hours of a charge in its unit, rounded to the resolution."""
    seconds = Decimal(charge.resource_seconds)
    divisor = Decimal(3600 * (_GIB if is_size(charge.resource) else 1))
    return _EXACT.divide(seconds, divisor).quantize(_QUANTUM, ROUND_HALF_EVEN, _EXACT)


def _named(charge: Charge, listed: PriceList) -> Row:
    what = f"{charge.resource} of flavor {charge.flavor}" if charge.flavor else charge.resource
    return {
        "BillingAccountId": listed.account,
        "BillingAccountName": listed.account_name,
        "BillingCurrency": listed.currency,
        "ChargeCategory": "Usage",
        "ChargeClass": "",
        "ChargeDescription": f"{what} held by {charge.kind} {charge.namespace}/{charge.job}",
        "ChargeFrequency": "Usage-Based",
        "InvoiceIssuerName": listed.provider,
        "PricingCategory": "Standard",
        "ProviderName": listed.provider,
        "PublisherName": listed.provider,
        "ResourceId": f"{charge.namespace}/{charge.kind}/{charge.job_uid}",
        "ResourceName": charge.job,
        "ResourceType": charge.kind,
        "ServiceCategory": "Compute",
        "ServiceName": "Kuota",
        "ServiceSubcategory": "Other (Compute)",
        "SubAccountId": charge.namespace,
        "SubAccountName": charge.namespace,
        "Tags": json.dumps(charge.labels, ensure_ascii=False) if charge.labels else "",
        "x_ClusterQueue": charge.cluster_queue,
        "x_Flavor": charge.flavor,
        "x_LocalQueue": charge.queue,
        "x_Resource": charge.resource,
        "x_User": charge.user,
    }


def _measured(charge: Charge, listed: PriceList) -> Row:
    consumed = quantity(charge)
    price = listed.price(charge.resource, charge.flavor) or Decimal(0)
    cost = _decimal(_EXACT.multiply(consumed, price))
    start, end = (_moment(each) for each in (charge.start_ms, charge.end_ms))
    month, next_month = _month(start)
    sku = f"{charge.resource}/{charge.flavor}" if charge.flavor else charge.resource
    costs = ("BilledCost", "ContractedCost", "EffectiveCost", "ListCost")
    return dict.fromkeys(costs, cost) | {
        "BillingPeriodEnd": time_text(next_month),
        "BillingPeriodStart": time_text(month),
        "ChargePeriodEnd": time_text(end),
        "ChargePeriodStart": time_text(start),
        "ConsumedQuantity": _decimal(consumed),
        "ConsumedUnit": unit(charge.resource),
        "ContractedUnitPrice": _decimal(price),
        "ListUnitPrice": _decimal(price),
        "PricingQuantity": _decimal(consumed),
        "PricingUnit": unit(charge.resource),
        "SkuId": sku,
        "SkuMeter": charge.resource,
        "SkuPriceDetails": "",
        "SkuPriceId": sku,
        "x_ResourceSeconds": charge.resource_seconds,
    }


def _decimal(value: Decimal) -> str:
    """Format without an exponent, and with at least one decimal place.

    Tools infer the type of a column from its values, and a column of whole numbers is no decimal.
    """
    whole, _, fraction = f"{value:f}".partition(".")
    return f"{whole}.{fraction.rstrip('0') or '0'}"


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _month(moment: datetime) -> tuple[datetime, datetime]:
    """Return the start of the month, and of the next one."""
    start = moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = start.month % 12 + 1
    return start, start.replace(year=start.year + (following == 1), month=following)
