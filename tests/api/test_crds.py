# SPDX-License-Identifier: Apache-2.0
"""The generated CustomResourceDefinitions are complete, structural, and consistent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kuota.api.base import Json
from kuota.api.constraints import constraints
from kuota.api.crds import KINDS, VERSIONS, crds
from kuota.api.descriptions import descriptions
from kuota.api.schema import structural_schema
from kuota.api.schema.cel import cel_rules
from kuota.cli.crds import command

REPOSITORY = Path(__file__).parents[2]
NAMES = [kind.name for kind in KINDS]
BOTH = [(kind, version) for kind in NAMES for version in VERSIONS]


def listed_fields() -> Iterator[tuple[str, str]]:
    kind = ""
    for line in (Path(__file__).parent / "fields-v1beta2.txt").read_text().splitlines():
        if line.startswith("  "):
            yield kind, line.strip()
        elif line and not line.startswith("#"):
            kind = line


def node(schema: Json, path: str) -> Json:
    """The schema at a path as the tables write it. KeyError where there is none."""
    for step in filter(None, re.split(r"\.|(\[\])|(\{\})", path)):
        if step == "[]":
            schema = schema["items"]
        elif step == "{}":
            schema = schema["additionalProperties"]
        else:
            schema = schema["properties"][step]
    return schema


def nodes(schema: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    yield path, schema
    for name, below in schema.get("properties", {}).items():
        yield from nodes(below, f"{path}.{name}")
    for word, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if word in schema:
            yield from nodes(schema[word], path + mark)


def versions_of(name: str) -> dict[str, Json]:
    (found,) = (each for each in crds() if each["spec"]["names"]["kind"] == name)
    return {version["name"]: version for version in found["spec"]["versions"]}


@pytest.mark.parametrize(("kind", "path"), list(listed_fields()))
def test_every_field_of_v1beta2_is_in_the_schema(kind: str, path: str) -> None:
    assert node(structural_schema(kind, "v1beta2"), path)


@pytest.mark.parametrize(("kind", "version"), BOTH)
def test_every_line_of_the_tables_is_about_a_field(kind: str, version: str) -> None:
    schema = structural_schema(kind, version)
    for path in (*constraints(kind, version), *cel_rules(kind, version)):
        assert node(schema, path), path


@pytest.mark.parametrize(("kind", "version"), BOTH)
def test_every_field_says_what_it_is_for(kind: str, version: str) -> None:
    schema = structural_schema(kind, version)
    assert schema["description"]
    for path, below in nodes(schema):
        for name, field in below.get("properties", {}).items():
            if ".template." not in f"{path}." and (path, name) != ("", "metadata"):
                words = field.get("description", "")
                assert words.endswith("."), f"{path}.{name}: {words!r}"


@pytest.mark.parametrize(("kind", "version"), BOTH)
def test_nothing_is_said_of_an_objects_own_metadata(kind: str, version: str) -> None:
    # API servers refuse definitions that do, even if it is only a description.
    assert {"type": "object"} == structural_schema(kind, version)["properties"]["metadata"]


@pytest.mark.parametrize("kind", NAMES)
def test_no_description_is_of_a_field_that_is_not_there(kind: str) -> None:
    schemas = [structural_schema(kind, version) for version in VERSIONS]
    for path in descriptions(kind):
        assert any(has(schema, path) for schema in schemas), path


def has(schema: Json, path: str) -> bool:
    try:
        return bool(node(schema, path))
    except KeyError:
        return False


@pytest.mark.parametrize(("kind", "version"), BOTH)
def test_every_node_is_structural(kind: str, version: str) -> None:
    for path, schema in nodes(structural_schema(kind, version)):
        if "x-kubernetes-int-or-string" in schema:
            assert "type" not in schema, path
            continue
        assert schema["type"] in {"object", "array", "string", "integer", "boolean"}, path
        assert not {"$ref", "oneOf", "anyOf", "allOf", "nullable"} & schema.keys(), path
        assert (schema["type"] == "array") == ("items" in schema), path
        assert not {"properties", "additionalProperties"} <= schema.keys(), path
        assert set(schema.get("required", ())) <= schema.get("properties", {}).keys(), path


@pytest.mark.parametrize(("kind", "version"), BOTH)
def test_keys_of_list_maps_are_always_there(kind: str, version: str) -> None:
    for path, schema in nodes(structural_schema(kind, version)):
        assert ("x-kubernetes-list-map-keys" in schema) == (
            schema.get("x-kubernetes-list-type") == "map"
        ), path
        for key in schema.get("x-kubernetes-list-map-keys", ()):
            items = schema["items"]
            present = key in items.get("required", ()) or "default" in items["properties"][key]
            assert present, f"{path}: {key}"


@pytest.mark.parametrize(("kind", "version"), BOTH)
def test_cel_rules_have_matching_brackets_and_quotes(kind: str, version: str) -> None:
    for rules in cel_rules(kind, version).values():
        for each in rules:
            assert each.rule.count("(") == each.rule.count(")"), each.rule
            assert each.rule.count("[") == each.rule.count("]"), each.rule
            assert each.rule.count("'") % 2 == 0, each.rule
            assert "self" in each.rule
            assert each.message


@pytest.mark.parametrize(("kind", "version"), BOTH)
def test_fields_named_in_cel_rules_exist(kind: str, version: str) -> None:
    schema = structural_schema(kind, version)
    for path, rules in cel_rules(kind, version).items():
        for each in rules:
            for found in re.findall(r"\b(?:oldSelf|self)((?:\.[a-z]\w*)+)(\(?)", each.rule):
                dotted, call = found
                steps = dotted.strip(".").split(".")[: -1 if call else None]
                assert node(node(schema, path), ".".join(steps)) is not None


def test_quantities_are_ints_or_strings_of_the_right_form() -> None:
    path = "spec.resourceGroups[].flavors[].resources[].nominalQuota"
    quota = node(structural_schema("ClusterQueue", "v1beta2"), path)
    assert quota["x-kubernetes-int-or-string"] is True
    for good in ("5", "500m", "5Gi", "1e3", "+.5", "1.5E2"):
        assert re.match(quota["pattern"], good)
    for bad in ("5Gx", "", "Gi", "5 Gi", "1..2"):
        assert not re.match(quota["pattern"], bad)


@pytest.mark.parametrize("version", VERSIONS)
def test_queues_and_cohorts_are_held_to_the_same_rules_for_resource_groups(version: str) -> None:
    at = "spec.resourceGroups[]"
    queue, cohort = (
        node(structural_schema(kind, version), at) for kind in ("ClusterQueue", "Cohort")
    )
    rules = "x-kubernetes-validations"
    assert queue[rules] == cohort[rules]


def test_limits_that_only_the_older_version_has() -> None:
    flavors = node(structural_schema("LocalQueue", "v1beta1"), "status.flavors")
    assert 64 == flavors["maxItems"]
    profile = "spec.clusterProfileRef.name"
    assert 1 == node(structural_schema("MultiKueueCluster", "v1beta1"), profile)["minLength"]


def test_a_field_says_all_that_its_table_says() -> None:
    schema = structural_schema("Workload", "v1beta2")
    count = {"type": "integer", "format": "int32", "minimum": 0, "default": 1}
    count["description"] = "The number of pods."
    assert count == node(schema, "spec.podSets[].count")
    assert ["template"] == node(schema, "spec.podSets[]")["required"]
    pod_sets = node(schema, "spec.podSets")
    assert ("map", ["name"], 1, 18) == (
        pod_sets["x-kubernetes-list-type"],
        pod_sets["x-kubernetes-list-map-keys"],
        pod_sets["minItems"],
        pod_sets["maxItems"],
    )
    share = node(structural_schema("Cohort", "v1beta2"), "status.fairSharing.weightedShare")
    assert ("integer", "int64") == (share["type"], share["format"])


def test_pod_templates_keep_what_the_schema_does_not_know_in_spec_but_not_in_metadata() -> None:
    template = node(structural_schema("Workload", "v1beta2"), "spec.podSets[].template")
    assert template["properties"]["spec"]["x-kubernetes-preserve-unknown-fields"] is True
    assert {"labels", "annotations"} == template["properties"]["metadata"]["properties"].keys()
    assert "x-kubernetes-preserve-unknown-fields" not in template["properties"]["metadata"]


def test_only_cluster_queues_report_what_they_borrow() -> None:
    assert node(
        structural_schema("ClusterQueue", "v1beta2"), "status.flavorsUsage[].resources[].borrowed"
    )
    with pytest.raises(KeyError):
        node(
            structural_schema("LocalQueue", "v1beta2"), "status.flavorsUsage[].resources[].borrowed"
        )


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("ClusterQueue", "spec.cohortName"),
        ("ClusterQueue", "spec.concurrentAdmissionPolicy"),
        ("LocalQueue", "status.flavorsUsage"),
        ("MultiKueueCluster", "spec.clusterSource"),
        ("MultiKueueConfig", "spec.quotaManagement"),
        ("Workload", "spec.priorityClassRef"),
        ("Workload", "spec.preemptionGates"),
        ("Workload", "status.preemptionGates"),
        ("Workload", "status.accumulatedPastExecutionTimeSeconds"),
        ("Workload", "spec.podSets[].topologyRequest.podsetSliceRequiredTopologyConstraints"),
        ("Workload", "status.admission.podSetAssignments[].topologyAssignment.slices"),
    ],
)
def test_v1beta1_lacks_what_came_later(kind: str, path: str) -> None:
    assert node(structural_schema(kind, "v1beta2"), path)
    with pytest.raises(KeyError):
        node(structural_schema(kind, "v1beta1"), path)


def test_v1beta1_has_the_looser_limits() -> None:
    queue = structural_schema("ClusterQueue", "v1beta1")
    assert "maxItems" not in node(queue, "status.conditions")
    assert "Borrow" in node(queue, "spec.flavorFungibility.whenCanBorrow")["enum"]
    check = structural_schema("AdmissionCheck", "v1beta1")
    assert "minLength" not in node(check, "spec.controllerName")
    assert 15 == node(check, "spec.retryDelayMinutes")["default"]


def test_both_versions_are_served_and_the_newer_is_stored() -> None:
    for name in NAMES:
        found = versions_of(name)
        assert [("v1beta1", True, False), ("v1beta2", True, True)] == [
            (each["name"], each["served"], each["storage"]) for each in found.values()
        ]
        assert (name != "MultiKueueConfig") == ("deprecationWarning" in found["v1beta1"])
        assert "deprecated" not in found["v1beta2"]


def test_five_kinds_are_converted_by_webhook() -> None:
    converted = {
        each["spec"]["names"]["kind"]
        for each in crds()
        if each["spec"]["conversion"]["strategy"] == "Webhook"
    }
    assert {"Workload", "LocalQueue", "ClusterQueue", "Cohort", "MultiKueueCluster"} == converted


def test_columns_and_selectable_fields_follow_the_version() -> None:
    queue, workload = versions_of("ClusterQueue"), versions_of("Workload")
    assert ".spec.cohort" == queue["v1beta1"]["additionalPrinterColumns"][0]["jsonPath"]
    assert ".spec.cohortName" == queue["v1beta2"]["additionalPrinterColumns"][0]["jsonPath"]
    assert [{"jsonPath": ".status.admission.clusterQueue"}] == workload["v1beta2"][
        "selectableFields"
    ]
    assert "selectableFields" not in workload["v1beta1"]


def test_kinds_without_status_have_no_status_subresource() -> None:
    for kind in KINDS:
        for version in versions_of(kind.name).values():
            assert kind.has_status == ("subresources" in version)
            properties = version["schema"]["openAPIV3Schema"]["properties"]
            assert kind.has_status == ("status" in properties)


def test_one_version_alone_needs_no_webhook() -> None:
    for each in crds("v1beta2"):
        assert "None" == each["spec"]["conversion"]["strategy"]
        assert ["v1beta2"] == [version["name"] for version in each["spec"]["versions"]]
    with pytest.raises(ValueError, match="v1alpha1"):
        crds("v1alpha1")


def test_the_command_prints_yaml_or_json_that_kubectl_takes() -> None:
    printed = CliRunner().invoke(command, [])
    assert crds() == list(yaml.safe_load_all(printed.output))
    listed = CliRunner().invoke(command, ["--version", "v1beta2", "-o", "json"])
    assert crds("v1beta2") == yaml.safe_load(listed.output)["items"]


def test_a_stale_file_is_found_and_named(tmp_path: Path) -> None:
    folder = str(tmp_path)
    assert 0 == CliRunner().invoke(command, ["--write", folder]).exit_code
    assert 0 == CliRunner().invoke(command, ["--check", folder]).exit_code
    (tmp_path / "cohorts.yaml").write_text("kind: Cohort\n")
    (tmp_path / "topologies.yaml").unlink()
    (tmp_path / "zebras.yaml").write_text("")
    found = CliRunner().invoke(command, ["--check", folder])
    assert 1 == found.exit_code
    assert "cohorts.yaml, topologies.yaml, zebras.yaml" in found.output
    assert "--write" in found.output


def test_the_files_in_the_repository_are_fresh() -> None:
    found = CliRunner().invoke(command, ["--check", str(REPOSITORY / "manifests" / "crds")])
    assert 0 == found.exit_code, found.output
