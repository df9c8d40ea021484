# SPDX-License-Identifier: Apache-2.0
"""Node selectors and node affinity, as Kubernetes' scheduler evaluates them."""

from __future__ import annotations

import pytest
from msgspec import convert

from kuota.api.core import NodeSelector, NodeSelectorTerm, PreferredSchedulingTerm
from kuota.api.match import SelectorError
from kuota.api.node_match import check_terms, matches_terms, preference, selected

LABELS = {"zone": "a", "rank": "3"}


def _term(*expressions: tuple[str, ...], fields: tuple[str, ...] = ()) -> dict[str, object]:
    def requirement(key: str, operator: str, *values: str) -> dict[str, object]:
        return {"key": key, "operator": operator, "values": list(values)}

    return {
        "matchExpressions": [requirement(*each) for each in expressions],
        "matchFields": [requirement(*fields)] if fields else [],
    }


def _selector(*terms: dict[str, object]) -> NodeSelector:
    return convert({"nodeSelectorTerms": list(terms)}, NodeSelector)


def test_every_label_of_a_node_selector_must_be_present() -> None:
    assert selected(None, LABELS)
    assert selected({"zone": "a"}, LABELS)
    assert not selected({"zone": "b"}, LABELS)
    assert not selected({"missing": ""}, LABELS)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ((), False),
        ((_term(),), False),
        ((_term(("zone", "In", "a", "b")),), True),
        ((_term(("zone", "In", "b")), _term(("rank", "Gt", "2"))), True),
        ((_term(("zone", "In", "a"), ("rank", "Lt", "3")),), False),
        ((_term(("other", "DoesNotExist")),), True),
        ((_term(fields=("metadata.name", "In", "node")),), True),
        ((_term(("zone", "Exists"), fields=("metadata.name", "NotIn", "node")),), False),
    ],
)
def test_one_term_must_match_with_all_its_requirements(
    terms: tuple[dict[str, object], ...], expected: bool
) -> None:
    assert expected == matches_terms(_selector(*terms), "node", LABELS)


def test_the_preference_is_the_sum_of_matching_weights() -> None:
    terms = convert(
        [
            {"weight": 5, "preference": _term(("zone", "In", "a"))},
            {"weight": 3, "preference": _term(("rank", "Exists"))},
            {"weight": 9, "preference": _term(("zone", "In", "b"))},
            {"weight": 7, "preference": _term()},
        ],
        list[PreferredSchedulingTerm],
    )
    assert 8 == preference(terms, "node", LABELS)


@pytest.mark.parametrize(
    "term",
    [
        _term(("zone", "Is", "a")),
        _term(("zone", "In")),
        _term(("rank", "Gt", "x")),
        _term(fields=("metadata.namespace", "In", "node")),
        _term(fields=("metadata.name", "Exists")),
        _term(fields=("metadata.name", "In", "a", "b")),
    ],
)
def test_invalid_terms_are_rejected(term: dict[str, object]) -> None:
    with pytest.raises(SelectorError):
        check_terms([convert(term, NodeSelectorTerm)])
