# SPDX-License-Identifier: Apache-2.0
"""The FOCUS export conforms to the specification, and adds up to what `kuota usage` reports."""

from __future__ import annotations

import random
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256

import msgspec
import pytest

from history.focus_rules import MANDATORY, OPTIONAL, faults
from kuota.api.faults import Invalid
from kuota.history.accounts import By, Period, usage
from kuota.history.charges import Charge, ChargePeriod, TooManyCharges, charges
from kuota.history.focus import columns, rows
from kuota.history.focus_schema import CREATED, metadata
from kuota.history.prices import PriceList, parsed
from kuota.history.records import JobRecord, Run

GPU = "nvidia.com/gpu"
MONTH = Period(1_767_225_600.0, 1_769_904_000.0)  # January 2026
LISTED = {
    "currency": "EUR",
    "account": "lab",
    "prices": [
        {"resource": GPU, "perHour": 2.1},
        {"resource": GPU, "flavor": "h100", "perHour": "3.333"},
        {"resource": "memory", "perHour": 0.005},
    ],
}


def test_the_metadata_defines_the_columns_with_the_types_of_the_rules() -> None:
    types = {"String": "STRING", "Currency": "STRING", "Decimal": "DECIMAL"}
    types |= {"Date/Time": "DATETIME", "JSON": "JSON"}
    listed, unlisted = (metadata(columns(each)) for each in (PriceList(), None))
    for each in listed["ColumnDefinition"]:
        name = each["ColumnName"]
        if not name.startswith("x_"):
            assert types[(MANDATORY | OPTIONAL)[name][0]] == each["DataType"], name
    assert listed["SchemaId"] != unlisted["SchemaId"]
    # If this fails because columns or types were changed, change CREATED and both lines.
    digest = sha256(msgspec.json.encode([listed, unlisted])).hexdigest()
    assert ("2026-11-16T00:00:00Z", "3fad3a6a46e94be3") == (CREATED, digest[:16])


def record(chance: random.Random, number: int) -> JobRecord:
    """Return a job with runs at random times around the month, some of them still running."""
    moment = MONTH.since + chance.uniform(-5, 28) * 86_400
    runs = []
    for _ in range(chance.randint(1, 4)):
        amounts = {
            chance.choice(["a100", "h100"]): {GPU: chance.randint(1, 8)},
            "cpus": {"cpu": chance.randint(1, 9) * 250, "memory": chance.randint(1, 10**12)},
        }
        started, moment = moment, moment + chance.choice([0.0, 17.0, 3600.0, 200_000.123])
        runs.append(Run(started, started, "cq", amounts, moment, "Preempted"))
        moment += chance.choice([0.0, 5.0, 10_000.0])
    if chance.random() < 0.3:
        runs[-1] = msgspec.structs.replace(runs[-1], ended=None, ending="")
    team, finished = f"team-{number % 3}", runs[-1].ended
    labels = {"cost-centre": "4711", "name": 'a "quoted", one'}
    return JobRecord(
        f"u{number}", team, "w", "Job", f"j{number}", "lq", "=ann", runs[0].started - 60,
        tuple(runs), finished, labels=labels, job_uid=f"job{number // 6 * 3 + number % 3}",
    )  # fmt: skip


def records(seed: int) -> list[JobRecord]:
    chance = random.Random(seed)
    return [record(chance, each) for each in range(40)]


def seconds(found: list[Charge]) -> dict[tuple[str, str], Fraction]:
    sums: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for each in found:
        sums[each.namespace, each.resource] += Fraction(each.resource_seconds)
    return dict(sums)


@pytest.mark.parametrize("every", ChargePeriod)
@pytest.mark.parametrize("listed", [None, LISTED])
def test_the_export_conforms_to_focus(every: ChargePeriod, listed: object) -> None:
    prices = None if listed is None else parsed(listed)
    found = charges(records(1), MONTH, every)
    assert len(found) > 100
    made = list(rows(found, prices))
    assert [] == faults(columns(prices), made)
    assert {tuple(each) for each in made} == {columns(prices)}


def test_the_validator_notices_violations() -> None:
    prices = parsed(LISTED)
    (row, *_) = rows(charges(records(1), MONTH, ChargePeriod.DAY), prices)
    wrong = {
        "BilledCost": "",
        "ListCost": "1.5",
        "ChargePeriodEnd": "2026-01-01",
        "BillingCurrency": "Euro",
        "ChargeCategory": "Use",
        "ConsumedUnit": "gpu hours",
        "Tags": '{"a": {}}',
    }
    for name, value in wrong.items():
        assert faults(columns(prices), [row | {name: value}]), name
    assert faults([each for each in columns(prices) if each != "ListCost"], [])
    assert faults(["x_Own", *columns(prices)], [])


@pytest.mark.parametrize("every", ChargePeriod)
@pytest.mark.parametrize("seed", range(5))
def test_charges_add_up_to_the_usage_exactly(every: ChargePeriod, seed: int) -> None:
    jobs = records(seed)
    found = charges(jobs, MONTH, every)
    accounts = {
        (each.group, name): part.hours
        for each in usage(jobs, By.TEAM, MONTH)
        for name, part in each.resources.items()
    }
    sums = {key: float(value / 3600) for key, value in seconds(found).items()}
    assert {key: value for key, value in accounts.items() if value} == sums
    # Quantities are rounded to twelve digits; memory is measured in GiB.
    hours: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for row in rows(found, None):
        unit = 2**30 if row["x_Resource"] == "memory" else 1
        hours[row["SubAccountId"], row["x_Resource"]] += Decimal(row["ConsumedQuantity"]) * unit
    for key, value in hours.items():
        assert sums[key] == pytest.approx(float(value), rel=1e-9)


@pytest.mark.parametrize("every", ChargePeriod)
def test_adjacent_exports_count_nothing_twice_and_leave_nothing_out(every: ChargePeriod) -> None:
    jobs = records(7)
    middle = MONTH.since + 13 * 86_400 + 5_000.25
    parts = Period(MONTH.since, middle), Period(middle, MONTH.until)
    found = [each for part in parts for each in charges(jobs, part, every)]
    assert seconds(charges(jobs, MONTH, every)) == seconds(found)
    lines = [
        (e.job_uid, e.cluster_queue, e.flavor, e.resource, e.start_ms, e.end_ms) for e in found
    ]
    assert len(set(lines)) == len(lines)
    ends: dict[tuple[str, ...], int] = {}
    for *line, start, end in sorted(lines):
        assert start >= ends.get(tuple(map(str, line)), 0)
        ends[tuple(map(str, line))] = end


def test_the_price_of_a_flavor_takes_precedence() -> None:
    prices = parsed(LISTED)
    assert "3.333" == str(prices.price(GPU, "h100"))
    assert "2.1" == str(prices.price(GPU, "a100"))
    assert None is prices.price("cpu", "cpus")
    assert None is PriceList().price(GPU, "")


def test_all_faults_of_a_price_list_are_reported_at_once() -> None:
    wrong = [
        {"resource": GPU, "perHour": -1},
        {"resource": GPU, "perHour": "dear"},
        {"resource": "", "perHour": "1e999999"},
        {"resource": "", "perHour": float("nan")},
    ]
    with pytest.raises(Invalid) as caught:
        parsed({"currency": "euro", "account": " ", "prices": wrong})
    text = str(caught.value)
    for path in ("currency", "account", *(f"prices[{each}].perHour" for each in range(4))):
        assert path in text
    assert "prices[1]: " in text


@pytest.mark.parametrize("document", [None, [], {"prices": []}, {"currency": "EUR", "price": []}])
def test_what_is_no_price_list_is_rejected(document: object) -> None:
    with pytest.raises(Invalid):
        parsed(document)


def test_a_response_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kuota.history.charges.MOST_CHARGES", 10)
    with pytest.raises(TooManyCharges):
        charges(records(1), MONTH, ChargePeriod.HOUR)
