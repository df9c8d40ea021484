# SPDX-License-Identifier: Apache-2.0
"""The syntax of names, expressions and numbers that only a Configuration holds.

Like those of `kuota.api.names`, most functions return complaints, and none for a text that is fine.
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
_CEL_TEXT = re.compile(
    r"""//[^\n]* | [rRbB]{0,2} ( \"{3}.*?\"{3} | '{3}.*?'{3} )
    | \b[rR][bB]? ( "[^"\n]*" | '[^'\n]*' ) | \b[bB][rR] ( "[^"\n]*" | '[^'\n]*' )
    | "(\\.|[^"\\\n])*" | '(\\.|[^'\\\n])*'""",
    re.VERBOSE | re.DOTALL,
)
_CLOSES = {")": "(", "]": "[", "}": "{"}


def negative_faults(section: msgspec.Struct, path: str, *names: str) -> Iterator[FieldError]:
    """One fault for each of the named fields that is below 0. Unset is fine."""
    for field in fields(section):
        value = getattr(section, field.name) if field.name in names else None
        if value is not None and value < 0:
            shown = str(value) if isinstance(value, Duration) else value
            yield invalid(f"{path}.{field.encode_name}", shown, "must be 0 or more")


def dns_1035_label(text: str) -> list[str]:
    """Complaints about the name of a Service."""
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
    """Complaints about the name of a DRA driver."""
    complaints = names.dns_subdomain(text)
    if len(text) > MAX_DRIVER:
        complaints.append(f"is longer than {MAX_DRIVER} characters")
    return complaints


def capacity_name_faults(path: str, text: str) -> Iterator[FieldError]:
    """Faults of DRA's qualified name: an identifier, or `DNS-subdomain/identifier`.

    The domain is compared in lower case. As in Kubernetes, a second slash goes unnoticed.
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


def cel_complaints(text: str) -> list[str]:
    """Complaints about text that no CEL compiler could parse.

    Only strings and brackets are looked at: a quote left open, or a bracket without its partner.
    Names and types are for the cluster to judge.
    """
    bare = _CEL_TEXT.sub(" ", text)
    if '"' in bare or "'" in bare:
        return ["is not CEL: a quote is left open"]
    waiting: list[str] = []
    for char in bare:
        if char in _CLOSES.values():
            waiting.append(char)
        elif char in _CLOSES and (not waiting or waiting.pop() != _CLOSES[char]):
            return [f"is not CEL: {char!r} closes nothing"]
    return [f"is not CEL: {waiting[-1]!r} is never closed"] if waiting else []
