# SPDX-License-Identifier: Apache-2.0
"""Fields that the server sets, and their field managers."""

from __future__ import annotations

from kuota.api.base import Json
from server.served import APPLY, MERGE, Local, namespace


def test_applying_no_field_is_tracked_from_the_second_time_on(api: Local) -> None:
    body, path = namespace("bare"), "/api/v1/namespaces/bare"
    made = api.ask("PATCH", path, body, media=APPLY, fieldManager="kubectl")
    assert "managedFields" not in made["metadata"]
    again = api.ask("PATCH", path, body, media=APPLY, fieldManager="kubectl")
    (entry,) = again["metadata"]["managedFields"]
    assert ("before-first-apply", "Update") == (entry["manager"], entry["operation"])
    labels: Json = {".": {}, "f:kubernetes.io/metadata.name": {}}
    fields = {"f:metadata": {"f:labels": labels}, "f:spec": {"f:finalizers": {}}}
    assert fields == entry["fieldsV1"]


def test_the_label_of_a_namespace_is_owned_by_who_made_it_and_cannot_go(api: Local) -> None:
    label = "kubernetes.io/metadata.name"
    made = api.ask("POST", "/api/v1/namespaces", namespace("bare"), fieldManager="kubectl-create")
    (entry,) = made["metadata"]["managedFields"]
    assert {"f:metadata": {"f:labels": {".": {}, f"f:{label}": {}}}} == entry["fieldsV1"]
    patch = {"metadata": {"labels": {label: None}}}
    after = api.ask("PATCH", "/api/v1/namespaces/bare", patch, media=MERGE)
    assert {label: "bare"} == after["metadata"]["labels"]


def test_a_limit_range_says_what_follows_from_it(api: Local) -> None:
    container = {"type": "Container", "max": {"cpu": "2", "memory": "1Gi"}, "min": {"cpu": "1"}}
    items = [container | {"default": {"cpu": "1500m"}}, {"type": "Pod", "max": {"cpu": "3"}}]
    body = {"metadata": {"name": "limits"}, "spec": {"limits": items}}
    made = api.ask("POST", "/api/v1/namespaces/default/limitranges", body)
    first, second = made["spec"]["limits"]
    assert {"cpu": "1500m", "memory": "1Gi"} == first["default"] == first["defaultRequest"]
    assert {"type": "Pod", "max": {"cpu": "3"}} == second
