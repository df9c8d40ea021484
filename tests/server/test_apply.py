# SPDX-License-Identifier: Apache-2.0
"""Server-side apply and managedFields, rule by rule."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from kuota.api import fieldsets
from kuota.api.managed_fields import manager_name
from kuota.server.apply import ApplyConflict
from kuota.server.fieldwalk import ApplyError
from kuota.server.ownership_schema import Schema, custom_schema
from server.applying import LATER, NOW, Json, apply, config_map, owned, schema, track

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def test_entries_say_who_when_and_in_which_version() -> None:
    live = apply(None, config_map({"k": "1"}), "kubectl")
    after = track(live, live | {"data": {"k": "1", "l": "2"}}, "editor", now=LATER)
    expected = [
        {
            "manager": "kubectl",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": NOW,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:k": {}}},
        },
        {
            "manager": "editor",
            "operation": "Update",
            "apiVersion": "v1",
            "time": LATER,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:l": {}}},
        },
    ]

    assert expected == after["metadata"]["managedFields"]


def test_fields_set_by_the_server_have_no_manager() -> None:
    new = config_map(
        None, uid="u", resourceVersion="3", generation=1, creationTimestamp=NOW, labels={"a": "b"}
    )

    expected: Json = {"a Update": {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}}
    assert expected == owned(track(None, new))


def test_a_write_that_changes_nothing_leaves_the_entries_alone() -> None:
    live = track(None, config_map({"k": "1"}))

    assert live == track(live, live, "other", now=LATER)


def test_applying_the_same_again_changes_nothing_not_even_the_time() -> None:
    config = config_map({"k": "1"}, labels={"x": "y"})
    live = apply(None, config)

    assert live == apply(live, config, now=LATER)


def test_an_entry_that_changed_nothing_in_the_object_has_no_time() -> None:
    live = apply(None, config_map({"k": "1"}), "a")
    after = apply(live, config_map({"k": "1"}), "b", now=LATER)
    entries = after["metadata"]["managedFields"]

    assert [("b", None), ("a", NOW)] == [(each["manager"], each.get("time")) for each in entries]


def test_an_update_without_entries_keeps_those_of_the_live_object() -> None:
    live = apply(None, config_map({"k": "1"}))
    after = track(live, config_map({"k": "1"}), "old client")

    assert owned(live) == owned(after)


def test_a_client_may_rewrite_the_entries() -> None:
    """So kubectl moves ownership from its client-side to its server-side apply."""
    live = track(None, config_map({"k": "1"}), "kubectl-client-side-apply")
    entry = live["metadata"]["managedFields"][0] | {"manager": "kubectl", "operation": "Apply"}
    after = track(live, config_map({"k": "1"}, managedFields=[entry]), "kubectl")

    assert {"kubectl Apply": {"f:data": {".": {}, "f:k": {}}}} == owned(after)


def test_entries_given_through_a_subresource_are_passed_over() -> None:
    live = track(None, config_map({"k": "1"}))
    given = config_map({"k": "1"}, managedFields=[])

    assert owned(live) == owned(track(live, given, subresource="status"))


def test_an_object_whose_entries_were_reset_is_tracked_again_by_the_first_apply() -> None:
    live = track(None, config_map({"k": "1", "l": "1"}))
    reset = track(live, config_map({"k": "1", "l": "1"}, managedFields=[{}]))
    assert {} == owned(reset)
    assert {} == owned(track(reset, config_map({"k": "2", "l": "1"})))

    after = apply(reset, config_map({"k": "1"}))

    expected: Json = {
        "a Apply": {"f:data": {"f:k": {}}},
        "before-first-apply Update": {"f:data": {".": {}, "f:k": {}, "f:l": {}}},
    }
    assert expected == owned(after)


def test_entries_that_cannot_be_read_are_dropped_by_updates() -> None:
    new = config_map({"k": "1"}, managedFields=[{"manager": "x", "operation": "Guess"}])

    assert {"a Update": {"f:data": {".": {}, "f:k": {}}}} == owned(track(None, new))


def test_the_oldest_updates_are_merged_beyond_ten() -> None:
    live: Json | None = None
    data = {}
    for at in range(13):
        data[f"k{at:02d}"] = "1"
        now = f"2026-01-01T00:00:{at:02d}Z"
        live = track(live, config_map(dict(data)), f"m{at:02d}", now=now)
    assert live is not None

    owners = owned(live)

    assert 10 == len(owners)
    expected: Json = {"f:data": {".": {}, "f:k00": {}, "f:k01": {}, "f:k02": {}, "f:k03": {}}}
    assert expected == owners["ancient-changes Update"]


def test_kubectl_keeps_its_annotation_true_when_it_applies_on_the_server() -> None:
    config = config_map({"k": "1"})
    live = track(
        None,
        config_map({"k": "1"}, annotations={LAST_APPLIED: json.dumps(config)}),
        "kubectl-client-side-apply",
    )

    after = apply(live, config_map({"k": "2"}), "kubectl")

    text = after["metadata"]["annotations"][LAST_APPLIED]
    assert config_map({"k": "2"}) == json.loads(text)


def test_fields_of_another_endpoint_are_neither_set_nor_owned() -> None:
    pod = schema("v1", "Pod")
    config = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    more: Json = {"schema": pod, "reset": {"f:status": {}}}
    both = config | {"spec": {"nodeName": "n"}, "status": {"phase": "Running"}}

    after = apply(None, both, **more)

    assert {"nodeName": "n"} == after["spec"]
    assert "status" not in after
    assert {"a Apply": {"f:spec": {"f:nodeName": {}}}} == owned(after)


def test_a_null_means_no_value() -> None:
    live = apply(None, config_map({"k": "1", "l": "2"}))

    after = apply(live, config_map({"k": None, "l": "2"}))

    assert {"l": "2"} == after["data"]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (config_map(managedFields=[]), "managedFields must be nil"),
        (config_map(finalizers=["a", "a"]), r"\.metadata\.finalizers: duplicate entries"),
        (config_map(ownerReferences=[{"name": "x"}]), "omits its key uid"),
    ],
)
def test_configurations_that_can_never_be_applied_are_refused(config: Json, words: str) -> None:
    with pytest.raises(ApplyError, match=words):
        apply(None, config)


CUSTOM = custom_schema(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "groups": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name", "zone"],
                        "items": {
                            "type": "object",
                            "properties": {
                                "name": {"type": "string"},
                                "zone": {"type": "string", "default": "any"},
                                "size": {"type": "integer"},
                            },
                        },
                    },
                    "tags": {
                        "type": "array",
                        "x-kubernetes-list-type": "set",
                        "items": {"type": "string"},
                    },
                    "order": {"type": "array", "items": {"type": "string"}},
                    "whole": {"type": "object", "x-kubernetes-map-type": "atomic"},
                    "quota": {"type": "object", "additionalProperties": {"type": "string"}},
                    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        },
    }
)


def _custom(**spec: Any) -> Json:
    return {"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec}


def test_custom_kinds_are_owned_as_their_schema_says() -> None:
    config = _custom(
        groups=[{"name": "a", "size": 1}],
        tags=["t"],
        order=["b", "a"],
        whole={"k": "v"},
        quota={"cpu": "1"},
        any={"deep": {"list": [1]}},
    )
    expected = {
        "f:spec": {
            "f:groups": {
                'k:{"name":"a","zone":"any"}': {".": {}, "f:name": {}, "f:size": {}},
            },
            "f:tags": {'v:"t"': {}},
            "f:order": {},
            "f:whole": {},
            "f:quota": {"f:cpu": {}},
            "f:any": {"f:deep": {".": {}, "f:list": {}}},
        }
    }

    after = apply(None, config, schema=CUSTOM)

    assert {"a Apply": fieldsets.to_wire(fieldsets.from_wire(expected))} == owned(after)


def test_items_of_a_custom_kind_merge_by_their_keys() -> None:
    live = apply(None, _custom(groups=[{"name": "a", "size": 1}], tags=["t"]), schema=CUSTOM)
    config = _custom(groups=[{"name": "a", "zone": "z", "size": 2}], tags=["u"])

    after = apply(live, config, "b", schema=CUSTOM)

    groups = [{"name": "a", "size": 1}, {"name": "a", "zone": "z", "size": 2}]
    assert _custom(groups=groups, tags=["t", "u"])["spec"] == after["spec"]


class _Renamed:
    """A kind whose v2 calls `cohortName` what v1 calls `cohort`."""

    names = {"x/v1": "cohort", "x/v2": "cohortName"}

    def view(self, obj: Json, api_version: str) -> tuple[Json, Schema] | None:
        if api_version not in self.names:
            return None
        out = copy.deepcopy(obj) | {"apiVersion": api_version}
        spec, old = out.get("spec", {}), self.names[obj["apiVersion"]]
        if old in spec:
            spec[self.names[api_version]] = spec.pop(old)
        return out, CUSTOM


def test_owners_in_another_version_keep_and_lose_fields_in_their_own_terms() -> None:
    both: Json = {"schema": CUSTOM, "versions": _Renamed().view}
    v1 = apply(None, _custom(cohort="c", order=["a"]), "old", **both)
    live, _ = _Renamed().view(v1, "x/v2") or ({}, CUSTOM)
    same = live | {"spec": {"cohortName": "c"}, "metadata": {"name": "x"}}

    with pytest.raises(ApplyConflict, match=r"\.spec\.cohort$"):
        apply(live, same | {"spec": {"cohortName": "d"}}, "new", **both)
    shared = apply(live, same, "new", **both)
    assert {"f:spec": {"f:cohort": {}, "f:order": {}}} == owned(shared)["old Apply"]

    back, _ = _Renamed().view(shared, "x/v1") or ({}, CUSTOM)
    after = apply(back, _custom(), "old", **both)
    assert {"cohort": "c"} == after["spec"]


def test_owners_in_a_version_that_is_gone_are_forgotten() -> None:
    live = apply(None, _custom(order=["a"]), schema=CUSTOM)
    live["metadata"]["managedFields"][0]["apiVersion"] = "x/v0"

    after = apply(live, _custom(order=["b"]), "b", schema=CUSTOM, versions=_Renamed().view)

    assert {"b Apply": {"f:spec": {"f:order": {}}}} == owned(after)


@pytest.mark.parametrize(
    ("field_manager", "user_agent", "name"),
    [
        ("mine", "kubectl/v1.36 (linux)", "mine"),
        ("", "kubectl/v1.36 (linux/amd64) kubernetes/abc", "kubectl"),
        ("", "OpenAPI-Generator/33.1.0/python", "OpenAPI-Generator"),
        ("", "", "unknown"),
        ("", "x" * 200, "x" * 128),
    ],
)
def test_a_writer_is_named_by_its_request(field_manager: str, user_agent: str, name: str) -> None:
    assert name == manager_name(field_manager, user_agent)
