# SPDX-License-Identifier: Apache-2.0
"""Selectors, tolerations and affinity, as in Kubernetes and for flavors."""

from __future__ import annotations

import pytest
from msgspec import convert

from kuota.api.base import LabelSelector
from kuota.api.core import NodeSelector, Taint, Toleration
from kuota.api.match import (
    SelectorError,
    affinity_accepts,
    has_taint_key,
    matches,
    node_selector_accepts,
    same_toleration,
    tolerates,
    untolerated,
)
from kuota.api.selector import parse_selector, selects

ENG = {"dep": "eng", "rank": "3"}


def _selector(*expressions: dict[str, object], **labels: str) -> LabelSelector:
    return convert({"matchLabels": labels, "matchExpressions": list(expressions)}, LabelSelector)


def _expression(key: str, operator: str, *values: str) -> dict[str, object]:
    return {"key": key, "operator": operator, "values": list(values)}


def _affinity(*terms: list[dict[str, object]]) -> NodeSelector:
    return convert(
        {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}, NodeSelector
    )


def test_no_selector_matches_nothing_and_an_empty_one_everything() -> None:
    assert not matches(None, ENG)
    assert matches(LabelSelector(), ENG)
    assert matches(LabelSelector(), None)


@pytest.mark.parametrize(
    ("selector", "matched"),
    [
        (_selector(dep="eng"), True),
        (_selector(dep="sales"), False),
        (_selector(site="a"), False),
        (_selector(_expression("dep", "In", "eng", "ops")), True),
        (_selector(_expression("site", "In", "a")), False),
        (_selector(_expression("dep", "NotIn", "eng")), False),
        (_selector(_expression("site", "NotIn", "a")), True),
        (_selector(_expression("dep", "Exists")), True),
        (_selector(_expression("site", "Exists")), False),
        (_selector(_expression("site", "DoesNotExist")), True),
        (_selector(_expression("dep", "Exists"), dep="sales"), False),
    ],
)
def test_labels_must_satisfy_every_part(selector: LabelSelector, matched: bool) -> None:
    assert matched == matches(selector, ENG)


@pytest.mark.parametrize(
    "expression",
    [
        _expression("dep", "Near", "eng"),
        _expression("dep", "In"),
        _expression("dep", "Exists", "eng"),
        _expression("rank", "Gt", "2"),
        _expression("dep", "In", "not a value"),
    ],
)
def test_a_malformed_label_selector_is_an_error(expression: dict[str, object]) -> None:
    with pytest.raises(SelectorError):
        matches(_selector(expression), ENG)


@pytest.mark.parametrize(
    ("written", "selected"),
    [
        ("", True),
        ("dep in (eng, sales)", True),
        ("dep notin (eng)", False),
        ("dep=eng,rank==3", True),
        ("dep = ops", False),
        ("dep!=ops", True),
        ("dep", True),
        ("!dep", False),
        ("! site", True),
        ("rank>2, rank<4", True),
        ("rank>3", False),
        ("site=", False),
    ],
)
def test_selectors_may_be_written_as_text(written: str, selected: bool) -> None:
    assert selected == selects(parse_selector(written), ENG)


@pytest.mark.parametrize(
    "written", ["a b", "a in b", "a in (b", "=b", ",", "a,", "a>x", "a=b c", "-a", "a=b=c", "!a=b"]
)
def test_text_that_is_no_selector_is_an_error(written: str) -> None:
    with pytest.raises(SelectorError):
        parse_selector(written)


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration(key="level", operator="Exists"), True),
        (Toleration(key="level", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(key="level", value="5"), True),
        (Toleration(key="level", operator="Equal", value="6"), False),
        (Toleration(key="level", operator="Gt", value="4"), True),
        (Toleration(key="level", operator="Gt", value="5"), False),
        (Toleration(key="level", operator="Lt", value="6"), True),
        (Toleration(key="level", operator="Lt", value="x"), False),
        (Toleration(key="level", operator="Like", value="5"), False),
    ],
)
def test_a_toleration_covers_a_taint_by_key_value_and_effect(
    toleration: Toleration, tolerated: bool
) -> None:
    assert tolerated == tolerates(toleration, Taint(key="level", value="5", effect="NoSchedule"))


def test_only_taints_that_keep_pods_away_need_toleration() -> None:
    soft = Taint(key="soft", effect="PreferNoSchedule")
    spot = Taint(key="spot", effect="NoSchedule")
    down = Taint(key="down", effect="NoExecute")
    assert untolerated([soft]) is None
    assert untolerated([soft, spot, down]) == spot
    assert (
        untolerated([soft, spot, down], None, [Toleration(key="spot", operator="Exists")]) == down
    )


def test_a_flavors_own_toleration_suffices_for_its_taint() -> None:
    spot = Taint(key="spot", value="true", effect="NoSchedule")
    assert untolerated([spot], None, [Toleration(key="spot", value="true")]) is None


def test_no_operator_means_equal() -> None:
    assert same_toleration(
        Toleration(key="a", value="b"), Toleration(key="a", value="b", operator="Equal")
    )
    assert not same_toleration(Toleration(key="a", operator="Exists"), Toleration(key="a"))


def test_a_taint_is_found_by_its_key() -> None:
    assert has_taint_key([Taint(key="a"), Taint(key="b")], "b")
    assert not has_taint_key(None, "b")


def test_a_selector_on_a_key_the_flavor_lacks_is_ignored() -> None:
    assert node_selector_accepts({"disk": "ssd"}, {"zone": "a"})
    assert node_selector_accepts({"disk": "ssd", "zone": "a"}, {"zone": "a"})
    assert not node_selector_accepts({"zone": "b"}, {"zone": "a"})
    assert node_selector_accepts({"zone": "b"}, {})
    assert node_selector_accepts(None, {"zone": "a"})


def test_a_flavor_without_labels_accepts_every_affinity() -> None:
    assert affinity_accepts(_affinity([_expression("zone", "In", "b")]), {})
    assert affinity_accepts(None, {"zone": "a"})


def test_a_term_with_only_foreign_keys_leaves_the_whole_affinity_open() -> None:
    terms = _affinity([_expression("zone", "In", "b")], [_expression("disk", "In", "ssd")])
    assert affinity_accepts(terms, {"zone": "a"})
    assert not affinity_accepts(terms, {"zone": "a", "disk": "hdd"})


def test_a_term_with_only_match_fields_counts_as_empty() -> None:
    fields = {"matchFields": [_expression("metadata.name", "In", "n1")]}
    zone = {"matchExpressions": [_expression("zone", "In", "b")]}
    terms = convert({"nodeSelectorTerms": [zone, fields]}, NodeSelector)
    assert affinity_accepts(terms, {"zone": "a"})


def test_foreign_expressions_of_a_term_are_dropped() -> None:
    terms = _affinity([_expression("zone", "In", "a"), _expression("disk", "In", "ssd")])
    assert affinity_accepts(terms, {"zone": "a"})
    assert not affinity_accepts(terms, {"zone": "b"})


def test_affinity_may_compare_numbers() -> None:
    terms = _affinity([_expression("generation", "Gt", "3")])
    assert affinity_accepts(terms, {"generation": "4"})
    assert not affinity_accepts(terms, {"generation": "3"})
    assert not affinity_accepts(terms, {"generation": "new"})


@pytest.mark.parametrize(
    "expression",
    [
        _expression("zone", "Near", "a"),
        _expression("zone", "In"),
        _expression("zone", "Gt", "a"),
        _expression("zone", "Gt", "1", "2"),
        _expression("zone", "Exists", "a"),
    ],
)
def test_a_malformed_term_is_an_error_only_when_no_other_term_matches(
    expression: dict[str, object],
) -> None:
    with pytest.raises(SelectorError):
        affinity_accepts(_affinity([expression], [_expression("zone", "In", "b")]), {"zone": "a"})
    assert affinity_accepts(
        _affinity([expression], [_expression("zone", "In", "a")]), {"zone": "a"}
    )
