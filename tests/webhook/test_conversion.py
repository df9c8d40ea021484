# SPDX-License-Identifier: Apache-2.0
"""Conversion reviews between the two versions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kuota.api.base import Json
from kuota.api.convert import convert
from kuota.webhook.review import InvalidReview
from webhook.reviews import cluster_queue, converted, workload

OLD, NEW = "kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"


def review(wanted: str, *objects: Any, **change: Any) -> bytes:
    request = {"uid": "u", "desiredAPIVersion": wanted, "objects": list(objects)}
    whole = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    return msgspec.json.encode(whole | {"request": request} | change)


def said(wanted: str, *objects: Any) -> Json:
    whole: Json = msgspec.json.decode(converted(review(wanted, *objects)))
    assert ("ConversionReview", "u") == (whole["kind"], whole["response"]["uid"])
    response: Json = whole["response"]
    return response


def test_objects_come_back_in_their_order_and_in_the_version_asked_for() -> None:
    given = [cluster_queue("v1beta1", cohort="c"), workload(), workload("v1beta1")]
    answer = said(NEW, *given)
    assert "Success" == answer["result"]["status"]
    assert [convert(each, "v1beta2") for each in given] == answer["convertedObjects"]
    assert "c" == answer["convertedObjects"][0]["spec"]["cohortName"]


def test_metadata_is_not_touched() -> None:
    given = cluster_queue() | {"metadata": {"name": "x", "uid": "1", "annotations": {"a": "b"}}}
    (found,) = said(OLD, given)["convertedObjects"]
    assert given["metadata"] == found["metadata"]


def test_nothing_to_convert_is_a_success() -> None:
    assert {"status": "Success"} == said(NEW)["result"]


@pytest.mark.parametrize(
    ("wanted", "obj"),
    [
        (NEW, {"apiVersion": "batch/v1", "kind": "Job"}),
        ("kueue.x-k8s.io/v1", cluster_queue()),
        ("batch/v1", cluster_queue()),
        (OLD, {"apiVersion": "kueue.x-k8s.io/v1alpha1", "kind": "Topology"}),
        (OLD, 7),
        (OLD, {"apiVersion": 7}),
    ],
)
def test_one_object_that_cannot_be_converted_fails_the_whole(wanted: str, obj: Any) -> None:
    answer = said(wanted, cluster_queue(wanted.rpartition("/")[2]) | {"apiVersion": wanted}, obj)
    assert "Failure" == answer["result"]["status"]
    assert answer["result"]["message"]
    assert [] == answer["convertedObjects"]


def test_fields_of_the_wrong_type_pass_through_conversion() -> None:
    malformed = cluster_queue() | {"spec": [1], "status": "x"}
    (found,) = said(OLD, malformed)["convertedObjects"]
    assert ([1], "x") == (found["spec"], found["status"])


@pytest.mark.parametrize(
    "change",
    [
        {"apiVersion": "apiextensions.k8s.io/v1beta1"},
        {"kind": "AdmissionReview"},
        {"request": None},
        {"request": {"uid": "u", "objects": {}}},
    ],
)
def test_what_is_no_conversion_review_is_not_answered_as_one(change: Json) -> None:
    with pytest.raises(InvalidReview):
        converted(review(NEW, **change))


def test_bytes_that_are_no_json_are_unreadable() -> None:
    with pytest.raises(InvalidReview):
        converted(b"\xff{")
