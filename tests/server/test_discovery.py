# SPDX-License-Identifier: Apache-2.0
"""Discovery in both forms, OpenAPI, version and health."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from kuota.api.base import Json
from kuota.server.discovery import AGGREGATED
from server.full_objects import DEFINITION
from server.served import CRDS, Local

ACCEPT = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


def aggregated(api: Local, path: str) -> Json:
    answer = api.raw("GET", path, accept=ACCEPT)
    assert AGGREGATED == answer.content_type
    assert isinstance(answer.body, bytes)
    found: Json = msgspec.json.decode(answer.body)
    return found


def test_everything_is_discovered_at_once(api: Local) -> None:
    core = aggregated(api, "/api")
    assert ("APIGroupDiscoveryList", 1) == (core["kind"], len(core["items"]))
    pods = {each["resource"]: each for each in core["items"][0]["versions"][0]["resources"]}["pods"]
    assert ("Namespaced", ["po"], ["all"]) == (
        pods["scope"],
        pods["shortNames"],
        pods["categories"],
    )
    below = [each["subresource"] for each in pods["subresources"]]
    streams = ["exec", "attach", "portforward"]
    assert ["status", "log", "binding", "eviction", *streams] == below
    groups = {each["metadata"]["name"]: each for each in aggregated(api, "/apis")["items"]}
    kueue = groups["kueue.x-k8s.io"]["versions"]
    assert ["v1beta2", "v1beta1"] == [each["version"] for each in kueue]


def test_who_knows_only_an_earlier_form_of_everything_gets_the_old_one(api: Local) -> None:
    earlier = ACCEPT.partition(",")[2]
    answer = api.raw("GET", "/apis", accept=earlier)
    assert isinstance(answer.body, bytes)
    assert "APIGroupList" == msgspec.json.decode(answer.body)["kind"]


def test_both_forms_tell_the_same(api: Local) -> None:
    for group in aggregated(api, "/apis")["items"]:
        name = group["metadata"]["name"]
        for version in group["versions"]:
            old = api.ask("GET", f"/apis/{name}/{version['version']}/")
            plain = {each["name"]: each for each in old["resources"] if "/" not in each["name"]}
            assert [each["resource"] for each in version["resources"]] == list(plain)
            for each in version["resources"]:
                assert each["verbs"] == plain[each["resource"]]["verbs"]
                assert (each["scope"] == "Namespaced") == plain[each["resource"]]["namespaced"]
    assert ["v1"] == api.ask("GET", "/api")["versions"]
    names = {each["name"] for each in api.ask("GET", "/apis")["groups"]}
    assert {"batch", "kueue.x-k8s.io", "events.k8s.io", "apiextensions.k8s.io"} <= names
    assert "v1beta2" == api.ask("GET", "/apis/kueue.x-k8s.io")["preferredVersion"]["version"]


def test_installed_kinds_are_discovered_and_removed_ones_are_not(api: Local) -> None:
    before = api.ask("GET", "/openapi/v3")["paths"]
    api.ask("POST", CRDS, DEFINITION)
    assert "x.io" in {each["metadata"]["name"] for each in aggregated(api, "/apis")["items"]}
    after = api.ask("GET", "/openapi/v3")["paths"]
    assert {"apis/x.io/v1", "apis/x.io/v1beta1"} == set(after) - set(before)
    api.ask("DELETE", f"{CRDS}/things.x.io")
    assert 404 == api.refusal("GET", "/apis/x.io/v1")["code"]
    assert before == api.ask("GET", "/openapi/v3")["paths"]


def test_installed_kinds_are_served_again_after_a_restart(tmp_path: Any) -> None:
    path = str(tmp_path / "store")
    first = Local(path=path)
    first.ask("POST", CRDS, DEFINITION)
    thing = {"metadata": {"name": "a"}, "spec": {}}
    first.ask("POST", "/apis/x.io/v1/namespaces/default/things", thing)
    first.close()
    second = Local(path=path)
    found = second.ask("GET", "/apis/x.io/v1/things")
    assert ["a"] == [each["metadata"]["name"] for each in found["items"]]
    second.close()


def test_openapi_documents_say_what_kubectl_looks_for(api: Local) -> None:
    index = api.ask("GET", "/openapi/v3")["paths"]
    url = index["apis/batch/v1"]["serverRelativeURL"]
    document = api.ask("GET", url.partition("?")[0])
    item = document["paths"]["/apis/batch/v1/namespaces/{namespace}/jobs/{name}"]
    gvk = {"group": "batch", "version": "v1", "kind": "Job"}
    assert gvk == item["get"]["x-kubernetes-group-version-kind"]
    parameters = {each["name"] for each in item["patch"]["parameters"]}
    assert {"dryRun", "fieldManager", "fieldValidation", "force"} == parameters
    media = item["patch"]["requestBody"]["content"]
    assert "application/strategic-merge-patch+json" in media
    assert "application/apply-patch+yaml" in media
    schemas = document["components"]["schemas"]
    assert [gvk] == schemas["batch.v1.Job"]["x-kubernetes-group-version-kind"]
    containers = schemas["io.k8s.PodSpec"]["properties"]["containers"]
    assert "name" == containers["x-kubernetes-patch-merge-key"]


def test_every_reference_in_every_document_leads_somewhere(api: Local) -> None:
    api.ask("POST", CRDS, DEFINITION)
    for path in api.ask("GET", "/openapi/v3")["paths"]:
        document = api.ask("GET", f"/openapi/v3/{path}")
        known = set(document["components"]["schemas"])
        assert {name.rpartition("/")[2] for name in references(document)} <= known


def test_openapi_documents_describe_kubernetes_fields(api: Local) -> None:
    undescribed = {
        f"{name}.{field}"
        for path in api.ask("GET", "/openapi/v3")["paths"]
        for name, schema in api.ask("GET", f"/openapi/v3/{path}")["components"]["schemas"].items()
        if name.startswith("io.k8s.") and not name.endswith("List")
        for field, each in schema.get("properties", {}).items()
        if "description" not in each
    }
    assert {"io.k8s.CustomResourceValidation.openAPIV3Schema"} == undescribed


@pytest.mark.parametrize(
    "field",
    [
        {"type": "string", "allOf": [{"minLength": 1}, {"maxLength": 2}]},
        {"type": "string", "allOf": []},
        {"type": "string", "description": "mine", "allOf": [{"minLength": 1}]},
    ],
)
def test_documents_of_installed_kinds_keep_their_own_words(api: Local, field: Json) -> None:
    definition = copy.deepcopy(DEFINITION)
    for version in definition["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        schema["properties"] = {"spec": {"type": "object", "properties": {"f": field}}}
        version.pop("additionalPrinterColumns", None)
    api.ask("POST", CRDS, definition)
    document = api.ask("GET", "/openapi/v3/apis/x.io/v1")
    spec = document["components"]["schemas"]["io.x.v1.Thing"]["properties"]["spec"]
    assert field == spec["properties"]["f"]


def references(node: Any) -> set[str]:
    if isinstance(node, list):
        return {name for each in node for name in references(each)}
    if not isinstance(node, dict):
        return set()
    own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
    return own | {name for each in node.values() for name in references(each)}


def test_version_and_health_are_reported(api: Local) -> None:
    assert api.ask("GET", "/version")["gitVersion"].startswith("v1.")
    for path in ("/healthz", "/livez", "/readyz", "/readyz/ping"):
        assert b"ok" == api.raw("GET", path).body
