# SPDX-License-Identifier: Apache-2.0
"""Roles as RBAC objects: they tell the truth, and only what can be enforced may be written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kuota.api.base import Json
from kuota.server.requests import User
from server.served import ADMIN, ANN, BOB, JOBS, MERGE, PODS, Local, job, namespace

RBAC = "/apis/rbac.authorization.k8s.io/v1"
BINDINGS = f"{RBAC}/namespaces/a-ns/rolebindings"
A_JOBS = JOBS.replace("default", "a-ns")
A_SECRETS = "/api/v1/namespaces/a-ns/secrets"


@pytest.fixture
def api() -> Iterator[Local]:
    local = Local()
    local.ask("POST", "/api/v1/namespaces", namespace("a-ns", "team-a"))
    yield local
    local.close()


def binding(role: str = "edit", *subjects: Json, **changes: Any) -> Json:
    who = list(subjects) or [{"kind": "User", "name": "bob"}]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "guests"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": who,
    } | changes


def test_a_binding_gives_a_user_the_role_of_a_member_in_one_namespace(api: Local) -> None:
    assert 403 == api.refusal("POST", A_JOBS, job("x"), user=BOB)["code"]
    api.ask("POST", BINDINGS, binding())
    api.ask("POST", A_JOBS, job("x"), user=BOB)
    api.ask("GET", A_SECRETS, user=BOB)
    assert 403 == api.refusal("POST", JOBS, job("x"), user=BOB)["code"]
    queues = "/apis/kueue.x-k8s.io/v1beta2/namespaces/a-ns/localqueues"
    assert 403 == api.refusal("POST", queues, {"metadata": {"name": "q"}}, user=BOB)["code"]
    api.ask("DELETE", f"{BINDINGS}/guests")
    assert 403 == api.refusal("GET", A_JOBS, user=BOB)["code"]


def test_a_binding_of_a_group_may_be_for_reading_only(api: Local) -> None:
    api.ask("POST", BINDINGS, binding("view", {"kind": "Group", "name": "team-b"}))
    api.ask("GET", A_JOBS, user=BOB)
    assert 403 == api.refusal("POST", A_JOBS, job("x"), user=BOB)["code"]
    assert 403 == api.refusal("GET", A_SECRETS, user=BOB)["code"]
    assert 403 == api.refusal("GET", A_JOBS, user=User("c", ("system:authenticated",)))["code"]
    exec_path = PODS.replace("default", "a-ns") + "/p/exec"
    assert 403 == api.refusal("POST", exec_path, user=BOB)["code"]


@pytest.mark.parametrize("user", [ANN, BOB])
def test_only_admins_write_roles_and_bindings(api: Local, user: User) -> None:
    own = binding("edit", {"kind": "User", "name": user.name})
    assert 403 == api.refusal("POST", BINDINGS, own, user=user)["code"]
    api.ask("POST", BINDINGS, binding("view", {"kind": "User", "name": "carol"}))
    patch = {"subjects": [{"kind": "User", "name": user.name}]}
    for method, path in (
        ("PATCH", f"{BINDINGS}/guests"),
        ("DELETE", f"{BINDINGS}/guests"),
        ("DELETE", BINDINGS),
        ("PATCH", f"{RBAC}/clusterrolebindings/cluster-admin"),
        ("PATCH", f"{BINDINGS}/kuota:team"),
    ):
        refused = api.refusal(method, path, patch, user=user, media=MERGE)
        assert 403 == refused["code"], path


def test_a_member_with_a_binding_elsewhere_cannot_pass_it_on(api: Local) -> None:
    api.ask("POST", BINDINGS, binding())
    other = binding("edit", {"kind": "User", "name": "mallory"})
    assert 403 == api.refusal("POST", BINDINGS, other, user=BOB)["code"]


@pytest.mark.parametrize(
    ("plural", "kind"),
    [
        ("clusterroles", "ClusterRole"),
        ("clusterrolebindings", "ClusterRoleBinding"),
        ("namespaces/a-ns/roles", "Role"),
    ],
)
def test_what_cannot_be_enforced_is_rejected_with_what_to_do(
    api: Local, plural: str, kind: str
) -> None:
    body = binding() | {"kind": kind}
    said = api.refusal("POST", f"{RBAC}/{plural}", body)
    assert (403, True) == (said["code"], "RoleBinding" in said["message"])


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (binding("cluster-admin"), "roleRef.name"),
        (binding("admin"), "roleRef.name"),
        (binding(roleRef={"kind": "Role", "name": "edit"}), "roleRef.kind"),
        (binding("edit", {"kind": "Group", "name": "system:unauthenticated"}), "subjects[0].name"),
        (binding("edit", {"kind": "Robot", "name": "r2"}), "subjects[0].kind"),
        (
            binding("edit", {"kind": "ServiceAccount", "name": "ci", "namespace": "default"}),
            "subjects[0].namespace",
        ),
        (binding(metadata={"name": "kuota:team"}), "metadata.name"),
    ],
)
def test_a_binding_that_cannot_be_enforced_is_invalid(api: Local, body: Json, fault: str) -> None:
    said = api.refusal("POST", BINDINGS, body)
    assert fault in [each["field"] for each in said["details"]["causes"]]


def test_the_role_of_a_binding_is_immutable(api: Local) -> None:
    api.ask("POST", BINDINGS, binding("view"))
    patch = {"roleRef": {"name": "edit"}}
    said = api.refusal("PATCH", f"{BINDINGS}/guests", patch, media=MERGE)
    assert (422, True) == (said["code"], "roleRef" in said["message"])


def test_the_binding_of_a_team_follows_the_label_of_its_namespace(api: Local) -> None:
    path = f"{BINDINGS}/kuota:team"
    assert "team-a" == api.ask("GET", path)["subjects"][0]["name"]
    said = api.refusal("DELETE", path)
    assert (403, True) == (said["code"], "label kuota.dev/team" in said["message"])
    label = {"metadata": {"labels": {"kuota.dev/team": "team-b"}}}
    api.ask("PATCH", "/api/v1/namespaces/a-ns", label, media=MERGE)
    assert "team-b" == api.ask("GET", path)["subjects"][0]["name"]
    without: Json = {"metadata": {"labels": {"kuota.dev/team": None}}}
    api.ask("PATCH", "/api/v1/namespaces/a-ns", without, media=MERGE)
    assert 404 == api.refusal("GET", path)["code"]


def test_the_rules_of_a_role_are_what_a_member_may_do(api: Local) -> None:
    rules = api.ask("GET", f"{RBAC}/clusterroles/edit", user=BOB)["rules"]
    found = {
        (verb, rule["apiGroups"][0], rule["resources"][0])
        for rule in rules
        for verb in rule["verbs"]
    }
    assert ("create", "batch", "jobs") in found
    assert ("create", "", "pods/exec") in found
    assert ("create", "", "resourcequotas") not in found
    for verb, group, resource in sorted(found):
        plural, _, below = resource.partition("/")
        attributes = {"verb": verb, "group": group, "resource": plural, "subresource": below}
        review = {"spec": {"resourceAttributes": attributes | {"namespace": "a-ns"}}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        assert api.ask("POST", path, review, user=ANN)["status"]["allowed"], (verb, resource)


def test_a_namespace_with_bindings_can_be_deleted(api: Local) -> None:
    api.ask("POST", BINDINGS, binding())
    api.ask("DELETE", "/api/v1/namespaces/a-ns")
    api.settle()
    assert 404 == api.refusal("GET", "/api/v1/namespaces/a-ns")["code"]
    assert [] == api.ask("GET", f"{RBAC}/rolebindings", user=ADMIN)["items"]
