# SPDX-License-Identifier: Apache-2.0
"""Any request body gets a response or a decoding error."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuota.webhook.review import InvalidReview
from kuota.webhook.reviews import AdmissionReviews
from webhook.reviews import Objects, cluster_queue, converted, job, review, workload

PATHS = (
    "/mutate-batch-v1-job",
    "/validate-batch-v1-job",
    "/mutate--v1-pod",
    "/mutate-kueue-x-k8s-io-v1beta2-workload",
    "/validate-kueue-x-k8s-io-v1beta2-workload",
    "/validate-kueue-x-k8s-io-v1beta2-clusterqueue",
    "/validate-kueue-x-k8s-io-v1beta2-cohort",
    "/mutate-kueue-x-k8s-io-v1beta2-resourceflavor",
)
WORDS = st.sampled_from(
    ["", "kind", "Job", "Workload", "metadata", "labels", "spec", "status", "podSets", "template"]
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | WORDS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=20,
)


@pytest.fixture(autouse=True)
def _no_faults_of_ours(caplog: pytest.LogCaptureFixture) -> Any:
    """A rule that trips is logged with its trace: then the test fails, though it was answered."""
    yield
    assert [] == [each for each in caplog.records if each.levelno >= logging.ERROR]


def ask(path: str, body: bytes) -> Any:
    try:
        return msgspec.json.decode(asyncio.run(AdmissionReviews(Objects()).answer(path, body)))
    except InvalidReview:
        return None


def spoilt(obj: Any, way: list[int], value: Any) -> Any:
    """The object with something else somewhere in it: `way` says where."""
    if not way or not isinstance(obj, dict | list) or not obj:
        return value
    if isinstance(obj, list):
        at = way[0] % len(obj)
        return [*obj[:at], spoilt(obj[at], way[1:], value), *obj[at + 1 :]]
    key = list(obj)[way[0] % len(obj)]
    return obj | {key: spoilt(obj[key], way[1:], value)}


@given(st.sampled_from(PATHS), st.binary(max_size=200))
def test_any_bytes(path: str, body: bytes) -> None:
    said = ask(path, body)
    assert said is None or said["kind"] == "AdmissionReview"


@given(st.binary(max_size=200))
def test_any_bytes_to_be_converted(body: bytes) -> None:
    with contextlib.suppress(InvalidReview):
        converted(body)


@settings(deadline=None)
@given(st.sampled_from(PATHS), anything, anything, st.sampled_from(["CREATE", "UPDATE", "x"]))
def test_any_json_as_the_object(path: str, obj: Any, old: Any, operation: str) -> None:
    said = ask(path, review(obj, operation, old))
    assert said is not None
    assert isinstance(said["response"]["allowed"], bool)


@settings(deadline=None, max_examples=300)
@given(
    st.sampled_from(
        [
            (job(queue="q"), "/mutate-batch-v1-job"),
            (job(queue="q"), "/validate-batch-v1-job"),
            (workload(), "/validate-kueue-x-k8s-io-v1beta2-workload"),
            (workload("v1beta1"), "/validate-kueue-x-k8s-io-v1beta2-workload"),
            (cluster_queue(), "/validate-kueue-x-k8s-io-v1beta2-clusterqueue"),
            (cluster_queue(), "/mutate-kueue-x-k8s-io-v1beta2-clusterqueue"),
        ]
    ),
    st.lists(st.integers(0, 9), min_size=1, max_size=7),
    anything,
    st.booleans(),
)
def test_a_sound_object_with_anything_anywhere_in_it(
    start: tuple[Any, str], way: list[int], value: Any, changed: bool
) -> None:
    obj, path = start
    malformed = spoilt(obj, way, value)
    old = obj if changed else None
    said = ask(path, review(malformed, "UPDATE" if changed else "CREATE", old))
    assert said is not None
    if not said["response"]["allowed"]:
        assert said["response"]["status"]["code"] in (400, 403)


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), anything)
def test_anything_anywhere_in_what_is_to_be_converted(way: list[int], value: Any) -> None:
    for obj, wanted in ((cluster_queue(), "v1beta1"), (workload("v1beta1"), "v1beta2")):
        request = {
            "uid": "u",
            "desiredAPIVersion": f"kueue.x-k8s.io/{wanted}",
            "objects": [spoilt(obj, way, value)],
        }
        whole = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
        body = msgspec.json.encode(whole | {"request": request})
        assert b'"status":"' in converted(body)


@pytest.mark.parametrize(
    "deep", [b"[" * 100_000, b'{"a":' * 100_000, b'{"request":' + b'{"object":' * 50_000]
)
def test_depth_without_end(deep: bytes) -> None:
    for path in PATHS:
        assert ask(path, deep) is None
    start, end = review("MARK").split(b'"MARK"')
    nested = start + b"[" * 100_000 + b"]" * 100_000 + end
    for path in PATHS:
        said = ask(path, nested)
        assert said is None or "response" in said
