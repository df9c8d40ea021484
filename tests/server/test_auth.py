# SPDX-License-Identifier: Apache-2.0
"""Roles, tokens, and that access reviews agree with requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuota.loopback import is_loopback
from kuota.server.auth import AccessAttributes, Roles
from kuota.server.requests import ADMINS, ANONYMOUS, User
from kuota.server.tokens import TokenError, Tokens, admin_token
from kuota.server.unix_users import unix_user
from server.served import ADMIN, ANN, BOB, KUEUE, Local, job, namespace

TEAMS = {"a-ns": "team-a", "b-ns": "team-b", "nobodys": ""}
ROLES = Roles(lambda name: TEAMS.get(name, ""))
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
WRITES = VERBS[3:]


def may(user: User, verb: str, what: str, namespace: str = "") -> bool:
    resource, _, group = what.partition(".")
    resource, _, below = resource.partition("/")
    return ROLES.allows(
        user,
        AccessAttributes(
            verb=verb, group=group, resource=resource, subresource=below, namespace=namespace
        ),
    )


@pytest.mark.parametrize("verb", VERBS)
def test_admins_may_do_everything(verb: str) -> None:
    assert may(ADMIN, verb, "clusterqueues.kueue.x-k8s.io")
    assert may(ADMIN, verb, "secrets", "a-ns")


@pytest.mark.parametrize("what", ["jobs.batch", "pods", "configmaps", "secrets", "rayjobs.ray.io"])
def test_members_work_in_their_namespaces_only(what: str) -> None:
    assert all(may(ANN, verb, what, "a-ns") for verb in VERBS)
    for place in ("b-ns", "nobodys", "absent", ""):
        assert not any(may(ANN, verb, what, place) for verb in VERBS)


@pytest.mark.parametrize(
    "what",
    [
        "localqueues.kueue.x-k8s.io",
        "workloads.kueue.x-k8s.io",
        "workloads/status.kueue.x-k8s.io",
        "resourcequotas",
        "limitranges",
        "jobs/status.batch",
        "pods/status",
        "pods/binding",
        "things.kuota.dev",
    ],
)
def test_members_cannot_raise_their_own_quota(what: str) -> None:
    assert not any(may(ANN, verb, what, "a-ns") for verb in WRITES)


@pytest.mark.parametrize(
    "what",
    [
        "clusterqueues.kueue.x-k8s.io",
        "cohorts.kueue.x-k8s.io",
        "resourceflavors.kueue.x-k8s.io",
        "namespaces",
        "nodes",
        "priorityclasses.scheduling.k8s.io",
        "customresourcedefinitions.apiextensions.k8s.io",
    ],
)
def test_what_is_of_the_cluster_is_read_by_all_and_written_by_admins(what: str) -> None:
    assert may(BOB, "get", what)
    assert may(BOB, "list", what)
    assert not any(may(BOB, verb, what) for verb in WRITES)
    assert not may(ANONYMOUS, "get", what)


@pytest.mark.parametrize("what", ["workloads.kueue.x-k8s.io", "localqueues.kueue.x-k8s.io"])
def test_only_members_see_what_their_team_uses_and_waits_for(what: str) -> None:
    assert may(ANN, "list", what, "a-ns")
    assert not any(may(BOB, verb, what, place) for verb in VERBS for place in ("a-ns", ""))


@given(
    user=st.sampled_from([ANN, BOB, User("c", ("system:authenticated",))]),
    verb=st.sampled_from(WRITES),
    group=st.sampled_from(["", "batch", "kueue.x-k8s.io", "kuota.dev", "apiextensions.k8s.io"]),
    resource=st.sampled_from(["pods", "nodes", "clusterqueues", "jobs", "namespaces", "bindings"]),
    below=st.sampled_from(["", "status", "scale", "binding", "log", "finalize"]),
)
def test_only_admins_write_cluster_scoped_objects(
    user: User, verb: str, group: str, resource: str, below: str
) -> None:
    access = AccessAttributes(verb=verb, group=group, resource=resource, subresource=below)
    assert not ROLES.allows(user, access)


@pytest.fixture
def api() -> Iterator[Local]:
    local = Local()
    local.ask("POST", "/api/v1/namespaces", namespace("a-ns", "team-a"))
    yield local
    local.close()


def test_requests_are_held_to_the_roles(api: Local) -> None:
    jobs = "/apis/batch/v1/namespaces/a-ns/jobs"
    assert api.ask("POST", jobs, job("mine"), user=ANN)
    status = api.refusal("POST", jobs, job("not-mine"), user=BOB)
    assert (403, "Forbidden") == (status["code"], status["reason"])
    assert 'User "bob" cannot create resource "jobs" in API group "batch"' in status["message"]
    assert 401 == api.refusal("GET", jobs, user=ANONYMOUS)["code"]
    assert 401 == api.refusal("GET", "/apis", user=ANONYMOUS)["code"]
    assert b"ok" == api.raw("GET", "/readyz", user=ANONYMOUS).body
    api.ask("GET", f"{KUEUE}/clusterqueues", user=BOB)
    status = api.refusal("GET", "/apis/batch/v1/jobs", user=ANN)
    assert (403, True) == (status["code"], status["message"].startswith("jobs.batch is forbidden"))


@pytest.mark.parametrize("user", [ADMIN, ANN, BOB])
@pytest.mark.parametrize("verb", ["create", "list"])
@pytest.mark.parametrize("group", ["batch", "kueue.x-k8s.io"])
def test_a_review_answers_as_a_request_would_be_treated(
    api: Local, user: User, verb: str, group: str
) -> None:
    resource = {"batch": "jobs", "kueue.x-k8s.io": "localqueues"}[group]
    version = {"batch": "v1", "kueue.x-k8s.io": "v1beta2"}[group]
    attributes = {"verb": verb, "group": group, "resource": resource, "namespace": "a-ns"}
    review = {"spec": {"resourceAttributes": attributes}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    allowed = api.ask("POST", path, review, user=user)["status"]["allowed"]
    method = "POST" if verb == "create" else "GET"
    where = f"/apis/{group}/{version}/namespaces/a-ns/{resource}"
    answer = api.raw(method, where, {"metadata": {"name": "x"}}, user=user)
    assert allowed == (answer.status != 403)


def test_only_admins_may_impersonate_others(api: Local) -> None:
    who = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    assert "ann" == api.ask("POST", who, {}, user=ANN)["status"]["userInfo"]["username"]

    def as_other(user: User) -> int:
        from kuota.server.requests import Request

        headers = {"impersonate-user": "bob", "impersonate-group": "team-b"}
        request = Request(method="GET", path=f"{KUEUE}/cohorts", headers=headers, user=user)
        return api.run(api.api.handle(request)).status

    assert (200, 403) == (as_other(ADMIN), as_other(ANN))


def test_tokens_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text('# people\ns3cret,ann,7,"team-a,ops"\nother,bob\n')
    tokens = Tokens.load(path)
    assert User("ann", ("team-a", "ops", "system:authenticated"), "7") == tokens.user("s3cret")
    assert User("bob", ("system:authenticated",)) == tokens.user("other")
    assert tokens.user("S3cret") is None
    assert tokens.user("") is None
    path.write_text("lonely\n")
    with pytest.raises(TokenError, match="line 1"):
        Tokens.load(path)


def test_the_first_admin_gets_a_token_that_only_the_owner_can_read(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    token = admin_token(path)
    assert token == admin_token(path, token)
    assert 0o600 == path.stat().st_mode & 0o777
    user = Tokens.load(path).user(token)
    assert user is not None
    assert ADMINS in user.groups


def test_only_root_is_an_admin_on_the_socket() -> None:
    assert ADMINS in unix_user(0, 1000).groups
    # Pods run as the owner too, so the uid of the owner proves nothing.
    assert ("system:authenticated",) == unix_user(12345, 12345).groups
    assert ADMINS not in unix_user(12345, 1000).groups
    assert "uid:12345" == unix_user(12345, 1000).name


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("x.io", False)],
)
def test_loopback_is_distinguished_from_other_addresses(host: str, expected: bool) -> None:
    assert expected == is_loopback(host)
