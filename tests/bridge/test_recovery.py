# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest

from bridge.objects import NOON, at, condition
from kuota.api.base import Json
from kuota.api.core import Node, Pod
from kuota.bridge.recovery import (
    FAILED,
    GRACE_S,
    SAFE_TO_DELETE,
    TAINT,
    Recovery,
    is_recoverable,
    recovery,
)


def _pod(status: Json | None = None, **meta: object) -> Pod:
    """A pod that should have gone at noon."""
    known: Json = {
        "name": "p",
        "annotations": {SAFE_TO_DELETE: "true"},
        "deletionTimestamp": at(0),
    }
    record = {"metadata": {**known, **meta}, "spec": {"nodeName": "n"}, "status": status or {}}
    return msgspec.convert(record, Pod)


def _node(*taints: str) -> Node:
    listed = [{"key": each, "effect": "NoExecute"} for each in taints]
    return msgspec.convert({"metadata": {"name": "n"}, "spec": {"taints": listed}}, Node)


LOST = _node(TAINT)


def test_a_pod_is_given_up_a_minute_after_it_should_have_gone() -> None:
    early = recovery(_pod(), LOST, NOON + 20)
    assert Recovery(requeue_after_s=GRACE_S - 20) == early
    late = recovery(_pod({"phase": "Running"}), LOST, NOON + GRACE_S)
    assert late.delete
    assert "Failed" == late.status["phase"]
    assert [FAILED] == [each["type"] for each in late.status["conditions"]]


def test_other_conditions_of_the_pod_are_kept() -> None:
    found = recovery(_pod({"conditions": [condition("Ready", False)]}), LOST, NOON + GRACE_S)
    assert ["Ready", FAILED] == [each["type"] for each in found.status["conditions"]]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_ended_before_keeps_its_phase(phase: str) -> None:
    found = recovery(_pod({"phase": phase}), LOST, NOON + GRACE_S)
    assert (True, phase) == (found.delete, found.status["phase"])
    assert [FAILED] == [each["type"] for each in found.status["conditions"]]


def test_a_pod_whose_status_was_written_before_is_only_deleted() -> None:
    found = recovery(_pod({"conditions": [condition(FAILED)]}), LOST, NOON + GRACE_S)
    assert (True, {}) == (found.delete, found.status)


@pytest.mark.parametrize("node", [None, _node(), _node("node.kubernetes.io/not-ready")])
def test_a_pod_is_waited_for_while_its_node_may_answer(node: Node | None) -> None:
    assert Recovery() == recovery(_pod(), node, NOON + GRACE_S)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(_pod(annotations={}), id="did not opt in"),
        pytest.param(_pod(annotations={SAFE_TO_DELETE: "yes"}), id="opted in otherwise"),
        pytest.param(_pod(deletionTimestamp=None), id="is to stay"),
        pytest.param(_pod({"phase": "Failed"}, deletionGracePeriodSeconds=0), id="was given up"),
    ],
)
def test_other_pods_are_left_alone(pod: Pod) -> None:
    assert not is_recoverable(pod)
    assert Recovery() == recovery(pod, LOST, NOON + 1000)


def test_a_pod_that_nothing_queued_may_opt_in() -> None:
    assert is_recoverable(_pod(labels={}))
