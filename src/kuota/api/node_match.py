# SPDX-License-Identifier: Apache-2.0
"""Matches nodes with the node selector and node affinity of a pod, as the scheduler does.

In contrast to `kuota.api.match`, which compares pods with flavors, all labels of the node count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PreferredSchedulingTerm
from .match import SelectorError, check_requirement, holds
from .names import label_value, qualified_name

_NAME = "metadata.name"


def selected(wanted: Mapping[str, str] | None, labels: Mapping[str, str]) -> bool:
    """Whether the labels contain every label of the node selector."""
    return not wanted or all(labels.get(key) == value for key, value in wanted.items())


def matches_terms(required: NodeSelector, name: str, labels: Mapping[str, str]) -> bool:
    """Whether the node matches one of the terms. Terms must be valid.

    Without terms, and for an empty term, nothing matches.
    """
    return any(_matches(term, name, labels) for term in required.node_selector_terms or ())


def preference(
    terms: Iterable[PreferredSchedulingTerm], name: str, labels: Mapping[str, str]
) -> int:
    """Return the sum of the weights of the terms that match. Empty terms never do."""
    return sum(each.weight for each in terms if _matches(each.preference, name, labels))


def check_selector(wanted: Mapping[str, str]) -> None:
    """Raise SelectorError for a label in a node selector that no node can have."""
    for key, value in wanted.items():
        for wrong in qualified_name(key):
            raise SelectorError(f"nodeSelector: key {key!r} {wrong}")
        for wrong in label_value(value):
            raise SelectorError(f"nodeSelector: value {value!r} of {key} {wrong}")


def check_terms(terms: Iterable[NodeSelectorTerm]) -> None:
    """Raise SelectorError for a requirement that the scheduler would reject."""
    for term in terms:
        for each in term.match_expressions or ():
            check_requirement(each)
        for each in term.match_fields or ():
            _check_field(each)


def _check_field(requirement: NodeSelectorRequirement) -> None:
    if requirement.key != _NAME or requirement.operator not in ("In", "NotIn"):
        raise SelectorError(
            f"{requirement.key}: matchFields supports only {_NAME} with the operators In and NotIn"
        )
    if len(requirement.values or ()) != 1:
        raise SelectorError(f"{requirement.key}: matchFields needs exactly one value")


def _matches(term: NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    return all(holds(each, labels) for each in term.match_expressions or ()) and all(
        holds(each, {_NAME: name}) for each in term.match_fields or ()
    )
