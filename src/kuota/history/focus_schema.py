# SPDX-License-Identifier: Apache-2.0
"""The metadata of a FOCUS 1.2 dataset: who generated it, and the type of each column. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import NAMESPACE_URL, uuid5

from kuota.api.base import Json

FOCUS_VERSION = "1.2"
CREATED = "2026-11-16T00:00:00Z"
"""When a schema was changed last. Whoever changes columns sets it, and so gives them a new ID."""
_GENERATOR = "Kuota"
_QUANTITY, _PRICE = 12, 20
_SCALES = {
    **dict.fromkeys(("ConsumedQuantity", "PricingQuantity", "x_ResourceSeconds"), _QUANTITY),
    **dict.fromkeys(("ContractedUnitPrice", "ListUnitPrice"), _PRICE),
    **dict.fromkeys(
        ("BilledCost", "ContractedCost", "EffectiveCost", "ListCost"), _QUANTITY + _PRICE
    ),
}
"""The most decimal places of numbers. Costs are exact products of quantities and prices."""
_MOMENTS = frozenset(
    {"BillingPeriodEnd", "BillingPeriodStart", "ChargePeriodEnd", "ChargePeriodStart"}
)
_PAIRS: dict[str, Json] = {"SkuPriceDetails": {}, "Tags": {"ProviderTagPrefixes": []}}
"""JSON columns. No tag is Kuota's own: all of them are labels of users."""


def metadata(columns: Sequence[str]) -> Json:
    """Return the metadata of a dataset with these columns. Equal columns have the same SchemaId."""
    identity = f"https://kuota.dev/focus/{FOCUS_VERSION}/{CREATED}/{','.join(columns)}"
    return {
        "DataGenerator": _GENERATOR,
        "SchemaId": str(uuid5(NAMESPACE_URL, identity)),
        "FocusVersion": FOCUS_VERSION,
        "CreationDate": CREATED,
        "ColumnDefinition": [{"ColumnName": each} | _definition(each) for each in columns],
    }


def _definition(column: str) -> Json:
    if column in _SCALES:
        return {"DataType": "DECIMAL", "NumberScale": _SCALES[column]}
    if column in _MOMENTS:
        return {"DataType": "DATETIME"}
    if column in _PAIRS:
        return {"DataType": "JSON", **_PAIRS[column]}
    return {"DataType": "STRING", "StringEncoding": "UTF-8"}
