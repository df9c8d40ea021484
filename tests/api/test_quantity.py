# SPDX-License-Identifier: Apache-2.0
"""Quantities: syntax and rounding of Kubernetes, and sums that saturate."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuota.api.base import Quantity
from kuota.api.quantity import (
    MINIMUM,
    NANO,
    UNLIMITED,
    Format,
    QuantityError,
    add,
    as_float,
    canonical,
    format_of,
    mul,
    parse,
    quota_amount,
    sub,
    text,
    units,
    written,
)

AMOUNTS = st.one_of(
    st.integers(MINIMUM, UNLIMITED),
    st.sampled_from([MINIMUM, MINIMUM + 1, -1, 0, 1, UNLIMITED - 1, UNLIMITED]),
)
RESOURCES = st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi"])


@pytest.mark.parametrize(
    ("written", "nano"),
    [
        ("0", 0),
        ("1", NANO),
        ("+1", NANO),
        ("-1", -NANO),
        ("1.", NANO),
        (".5", NANO // 2),
        ("007", 7 * NANO),
        ("100.5m", 100_500_000),
        ("1u", 1000),
        ("1n", 1),
        ("1k", 1000 * NANO),
        ("1M", 10**6 * NANO),
        ("1G", 10**9 * NANO),
        ("1T", 10**12 * NANO),
        ("1P", 10**15 * NANO),
        ("1E", 10**18 * NANO),
        ("1Ki", 1024 * NANO),
        ("0.5Gi", 2**29 * NANO),
        ("1Ei", 2**60 * NANO),
        ("1e3", 1000 * NANO),
        ("1E3", 1000 * NANO),
        ("1e+3", 1000 * NANO),
        ("1.5e-3", 1_500_000),
        (3, 3 * NANO),
        (0.1, 100_000_000),
        (1e22, 10**22 * NANO),
    ],
)
def test_a_quantity_is_read_as_kubernetes_reads_it(written: Quantity, nano: int) -> None:
    assert nano == parse(written)


@pytest.mark.parametrize(
    "written",
    [
        *["", " 1", "1 ", "1 Gi", "100e3m", "+-1", "1.1.M", "1+1.0M", "0.1mi", ".5i", "1i"],
        *["-3.01e-", ".", "+", "Gi", "e3", "1e", "1e.5", "1ki", "1K", "0x1", "1_000", "١", "1\n"],
        *["9" * 101, float("nan"), float("inf")],
    ],
)
def test_what_kubernetes_refuses_is_refused_with_an_example(written: Quantity) -> None:
    with pytest.raises(QuantityError, match=r"write for example|did you mean"):
        parse(written)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *(("8GB", "8G or 8Gi"), ("8gi", "8Gi"), ("1.5GiB", "1.5Gi"), ("1 Gi", "1Gi")),
        *(("1,5", "1.5"), ("64kb", "64k or 64Ki"), ("1K", "1k or 1Ki"), (" 1", "1")),
    ],
)
def test_an_amount_as_other_programs_write_it_is_guessed(written: str, meant: str) -> None:
    with pytest.raises(QuantityError, match=rf"did you mean {re.escape(meant)}\?"):
        parse(written)
    for each in meant.split(" or "):
        parse(each)


@pytest.mark.parametrize("written", [True, None, ["1"]])
def test_what_is_neither_text_nor_number_is_refused(written: object) -> None:
    with pytest.raises((QuantityError, TypeError)):
        parse(written)


@pytest.mark.parametrize("written", ["0.1n", "1e-10", "1e-999999999999", "0.0000000001Ki"])
def test_finer_than_nano_rounds_away_from_zero(written: str) -> None:
    assert parse(written) > 0
    assert -parse(written) == parse("-" + written)
    assert parse(written) < 1000


def test_a_huge_exponent_is_only_a_large_number() -> None:
    assert units("1e999999999999", "cpu") == UNLIMITED
    assert units("-1e999999999999", "cpu") == MINIMUM
    assert units("0e999999999999", "cpu") == 0


def test_a_binary_quantity_is_capped_at_64_bits() -> None:
    assert parse("100Ei") == UNLIMITED * NANO


@pytest.mark.parametrize(
    ("written", "resource", "amount"),
    [
        ("100.5m", "cpu", 101),
        ("-100.5m", "cpu", -101),
        ("1.5", "memory", 2),
        ("-1.5", "memory", -2),
        ("2", "cpu", 2000),
        ("2", "pods", 2),
        ("1m", "nvidia.com/gpu", 1),
        ("10E", "cpu", UNLIMITED),
        ("-10E", "cpu", MINIMUM),
    ],
)
def test_amounts_round_up_and_stay_within_64_bits(written: str, resource: str, amount: int) -> None:
    assert amount == units(written, resource)


@pytest.mark.parametrize(
    ("written", "resource", "amount"),
    [
        ("1E", "cpu", UNLIMITED),
        ("9223372036854775", "cpu", UNLIMITED),
        ("9223372036854774", "cpu", 9223372036854774000),
        ("9223372036854775807", "memory", UNLIMITED),
        ("9223372036854775806", "memory", UNLIMITED - 1),
        ("-1E", "cpu", MINIMUM),
        ("10", "cpu", 10_000),
    ],
)
def test_quota_too_large_to_count_is_unlimited(written: str, resource: str, amount: int) -> None:
    assert amount == quota_amount(written, resource)


@pytest.mark.parametrize(
    ("amount", "resource", "printed"),
    [
        (1500, "cpu", "1500m"),
        (2000, "cpu", "2"),
        (2_000_000, "cpu", "2k"),
        (1610612736, "memory", "1536Mi"),
        (1500, "memory", "1500"),
        (1000, "memory", "1k"),
        (1024, "memory", "1Ki"),
        (-1024, "memory", "-1Ki"),
        (512, "ephemeral-storage", "512"),
        (2**60 * 5, "hugepages-1Gi", "5Ei"),
        (1000, "nvidia.com/gpu", "1k"),
        (1024, "nvidia.com/gpu", "1024"),
        (0, "memory", "0"),
        (UNLIMITED, "cpu", "<unlimited>"),
        (MINIMUM, "memory", "-8Ei"),
    ],
)
def test_amounts_print_as_kubernetes_prints_them(amount: int, resource: str, printed: str) -> None:
    assert printed == text(amount, resource)


@pytest.mark.parametrize(
    ("amount", "resource", "quantity"),
    [
        (1500, "cpu", "1500m"),
        (UNLIMITED, "cpu", "9223372036854775807m"),
        (UNLIMITED * 3, "cpu", "9223372036854775807m"),
        (UNLIMITED, "memory", "9223372036854775807"),
        (UNLIMITED + 1, "nvidia.com/gpu", "9223372036854775807"),
        (MINIMUM - 1, "cpu", "-9223372036854775808m"),
    ],
)
def test_amounts_beyond_64_bits_are_written_as_the_nearest_quantity(
    amount: int, resource: str, quantity: str
) -> None:
    assert quantity == written(amount, resource)


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("1000m", "1"),
        ("0.5Gi", "512Mi"),
        ("1.5", "1500m"),
        ("12e6", "12e6"),
        ("1e-9", "1e-9"),
        ("5e0", "5"),
        ("1000Mi", "1000Mi"),
        ("1024Mi", "1Gi"),
        ("0.1Ki", "102400m"),
        ("100k", "100k"),
        ("1000E", "1000E"),
        ("0Gi", "0"),
    ],
)
def test_a_quantity_prints_in_the_format_it_was_written_in(written: str, printed: str) -> None:
    assert printed == canonical(parse(written), format_of(written))


def test_floats_are_the_nearest() -> None:
    assert [5.5, 0.005, float(2**60)] == [as_float("5500m"), as_float("5m"), as_float("1Ei")]


@given(
    st.one_of(
        st.integers(-UNLIMITED * NANO, UNLIMITED * NANO),
        st.integers(-(2**43), 2**43).map(lambda n: n * 2**20 * NANO),
    ).filter(lambda nano: abs(nano) <= UNLIMITED * NANO),
    st.sampled_from(Format),
)
def test_printing_then_parsing_gives_the_same_quantity(nano: int, form: Format) -> None:
    assert nano == parse(canonical(nano, form))


# -2^63 bytes print as "-8Ei", which Kubernetes caps at 2^63-1 like every binary quantity.
@given(AMOUNTS.filter(lambda amount: amount not in (MINIMUM, UNLIMITED)), RESOURCES)
def test_printing_then_reading_gives_the_same_amount(amount: int, resource: str) -> None:
    assert amount == units(written(amount, resource), resource)


@given(st.integers(-(10**9), 10**9), st.integers(0, 14), RESOURCES)
def test_rounding_is_never_towards_zero(digits: int, places: int, resource: str) -> None:
    exact = Fraction(digits, 10**places) * (1000 if resource == "cpu" else 1)
    amount = units(f"{digits}e-{places}", resource)
    assert abs(exact) <= abs(amount) < abs(exact) + 2
    assert exact == 0 or (exact > 0) == (amount > 0)


@given(AMOUNTS, AMOUNTS)
def test_sums_saturate_and_never_wrap(a: int, b: int) -> None:
    assert MINIMUM <= add(a, b) <= UNLIMITED
    assert MINIMUM <= sub(a, b) <= UNLIMITED
    if UNLIMITED not in (a, b):
        assert max(MINIMUM, min(UNLIMITED, a + b)) == add(a, b)
        assert max(MINIMUM, min(UNLIMITED, a - b)) == sub(a, b)
    assert add(b, a) == add(a, b)


@given(AMOUNTS, st.integers(0, 2**31))
def test_products_saturate_and_never_wrap(a: int, n: int) -> None:
    assert max(MINIMUM, min(UNLIMITED, a * n)) == mul(a, n)


def test_unlimited_absorbs_all_but_itself() -> None:
    assert add(UNLIMITED, -5) == UNLIMITED
    assert add(MINIMUM, UNLIMITED) == UNLIMITED
    assert sub(UNLIMITED, 5) == UNLIMITED
    assert sub(UNLIMITED, UNLIMITED) == 0
    assert sub(5, UNLIMITED) == MINIMUM
