# SPDX-License-Identifier: Apache-2.0
"""Matches labels with selectors, taints with tolerations, and flavors with pods.

Only the label keys that a flavor defines are considered. The Kubernetes scheduler handles other
keys. `kuota.api.selector` parses selectors from text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from .base import LabelSelector, LabelSelectorRequirement
from .core import NodeSelector, NodeSelectorTerm, Taint, Toleration

_NONE: dict[str, str] = {}
_BLOCKING = ("NoSchedule", "NoExecute")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_INT64 = range(-(2**63), 2**63)


class SelectorError(ValueError):
    """Raised for an invalid selector. The message names the fault and its path."""


def matches(selector: LabelSelector | None, labels: Mapping[str, str] | None) -> bool:
    """Whether the labels match the selector.

    An absent selector matches nothing, and an empty one matches everything. Raises SelectorError
    for an operator other than In, NotIn, Exists and DoesNotExist.
    """
    if selector is None:
        return False
    have = labels or _NONE
    for each in selector.match_expressions or ():
        check_label_requirement(each)
    for key, value in (selector.match_labels or _NONE).items():
        if have.get(key) != value:
            return False
    return all(holds(each, have) for each in selector.match_expressions or ())


def holds(requirement: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    """Whether the labels match one valid requirement. Gt and Lt compare integers."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in (requirement.values or ())
        case "NotIn":
            return value is None or value not in (requirement.values or ())
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return value is not None and _compares(requirement, value)
    raise _unknown_operator(requirement)


def _compares(requirement: LabelSelectorRequirement, value: str) -> bool:
    have, bound = integer(value), integer((requirement.values or [""])[0])
    if have is None or bound is None:
        return False
    return have > bound if requirement.operator == "Gt" else have < bound


def integer(text: str) -> int | None:
    """Parse a 64-bit decimal integer. Return None if the text is not one."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 30:
        return None
    value = int(text)
    return value if value in _INT64 else None


def check_label_requirement(requirement: LabelSelectorRequirement) -> None:
    """Raise SelectorError unless the requirement is valid in a label selector."""
    if requirement.operator in ("Gt", "Lt"):
        raise _unknown_operator(requirement)
    check_requirement(requirement)


def check_requirement(requirement: LabelSelectorRequirement) -> None:
    """Raise SelectorError unless the operator is known and has the values it needs."""
    key, values = requirement.key, requirement.values or ()
    match requirement.operator:
        case "In" | "NotIn":
            if not values:
                raise SelectorError(f"{key}: operator {requirement.operator} needs values")
        case "Exists" | "DoesNotExist":
            if values:
                raise SelectorError(f"{key}: operator {requirement.operator} takes no values")
        case "Gt" | "Lt":
            if len(values) != 1 or integer(values[0]) is None:
                raise SelectorError(f"{key}: operator {requirement.operator} needs one integer")
        case _:
            raise _unknown_operator(requirement)
    for value in values:
        if _LABEL_VALUE.fullmatch(value) is None:
            raise SelectorError(f"{key}: {value!r} cannot be a label value")


def _unknown_operator(requirement: LabelSelectorRequirement) -> SelectorError:
    return SelectorError(
        f"{requirement.key}: unknown operator {requirement.operator!r};"
        " use In, NotIn, Exists or DoesNotExist"
    )


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether the toleration matches the taint.

    Gt and Lt mean that the taint's value is greater (less) than the toleration's. A value that is
    not an integer is never tolerated.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Gt" | "Lt":
            have, bound = integer(taint.value), integer(toleration.value)
            if have is None or bound is None:
                return False
            return have > bound if toleration.operator == "Gt" else have < bound
    return False


def same_toleration(a: Toleration, b: Toleration) -> bool:
    """Whether two tolerations are equal. An unset operator is Equal."""
    return (
        a.key == b.key
        and a.value == b.value
        and a.effect == b.effect
        and (a.operator or "Equal") == (b.operator or "Equal")
        and a.toleration_seconds == b.toleration_seconds
    )


def untolerated(
    taints: Iterable[Taint] | None, *tolerations: Iterable[Toleration] | None
) -> Taint | None:
    """Return the first NoSchedule or NoExecute taint that no toleration matches."""
    for taint in taints or ():
        if taint.effect in _BLOCKING and not any(
            tolerates(each, taint) for some in tolerations for each in some or ()
        ):
            return taint
    return None


def has_taint_key(taints: Iterable[Taint] | None, key: str) -> bool:
    return any(taint.key == key for taint in taints or ())


def node_selector_accepts(wanted: Mapping[str, str] | None, labels: Mapping[str, str]) -> bool:
    """Whether no label contradicts the node selector. Keys without a label are ignored."""
    return not wanted or all(labels.get(key, value) == value for key, value in wanted.items())


def affinity_accepts(required: NodeSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether the required node affinity is met, considering only these labels' keys.

    Terms are alternatives, so a term without any of these keys matches. Raises SelectorError if no
    term matches and one is malformed.
    """
    terms = required.node_selector_terms if required else None
    if not terms or any(not _relevant(term, labels) for term in terms):
        return True
    fault: SelectorError | None = None
    for term in terms:
        try:
            if _term_holds(term, labels):
                return True
        except SelectorError as error:
            fault = fault or error
    if fault is not None:
        raise fault
    return False


def _relevant(term: NodeSelectorTerm, keys: Collection[str]) -> bool:
    return any(each.key in keys for each in term.match_expressions or ())


def _term_holds(term: NodeSelectorTerm, labels: Mapping[str, str]) -> bool:
    expressions = [each for each in term.match_expressions or () if each.key in labels]
    for each in expressions:
        check_requirement(each)
    return all(holds(each, labels) for each in expressions)
