# SPDX-License-Identifier: Apache-2.0
"""Converts Kubernetes quantities ("500m", "2Gi") to and from integers, and adds them.

There are two scales. *Nano* integers represent a quantity exactly, because a billionth is the
finest resolution of Kubernetes. *Amounts* are the integers that the scheduler computes with:
milli-cores for cpu and whole units for all other resources, within 64 bits. `UNLIMITED` is larger
than every other amount and absorbs sums. Arithmetic saturates and never wraps around.
"""

from __future__ import annotations

import re
from collections.abc import Container
from enum import Enum
from functools import lru_cache

from .base import Quantity

UNLIMITED = 2**63 - 1
MINIMUM = -(2**63)
NANO = 10**9

_MILLI = 10**6
_CPU = "cpu"
_UNLIMITED_CPU_NANO = UNLIMITED // 1000 * NANO
_CACHED = 1 << 13
_LONGEST = 100
# A text has at most 100 characters, so a larger exponent yields 1n or a value far above 2^63.
_FARTHEST_EXPONENT = 200

_FORM = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE]?)|[eE](?P<exponent>[+-]?[0-9]+))"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIXES = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_SUFFIXES = ("", *_BINARY)
_ALMOST = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:([kmgtpe])(i?)b?)?", re.IGNORECASE)
"""A number with a unit as other programs write it."""


class QuantityError(ValueError):
    """Raised for an invalid quantity. The message gives the reason and a valid example."""


class Format(Enum):
    """The format in which a quantity was written. It is printed in the same format."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


@lru_cache(_CACHED, typed=True)
def parse(text: Quantity) -> int:
    """Parse the quantity in nano-units. Finer fractions are rounded up, away from zero.

    A binary quantity is capped at 2^63-1 units, as in Kubernetes. A decimal quantity is not.
    """
    return _parsed(text)[0]


@lru_cache(_CACHED, typed=True)
def format_of(text: Quantity) -> Format:
    """Return the format in which Kubernetes prints the quantity."""
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
    """Return digits x 10^power for digits >= 0, rounded up to an integer."""
    if power >= 0:
        return digits * int(10 ** min(power, _FARTHEST_EXPONENT))
    return _rounded_up(digits, int(10 ** min(-power, _FARTHEST_EXPONENT)))


def _rounded_up(value: int, divisor: int) -> int:
    """Return value / divisor, rounded away from zero. The divisor is positive."""
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
    meant = _meant(text) if isinstance(text, str) else ()
    if meant:
        return f"quantity {text!r} {why}; did you mean {' or '.join(meant)}?"
    return f'quantity {text!r} {why}; write for example "500m", "1.5", "2Gi" or "3e6"'


def _meant(text: str) -> tuple[str, ...]:
    """Return valid quantities that resemble the text, such as 8G and 8Gi for 8GB."""
    found = _ALMOST.fullmatch("".join(text.split()).replace(",", ".", 1))
    if found is None:
        return ()
    number, prefix, binary = found[1], found[2] or "", found[3]
    if not prefix:
        return (number,)
    decimal = () if binary else (f"{number}{'k' if prefix in 'kK' else prefix.upper()}",)
    return (*decimal, f"{number}{prefix.upper()}i")


def units(quantity: Quantity, resource: str) -> int:
    """Return the amount of a request: milli-cores of cpu, whole units of other resources.

    The amount is rounded up and clamped to 64 bits.
    """
    return amount(parse(quantity), resource)


def amount(nano: int, resource: str) -> int:
    """Return the amount of a nano integer, rounded away from zero and clamped to 64 bits."""
    value = _rounded_up(nano, _MILLI if resource == _CPU else NANO)
    return _clamped(value)


def quota_amount(quantity: Quantity, resource: str) -> int:
    """Return the amount of a quota, as `units` does, but UNLIMITED for very large quotas.

    A quota is unlimited if its milli-cores of cpu overflow 64 bits, or if it is at least 2^63-1
    units of another resource.
    """
    nano = parse(quantity)
    if resource == _CPU and nano >= _UNLIMITED_CPU_NANO:
        return UNLIMITED
    return amount(nano, resource)


def as_float(quantity: Quantity) -> float:
    """Return the quantity in whole units as the nearest float."""
    return parse(quantity) / NANO


def nano_of(amount: int, resource: str) -> int:
    """Return the nano integer of an amount. Inverse of `amount`, except for rounding."""
    return amount * (_MILLI if resource == _CPU else NANO)


def written(amount: int, resource: str, sizes: Container[str] = ()) -> str:
    """Format an amount as a quantity for an API object.

    CPU is formatted in milli-units, sizes with binary suffixes, and other resources as decimals.
    `sizes` names further resources that are sizes. The amount is clamped to 64 bits.
    """
    form = Format.BINARY if is_size(resource) or resource in sizes else Format.DECIMAL
    return canonical(nano_of(_clamped(amount), resource), form)


def text(amount: int, resource: str) -> str:
    """Format an amount for display, as `written` does, with a marker for `UNLIMITED`."""
    return "<unlimited>" if amount >= UNLIMITED else written(amount, resource)


def is_size(resource: str) -> bool:
    """Whether amounts of the resource are bytes."""
    return resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")


def canonical(nano: int, form: Format = Format.DECIMAL) -> str:
    """Return the shortest text in this format without a fraction.

    The binary format falls back to decimal for magnitudes below 1024 and for fractions, which have
    no exact binary text.
    """
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
    """Return a + b, saturating. UNLIMITED plus any amount is UNLIMITED."""
    if a >= UNLIMITED or b >= UNLIMITED:
        return UNLIMITED
    value = a + b
    return value if MINIMUM <= value <= UNLIMITED else _clamped(value)


def sub(a: int, b: int) -> int:
    """Return a - b, saturating.

    UNLIMITED minus a limited amount is UNLIMITED, and UNLIMITED minus UNLIMITED is 0. A limited
    amount minus UNLIMITED is MINIMUM. Exact sums above UNLIMITED are treated as UNLIMITED.
    """
    if a >= UNLIMITED:
        return 0 if b >= UNLIMITED else UNLIMITED
    if b >= UNLIMITED:
        return MINIMUM
    value = a - b
    return value if MINIMUM <= value <= UNLIMITED else _clamped(value)


def mul(a: int, n: int) -> int:
    """Return a x n, saturating."""
    return _clamped(a * n)


def _clamped(value: int) -> int:
    return MINIMUM if value < MINIMUM else UNLIMITED if value > UNLIMITED else value
