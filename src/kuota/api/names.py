# SPDX-License-Identifier: Apache-2.0
"""Checks the syntax of Kubernetes names, keys and label values.

Each function returns one complaint for each violated rule, and an empty list for valid text.
Kubernetes also reports one fault per complaint, so the number of complaints is part of the
contract. The wording is specific to Kuota.
"""

from __future__ import annotations

import re

MAX_LABEL = 63
MAX_SUBDOMAIN = 253
MAX_ANNOTATIONS_BYTES = 256 * 1024
MAX_REASON = 1024

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_URL_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_ONLY_LOWER = "use lower case letters, digits and '-', with a letter or digit first and last"


def dns_label(text: str) -> list[str]:
    """Return complaints about a DNS-1123 label, such as a namespace or the name of a pod set."""
    return _complaints(text, _LABEL, MAX_LABEL, f"is not a DNS label: {_ONLY_LOWER}")


def dns_subdomain(text: str) -> list[str]:
    """Return complaints about a DNS-1123 subdomain, such as the name of most objects."""
    wrong = f"is not a DNS subdomain: {_ONLY_LOWER}; '.' may separate such parts"
    return _complaints(text, _SUBDOMAIN, MAX_SUBDOMAIN, wrong)


def path_segment(text: str) -> list[str]:
    """Return complaints about a name that only has to fit into a path, as the names of roles."""
    wrong = "is not a name: it must not be '.' or '..', nor contain '/' or '%'"
    bad = text in (".", "..") or "/" in text or "%" in text or not text.isprintable()
    return [wrong] if bad or len(text) > MAX_SUBDOMAIN else []


def qualified_name(text: str) -> list[str]:
    """Return complaints about a label or resource key: a name, or `DNS-subdomain/name`."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return ["is not a key: at most one '/' may separate a DNS prefix from the name"]
    complaints = []
    if slash and not prefix:
        complaints.append("has an empty prefix before '/'")
    elif slash:
        complaints = [f"has a bad prefix: {prefix!r} {wrong}" for wrong in dns_subdomain(prefix)]
    if not name:
        complaints.append("has an empty name")
    return complaints + _complaints(name, _NAME_PART, MAX_LABEL, _bad_part("name"))


def label_value(text: str) -> list[str]:
    """Return complaints about a label value. An empty value is valid."""
    return _complaints(text, _NAME_PART, MAX_LABEL, _bad_part("label value")) if text else []


def domain_prefixed_path(text: str) -> list[str]:
    """Return complaints about a name such as `example.com/gate`."""
    domain, _, path = text.partition("/")
    if not domain or not path:
        return ["is not of the form DOMAIN/NAME, such as example.com/gate"]
    complaints = [f"has a bad domain: {domain!r} {wrong}" for wrong in dns_subdomain(domain)]
    if not _URL_PATH.fullmatch(path):
        complaints.append(f"has characters after '/' that a URL path cannot hold: {path!r}")
    return complaints


def condition_reason(text: str) -> list[str]:
    """Return complaints about the reason of a condition."""
    wrong = "is not one word: use letters, digits, '_', ',' and ':', with a letter first"
    return [] if _REASON.fullmatch(text) else [wrong]


def config_key(text: str) -> list[str]:
    """Return complaints about a key of a ConfigMap or Secret, which is also the name of a file.

    These messages are those of Kubernetes.
    """
    complaints = []
    if len(text) > MAX_SUBDOMAIN:
        complaints.append(f"must be no more than {MAX_SUBDOMAIN} characters")
    if not _CONFIG_KEY.fullmatch(text):
        complaints.append(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
            "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', "
            f"regex used for validation is '{_CONFIG_KEY.pattern}')"
        )
    if text in (".", ".."):
        complaints.append(f"must not be '{text}'")
    elif text.startswith(".."):
        complaints.append("must not start with '..'")
    return complaints


def similar_name(text: str) -> str:
    """Return a valid DNS name similar to the text, or "" if there is none."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower())[:MAX_LABEL].strip("-.")


def _bad_part(what: str) -> str:
    return (
        f"is not a {what}: use letters, digits, '-', '_' and '.', "
        "with a letter or digit first and last"
    )


def _complaints(text: str, form: re.Pattern[str], longest: int, wrong: str) -> list[str]:
    complaints = []
    if len(text.encode(errors="surrogatepass")) > longest:
        complaints.append(f"is longer than {longest} characters")
    if not form.fullmatch(text):
        complaints.append(wrong)
    return complaints
