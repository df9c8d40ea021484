# SPDX-License-Identifier: Apache-2.0
"""Kubernetes quantities ("500m", "2Gi") as integers, the same integers as text, and their sums.

Two scales. *Nano* integers hold a quantity exactly as Kubernetes does (a billionth is its finest
grain). *Amounts* are what decisions count with: milli-cores for cpu, whole units for everything
else, within 64 bits. An amount of `UNLIMITED` is larger than every other and absorbs sums;
arithmetic saturates, it never wraps around.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache

from .base import Quantity

UNLIMITED = 2**63 - 1
MINIMUM = -(2**63)
NANO = 10**9

_MILLI = 10**6
_CPU = "cpu"
_UNLIMITED_CPU_NANO = UNLIMITED // 1000 * NANO
_CACHED = 1 << 16
_LONGEST = 100
# With at most 100 characters, an exponent beyond this gives 1n or something far above 2^63 anyway.
_FARTHEST_EXPONENT = 200

_FORM = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE]?)|[eE](?P<exponent>[+-]?[0-9]+))"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIXES = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_SUFFIXES = ("", *_BINARY)


class QuantityError(ValueError):
    """The text is not a Kubernetes quantity. The message says why, and shows one that is."""


class Format(Enum):
    """How a quantity was written, which is how it is printed."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


@lru_cache(_CACHED, typed=True)
def parse(text: Quantity) -> int:
    """The quantity in nano-units. Anything finer is rounded up, away from zero.

    A binary quantity is capped at 2^63-1 units, as in Kubernetes; a decimal one is not.
    """
    return _parsed(text)[0]


@lru_cache(_CACHED, typed=True)
def format_of(text: Quantity) -> Format:
    """The format Kubernetes would print the quantity in again."""
    return _parsed(text)[1]


def _parsed(text: Quantity) -> tuple[int, Format]:
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise QuantityError(_fault(text, "is neither text nor a number"))
    written = text if isinstance(text, str) else repr(text)
    if len(written) > _LONGEST:
        raise QuantityError(_fault(written[:20] + "...", f"has over {_LONGEST} characters"))
    match = _FORM.fullmatch(written)
    if match is None or not (match["whole"] or match["part"]):
        raise QuantityError(_fault(written, _reason(written)))
    part = match["part"] or ""
    digits = int(match["whole"] + part)
    suffix = match["suffix"] or ""
    if suffix in _BINARY:
        nano = _rounded_up(digits * NANO << _BINARY[suffix], 10 ** len(part))
        nano = min(nano, UNLIMITED * NANO)
        form = Format.DECIMAL if 0 < nano < NANO else Format.BINARY
    else:
        form = Format.EXPONENT if match["exponent"] else Format.DECIMAL
        power = int(match["exponent"]) if match["exponent"] else _DECIMAL[suffix]
        nano = _scaled(digits, power - len(part) + 9)
    return (-nano if match["sign"] == "-" else nano), form


def _scaled(digits: int, power: int) -> int:
    """digits x 10^power for digits >= 0, rounded up to an integer."""
    if power >= 0:
        return digits * int(10 ** min(power, _FARTHEST_EXPONENT))
    return _rounded_up(digits, int(10 ** min(-power, _FARTHEST_EXPONENT)))


def _rounded_up(value: int, divisor: int) -> int:
    """value / divisor, fractions away from zero. The divisor is positive."""
    return -(-value // divisor) if value >= 0 else value // divisor


def _reason(text: str) -> str:
    if not text:
        return "is empty"
    if any(character.isspace() for character in text):
        return "contains a blank"
    if not any(character.isdigit() for character in text):
        return "has no digits"
    return "is not a number followed by one of n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent"


def _fault(text: object, why: str) -> str:
    return f'quantity {text!r} {why}; write for example "500m", "1.5", "2Gi" or "3e6"'


@lru_cache(_CACHED, typed=True)
def units(quantity: Quantity, resource: str) -> int:
    """The amount of a request: milli-cores of cpu, whole units of the rest, rounded up, 64 bits."""
    return amount(parse(quantity), resource)


def amount(nano: int, resource: str) -> int:
    """The amount of a nano integer, rounded away from zero and clamped to 64 bits."""
    value = _rounded_up(nano, _MILLI if resource == _CPU else NANO)
    return _clamped(value)


@lru_cache(_CACHED, typed=True)
def quota_amount(quantity: Quantity, resource: str) -> int:
    """The amount of a quota: as `units`, but so much cpu that its milli-cores overflow, or 2^63-1
    and more of anything else, is UNLIMITED."""
    nano = parse(quantity)
    if resource == _CPU and nano >= _UNLIMITED_CPU_NANO:
        return UNLIMITED
    return amount(nano, resource)


def as_float(quantity: Quantity) -> float:
    """The nearest float, in whole units."""
    return parse(quantity) / NANO


def nano_of(amount: int, resource: str) -> int:
    """The nano integer of an amount: the inverse of `amount` without its rounding."""
    return amount * (_MILLI if resource == _CPU else NANO)


def written(amount: int, resource: str) -> str:
    """The quantity of an amount for an API object: cpu in milli, sizes in binary suffixes, the rest
    decimal. An amount beyond 64 bits is written as the nearest one within."""
    form = Format.BINARY if is_size(resource) else Format.DECIMAL
    return canonical(nano_of(_clamped(amount), resource), form)


def text(amount: int, resource: str) -> str:
    """An amount for people: as `written`, but `UNLIMITED` as a marker."""
    return "<unlimited>" if amount >= UNLIMITED else written(amount, resource)


def is_size(resource: str) -> bool:
    """Whether amounts of the resource are bytes."""
    return resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")


def canonical(nano: int, form: Format = Format.DECIMAL) -> str:
    """The shortest text of that format without a fraction. Binary falls back to decimal under
    1024 in magnitude and for fractions, where no exact binary text exists."""
    if nano == 0:
        return "0"
    whole, fraction = divmod(abs(nano), NANO)
    sign = "-" if nano < 0 else ""
    if form is Format.BINARY and not fraction and whole >= 1024:
        return sign + _binary(whole)
    return sign + _decimal(abs(nano), form)


def _binary(whole: int) -> str:
    power = 0
    while whole % 1024 == 0 and power < len(_BINARY_SUFFIXES) - 1:
        whole //= 1024
        power += 1
    return f"{whole}{_BINARY_SUFFIXES[power]}"


def _decimal(nano: int, form: Format) -> str:
    power = -9
    while nano % 1000 == 0 and (power < 18 or form is Format.EXPONENT):
        nano //= 1000
        power += 3
    if form is Format.EXPONENT:
        return f"{nano}e{power}" if power else str(nano)
    return f"{nano}{_DECIMAL_SUFFIXES[power]}"


def add(a: int, b: int) -> int:
    """a + b, saturating. UNLIMITED plus anything is UNLIMITED."""
    if a >= UNLIMITED or b >= UNLIMITED:
        return UNLIMITED
    value = a + b
    return value if MINIMUM <= value <= UNLIMITED else _clamped(value)


def sub(a: int, b: int) -> int:
    """a - b, saturating. UNLIMITED less anything is UNLIMITED, but UNLIMITED less itself is 0;
    anything less UNLIMITED is MINIMUM. More than UNLIMITED, a sum kept exact, is UNLIMITED."""
    if a >= UNLIMITED:
        return 0 if b >= UNLIMITED else UNLIMITED
    if b >= UNLIMITED:
        return MINIMUM
    value = a - b
    return value if MINIMUM <= value <= UNLIMITED else _clamped(value)


def mul(a: int, n: int) -> int:
    """a x n, saturating."""
    return _clamped(a * n)


def _clamped(value: int) -> int:
    return MINIMUM if value < MINIMUM else UNLIMITED if value > UNLIMITED else value
