# SPDX-License-Identifier: Apache-2.0
"""ConfigMaps and Secrets have at most 1 MiB of data, as in Kubernetes."""

from __future__ import annotations

from base64 import b64encode

import pytest

from kuota.api.base import Json
from kuota.server.native_faults import native_faults
from server.served import Local

MOST = 1 << 20
TOO_LONG = "Too long: may not be more than 1048576 bytes"


def encoded(size: int) -> str:
    return b64encode(bytes(size)).decode()


def data_object(kind: str, **fields: object) -> Json:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "large"}, **fields}


LARGE = [
    ("configmaps", data_object("ConfigMap", data={"a": "x" * MOST}), {"b": "y"}, "[]"),
    ("configmaps", data_object("ConfigMap", data={"a": "é" * (MOST // 2)}), {"b": "y"}, "[]"),
    ("configmaps", data_object("ConfigMap", binaryData={"a": encoded(MOST)}), {"b": "y"}, "[]"),
    ("secrets", data_object("Secret", data={"a": encoded(MOST)}), {"b": encoded(1)}, "data"),
    ("secrets", data_object("Secret", stringData={"a": "x" * MOST}), {"b": encoded(1)}, "data"),
]


@pytest.mark.parametrize(("resource", "largest", "more", "field"), LARGE)
def test_data_beyond_a_mebibyte_is_rejected(
    resource: str, largest: Json, more: Json, field: str, api: Local
) -> None:
    where = f"/api/v1/namespaces/default/{resource}"
    larger = largest | {"data": largest.get("data", {}) | more}
    answer = api.refusal("POST", where, larger)
    assert (422, TOO_LONG in answer["message"]) == (answer["code"], True), answer["message"]
    assert [field] == [each["field"] for each in answer["details"]["causes"]]
    assert 201 == api.raw("POST", where, largest).status
    merge = "application/merge-patch+json"
    answer = api.refusal("PATCH", f"{where}/large", {"data": more}, media=merge)
    assert TOO_LONG in answer["message"]


def test_manifests_are_judged_alike_without_a_server() -> None:
    large = data_object("ConfigMap", data={"a": "x" * (MOST + 1)})
    assert ["[]"] == [each.path for each in native_faults(large)]
