# SPDX-License-Identifier: Apache-2.0
"""Checks the syntax of names and numbers that occur only in a Configuration.

As in `kuota.api.names`, most functions return complaints, and an empty list for valid text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from msgspec.structs import fields

from .. import names
from ..faults import FieldError, invalid, quoted, too_long
from .duration import Duration

MAX_DRIVER = 63
MAX_DEVICE_IDENTIFIER = 32

_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_METRIC_LABEL = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def negative_faults(section: msgspec.Struct, path: str, *names: str) -> Iterator[FieldError]:
    """Yield a fault for each named field that is negative. An unset field is valid."""
    for field in fields(section):
        value = getattr(section, field.name) if field.name in names else None
        if value is not None and value < 0:
            shown = str(value) if isinstance(value, Duration) else value
            yield invalid(f"{path}.{field.encode_name}", shown, "must be 0 or more")


def dns_1035_label(text: str) -> list[str]:
    """Return complaints about the name of a Service."""
    if len(text) <= names.MAX_LABEL and _DNS_1035.fullmatch(text):
        return []
    return [
        "is not the name of a Service: use at most 63 lower case letters, digits and '-', "
        "with a letter first and a letter or digit last"
    ]


def metric_label(text: str) -> list[str]:
    if _METRIC_LABEL.fullmatch(text):
        return []
    return ["is not the name of a metric label: use letters, digits and '_', with a letter first"]


def driver_complaints(text: str) -> list[str]:
    """Return complaints about the name of a DRA driver."""
    complaints = names.dns_subdomain(text)
    if len(text) > MAX_DRIVER:
        complaints.append(f"is longer than {MAX_DRIVER} characters")
    return complaints


def capacity_name_faults(path: str, text: str) -> Iterator[FieldError]:
    """Yield the faults of a DRA qualified name: an identifier, or `DNS-subdomain/identifier`.

    The domain is compared in lower case. As in Kubernetes, a second slash is not reported.
    """
    match text.split("/"):
        case [identifier]:
            yield from _identifier_faults(path, identifier)
        case [domain, identifier]:
            yield from _domain_faults(path, domain)
            yield from _identifier_faults(path, identifier)


def _domain_faults(path: str, domain: str) -> Iterator[FieldError]:
    if len(domain) > MAX_DRIVER:
        yield too_long(path, f"the part before '/' is longer than {MAX_DRIVER} characters")
    if names.dns_subdomain(domain.lower()):
        yield invalid(path, domain, f"{quoted(domain)} before '/' is not a DNS subdomain")


def _identifier_faults(path: str, text: str) -> Iterator[FieldError]:
    if len(text) > MAX_DEVICE_IDENTIFIER:
        yield too_long(path, f"{text} is longer than {MAX_DEVICE_IDENTIFIER} characters")
    if not _IDENTIFIER.fullmatch(text):
        wrong = f"{quoted(text)} is not made of letters, digits and '_', no digit first"
        yield invalid(path, text, wrong)
