# SPDX-License-Identifier: Apache-2.0
"""The runner: its output, its exit status, and that wrong expectations fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.__main__ import main
from conformance.case import Difference, Run, check, load, same
from conformance.recorder import whole
from conformance.registry import SUITES, Adapter, Exercise, load_adapters, suite

TOY = "toy/TestAdd"
CASE = {"id": "toy/TestAdd/001-two", "inputs": {"terms": [1, 1]}, "expected": {"sum": 2}}


def add(run: Run) -> None:
    """A toy adapter: adds, or multiplies under the gate Product."""
    total = 1 if run.gates.get("Product") else 0
    for term in run.inputs["terms"]:
        total = total * term if run.gates.get("Product") else total + term
    same(run.expected["sum"], total, ".sum")


@pytest.fixture(autouse=True)
def toy_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SUITES, TOY, Adapter(add, ignores={"inputs.remark": "nothing to add"}))


def written(root: Path, *records: dict[str, Any], at: str = TOY) -> str:
    """A directory of cases holding `records` as one suite, as the argument of the command."""
    path = root / f"{at}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(root)


def test_a_case_that_agrees_passes_with_its_id_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([written(tmp_path, CASE)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "PASS toy/TestAdd/001-two",
        "1 passed case exercises a pure function",
        "1 passed, 0 failed, 0 skipped",
    ]


def test_a_case_that_disagrees_fails_with_the_first_difference_and_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([written(tmp_path, CASE, CASE | {"id": "b", "expected": {"sum": 3}})]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "PASS toy/TestAdd/001-two",
        "FAIL b: .sum: want 3, got 2",
        "1 passed case exercises a pure function",
        "1 passed, 1 failed, 0 skipped",
    ]


def test_a_case_described_by_a_function_is_skipped_with_the_name_of_that_function(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([written(tmp_path, CASE | {"opaque": ["setup"]})]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "SKIP toy/TestAdd/001-two: opaque: setup",
        "0 passed, 0 failed, 1 skipped",
    ]


def test_a_suite_without_an_adapter_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([written(tmp_path, {"inputs": {}}, at="toy/TestUnknown")]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "FAIL toy/TestUnknown/001: no adapter for suite toy/TestUnknown",
        "0 passed, 1 failed, 0 skipped",
    ]


def outcome(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], record: dict[str, Any], at: str = TOY
) -> str:
    """The line that the run prints about one case."""
    main([written(tmp_path, record, at=at)])
    return capsys.readouterr().out.splitlines()[0]


def test_an_input_that_is_not_read_fails_its_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASE | {"inputs": {"terms": [1, 1], "round": "up"}}
    assert outcome(tmp_path, capsys, case) == f"FAIL {CASE['id']}: unread: inputs.round"


def test_an_empty_input_that_is_not_read_fails_its_case_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASE | {"inputs": {"terms": [1, 1], "round": None}}
    assert outcome(tmp_path, capsys, case) == f"FAIL {CASE['id']}: unread: inputs.round"


def test_an_expectation_that_is_not_compared_fails_its_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASE | {"expected": {"sum": 2, "product": 1}}
    assert outcome(tmp_path, capsys, case) == f"FAIL {CASE['id']}: unread: expected.product"


def test_gates_and_settings_that_are_not_read_fail_their_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASE | {"featureGates": {"Other": True}, "config": {"cycles": 2}}
    found = outcome(tmp_path, capsys, case)
    assert found == f"FAIL {CASE['id']}: unread: config.cycles, gates.Other [Other=True]"


def test_what_an_adapter_declares_to_be_without_meaning_may_stay_unread(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASE | {"inputs": {"terms": [1, 1], "remark": {"by": "somebody"}}}
    assert outcome(tmp_path, capsys, case) == f"PASS {CASE['id']}"


def test_a_value_that_is_read_and_not_compared_fails_an_altered_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def drops_the_unit(run: Run) -> None:
        wanted = whole(run.expected)
        wanted.pop("unit")
        same(wanted, {"sum": sum(run.inputs["terms"])})

    monkeypatch.setitem(SUITES, TOY, Adapter(drops_the_unit))
    cases = written(tmp_path, CASE | {"expected": {"sum": 2, "unit": "m"}})
    assert main([cases]) == 0
    assert main(["--alter", cases]) == 1
    assert f"FAIL {CASE['id']}: passes with other values: unit" in capsys.readouterr().out


def test_an_altered_run_of_a_case_that_compares_all_passes(tmp_path: Path) -> None:
    assert main(["--alter", written(tmp_path, CASE)]) == 0


def test_an_adapter_that_returns_early_fails_its_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SUITES, TOY, Adapter(lambda run: None))
    assert (
        outcome(tmp_path, capsys, CASE) == f"FAIL {CASE['id']}: unread: inputs.terms, expected.sum"
    )


def test_every_declaration_has_a_reason() -> None:
    adapters = load_adapters()
    for name, adapter in adapters.items():
        for pattern, reason in adapter.ignores.items():
            assert pattern.split(".")[0] in ("inputs", "expected", "config", "gates"), name
            assert len(reason.split()) > 2, (name, pattern)


@pytest.mark.parametrize(
    ("expected", "exercises", "line"),
    [
        ({"sum": 2}, Exercise.PATH, "1 passed case exercises a product path"),
        ({"sum": 2}, Exercise.FUNCTION, "1 passed case exercises a pure function"),
        ({"sum": 0}, Exercise.PATH, "1 passed case exercises a negative: "),
        ({"sum": 2, "wantErr": "x"}, Exercise.PATH, "1 passed case exercises a negative: "),
    ],
)
def test_the_run_counts_what_its_cases_exercise(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    expected: dict[str, Any],
    exercises: Exercise,
    line: str,
) -> None:
    def reads_all(run: Run) -> None:
        whole(run.inputs), whole(run.expected)

    monkeypatch.setitem(SUITES, TOY, Adapter(reads_all, exercises))
    main([written(tmp_path, CASE | {"expected": expected})])
    assert capsys.readouterr().out.splitlines()[1].startswith(line)


def test_an_exception_fails_its_case_and_the_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([written(tmp_path, {"id": "a", "inputs": {}}, CASE)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "FAIL a: KeyError: 'sum'",
        "PASS toy/TestAdd/001-two",
        "1 passed case exercises a pure function",
        "1 passed, 1 failed, 0 skipped",
    ]


def test_a_case_must_hold_under_each_of_its_gate_sets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    product = {"Product": True}
    right = CASE | {"variants": [{"featureGates": product, "expected": {"sum": 1}}]}
    wrong = CASE | {"id": "also", "alsoHoldsWith": [{"Product": False}, product]}
    assert main([written(tmp_path, right, wrong)]) == 1
    assert capsys.readouterr().out.splitlines()[:2] == [
        "PASS toy/TestAdd/001-two",
        "FAIL also: .sum: want 2, got 1 [Product=True]",
    ]


def test_groups_named_on_the_command_line_are_the_only_ones_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, {"inputs": {}}, at="other/TestUnknown")
    assert main([written(tmp_path, CASE), "toy"]) == 0
    assert "1 passed, 0 failed, 0 skipped" in capsys.readouterr().out


@pytest.mark.parametrize("argv", [[], ["no-such-directory"]])
def test_without_a_directory_of_cases_the_status_is_2(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert "usage" in capsys.readouterr().err


def test_a_group_without_cases_is_a_mistake_of_the_caller_and_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([written(tmp_path, CASE), "schedular"]) == 2
    assert "no cases" in capsys.readouterr().err


def test_cases_come_by_file_name_and_then_by_line(tmp_path: Path) -> None:
    written(tmp_path, {}, {}, at="b/TestTwo")
    written(tmp_path, {"id": "named"}, at="a/TestOne")
    assert [case.id for case in load(tmp_path)] == ["named", "b/TestTwo/001", "b/TestTwo/002"]


def test_a_suite_cannot_have_two_adapters() -> None:
    with pytest.raises(ValueError, match="toy/TestAdd has two adapters"):
        suite(TOY)(add)


@pytest.mark.parametrize("empty", [None, "", 0, False, [], {}])
def test_empty_equals_absent(empty: Any) -> None:
    same({"a": empty}, {})
    same({}, {"a": empty})


@pytest.mark.parametrize(
    ("expected", "actual", "place"),
    [
        ({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, r"\.a\[0\]\.b: want 1, got 2"),
        ([1], [1, 2], r"\[1\]: want null, got 2"),
        ([1, 0], [1], r"\[1\]: want 0, got null"),
        ({"a": {"b": 1}}, {"a": [1]}, r"\.a: want"),
        ("x", None, r"\.: want \"x\", got null"),
    ],
)
def test_the_first_difference_is_reported_with_its_place(
    expected: Any, actual: Any, place: str
) -> None:
    with pytest.raises(Difference, match=place):
        same(expected, actual)


def test_a_false_claim_is_a_difference() -> None:
    check(True, "not raised")
    with pytest.raises(Difference, match="too many victims"):
        check(False, "too many victims")
