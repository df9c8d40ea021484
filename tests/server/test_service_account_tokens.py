# SPDX-License-Identifier: Apache-2.0
"""Tokens of service accounts: a bounded life, nothing that their creator has not, no plain text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kuota.api.base import Json, Key
from kuota.server.requests import ANONYMOUS, User
from kuota.server.tokens import Tokens
from server.served import ADMIN, ANN, BOB, JOBS, MERGE, Local, job, namespace

ACCOUNTS = "/api/v1/namespaces/a-ns/serviceaccounts"
TOKEN = f"{ACCOUNTS}/ci/token"
A_JOBS = JOBS.replace("default", "a-ns")
OWN = User("ann", ("team-a", "system:authenticated"), "1234")


@pytest.fixture
def api() -> Iterator[Local]:
    with served(":memory:") as local:
        yield local


@contextmanager
def served(path: str) -> Iterator[Local]:
    local = Local(path=path)
    local.api.credentials.tokens = Tokens([("1", ADMIN), ("2", OWN), ("3", BOB)])
    local.ask("POST", "/api/v1/namespaces", namespace("a-ns", "team-a"))
    local.ask("POST", ACCOUNTS, {"metadata": {"name": "ci"}}, user=OWN)
    yield local
    local.close()


def created(api: Local, user: User = OWN, **spec: Any) -> str:
    token: str = api.ask("POST", TOKEN, {"spec": spec}, user=user)["status"]["token"]
    return token


def bearer(api: Local, token: str) -> User:
    """The user with the token; an anonymous one if it is not valid."""
    return api.api.credentials.user(token) or ANONYMOUS


def test_a_token_has_the_role_of_a_member_in_its_namespace_only(api: Local) -> None:
    api.ask("POST", "/api/v1/namespaces", namespace("a2-ns", "team-a"))
    user = bearer(api, created(api))
    assert ("system:serviceaccount:a-ns:ci", "1234") == (user.name, user.uid)
    api.ask("POST", A_JOBS, job("x"), user=user)
    for path in (JOBS.replace("default", "a2-ns"), JOBS, "/apis/batch/v1/jobs"):
        assert 403 == api.refusal("GET", path, user=user)["code"], path
    label = {"metadata": {"labels": {"kuota.dev/team": "mine"}}}
    assert 403 == api.refusal("PATCH", "/api/v1/namespaces/a-ns", label, user=user)["code"]


def test_a_token_of_an_admin_is_no_more_than_that_of_a_member_and_never_root(api: Local) -> None:
    root = User("root", (*ADMIN.groups,), "0")
    user = bearer(api, created(api, root))
    assert "" == user.uid
    assert 403 == api.refusal("GET", JOBS, user=user)["code"]
    quota = "/apis/kueue.x-k8s.io/v1beta2/namespaces/a-ns/localqueues"
    assert 403 == api.refusal("POST", quota, {"metadata": {"name": "q"}}, user=user)["code"]


def test_a_token_cannot_create_another_one(api: Local) -> None:
    user = bearer(api, created(api))
    assert 403 == api.refusal("POST", TOKEN, {"spec": {}}, user=user)["code"]


def test_only_members_of_the_team_create_tokens(api: Local) -> None:
    for user in (BOB, User("c", ("system:authenticated",))):
        assert 403 == api.refusal("POST", TOKEN, {"spec": {}}, user=user)["code"]
    assert 401 == api.refusal("POST", TOKEN, {"spec": {}}, user=ANONYMOUS)["code"]
    missing = f"{ACCOUNTS}/none/token"
    assert 404 == api.refusal("POST", missing, {"spec": {}}, user=OWN)["code"]


def test_a_token_expires_and_its_life_is_bounded(api: Local) -> None:
    short, long = created(api, expirationSeconds=600), created(api, expirationSeconds=10**9)
    api.now += timedelta(seconds=601)
    assert (ANONYMOUS, False) == (bearer(api, short), bearer(api, long) == ANONYMOUS)
    api.now += timedelta(days=1)
    assert ANONYMOUS == bearer(api, long)
    created(api)
    assert 1 == len(api.store.list("serviceaccount-tokens").bodies)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"expirationSeconds": 599}, "10 minutes"),
        ({"expirationSeconds": -1}, "10 minutes"),
        ({"expirationSeconds": "x"}, "number"),
        ({"expirationSeconds": True}, "number"),
        ({"audiences": ["vault"]}, "audiences"),
        ({"boundObjectRef": {"kind": "Pod", "name": "p"}}, "boundObjectRef"),
    ],
)
def test_what_a_token_cannot_be_is_rejected(api: Local, spec: Json, message: str) -> None:
    said = api.refusal("POST", TOKEN, {"spec": spec}, user=OWN)
    assert (422, True) == (said["code"], message in said["message"])


def test_a_token_ends_with_its_account(api: Local) -> None:
    token = created(api)
    api.ask("DELETE", f"{ACCOUNTS}/ci", user=OWN)
    assert ANONYMOUS == bearer(api, token)
    api.ask("POST", ACCOUNTS, {"metadata": {"name": "ci"}}, user=OWN)
    assert ANONYMOUS == bearer(api, token)


def test_a_token_ends_when_its_creator_loses_access(api: Local) -> None:
    token = created(api)
    tokens = api.api.credentials.tokens
    api.api.credentials.tokens = Tokens([("3", BOB)])
    assert ANONYMOUS == bearer(api, token)
    api.api.credentials.tokens = tokens
    assert ANONYMOUS != bearer(api, token)
    label = {"metadata": {"labels": {"kuota.dev/team": "team-b"}}}
    api.ask("PATCH", "/api/v1/namespaces/a-ns", label, media=MERGE)
    assert ANONYMOUS == bearer(api, token)


def test_the_number_of_tokens_is_limited(api: Local) -> None:
    api.ask("POST", ACCOUNTS, {"metadata": {"name": "other"}}, user=OWN)
    for account in ("ci", "other") * 100:
        api.ask("POST", f"{ACCOUNTS}/{account}/token", {"spec": {}}, user=OWN)
    assert 429 == api.refusal("POST", TOKEN, {"spec": {}}, user=OWN)["code"]
    api.now += timedelta(hours=2)
    created(api)


def test_tokens_of_a_deleted_account_do_not_count(api: Local) -> None:
    for _ in range(200):
        created(api)
    assert 429 == api.refusal("POST", TOKEN, {"spec": {}}, user=OWN)["code"]
    api.ask("DELETE", f"{ACCOUNTS}/ci", user=OWN)
    api.ask("POST", ACCOUNTS, {"metadata": {"name": "ci"}}, user=OWN)
    created(api)


def test_a_dry_run_creates_no_token(api: Local) -> None:
    for _ in range(201):
        found = api.ask("POST", TOKEN, {"spec": {}}, user=OWN, dryRun="All")
    assert "" == found["status"]["token"]
    created(api)


def test_service_accounts_share_the_limits_of_their_creator(api: Local) -> None:
    assert ("ann", "bob") == (bearer(api, created(api)).flow, BOB.flow)


def test_only_a_digest_is_stored(tmp_path: Path) -> None:
    with served(str(tmp_path / "kuota.db")) as local:
        token = created(local)
    stored = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert b"serviceaccount-tokens" in stored
    assert token.rpartition(".")[2].encode() not in stored


@pytest.mark.parametrize(
    "token", ["kuota-sa.", "kuota-sa.a-ns.", "kuota-sa.a-ns.x", "kuota-sa.\udc80."]
)
def test_no_other_text_is_a_token(api: Local, token: str) -> None:
    created(api)
    assert ANONYMOUS == bearer(api, token)


def test_tokens_are_reviewed_for_admins(api: Local) -> None:
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    for token, name in (("2", "ann"), (created(api), "system:serviceaccount:a-ns:ci")):
        status = api.ask("POST", path, {"spec": {"token": token}})["status"]
        assert (True, name) == (status["authenticated"], status["user"]["username"])
    status = api.ask("POST", path, {"spec": {"token": "wrong"}})["status"]
    assert (False, "the token is not valid") == (status["authenticated"], status["error"])
    assert 403 == api.refusal("POST", path, {"spec": {"token": "2"}}, user=ANN)["code"]


def test_the_access_of_others_is_reviewed_for_admins(api: Local) -> None:
    group = "/apis/authorization.k8s.io/v1"
    path, local = (
        f"{group}/subjectaccessreviews",
        f"{group}/namespaces/a-ns/localsubjectaccessreviews",
    )
    asked = {"verb": "create", "group": "batch", "resource": "jobs", "namespace": "a-ns"}
    for spec, allowed in (
        ({"user": "ann", "groups": ["team-a"]}, True),
        ({"user": "ann", "groups": []}, False),
        ({"user": "bob", "groups": ["team-b"]}, False),
        ({"user": "system:serviceaccount:a-ns:ci"}, True),
        ({"user": "system:serviceaccount:b-ns:ci"}, False),
    ):
        review = {"spec": spec | {"resourceAttributes": asked}}
        for each in (path, local):
            assert allowed == api.ask("POST", each, review)["status"]["allowed"], spec
            assert 403 == api.refusal("POST", each, review, user=ANN)["code"]
    assert 400 == api.refusal("POST", path, {"spec": {"resourceAttributes": asked}})["code"]
    elsewhere = {"spec": {"user": "x", "resourceAttributes": asked | {"namespace": "default"}}}
    assert 400 == api.refusal("POST", local, elsewhere)["code"]


def test_every_namespace_has_a_default_account_without_rights(api: Local) -> None:
    for place in ("default", "kube-system", "a-ns"):
        path = f"/api/v1/namespaces/{place}/serviceaccounts/default"
        assert "default" == api.ask("GET", path)["metadata"]["name"]
    first = api.ask("GET", f"{ACCOUNTS}/default", user=OWN)["metadata"]["uid"]
    api.ask("DELETE", f"{ACCOUNTS}/default", user=OWN)
    assert first != api.ask("GET", f"{ACCOUNTS}/default", user=OWN)["metadata"]["uid"]
    issued = api.ask("POST", f"{ACCOUNTS}/default/token", {"spec": {}}, user=OWN)
    user = bearer(api, issued["status"]["token"])
    assert "system:serviceaccount:a-ns:default" == user.name
    assert 403 == api.refusal("GET", JOBS, user=user)["code"]
    assert 403 == api.refusal("POST", f"{ACCOUNTS}/default/token", {}, user=BOB)["code"]


def test_namespaces_of_an_older_store_get_a_default_account(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    with served(path) as api:
        api.store.delete("serviceaccounts", Key("a-ns", "default"))
    api = Local(path=path)
    assert "default" == api.ask("GET", f"{ACCOUNTS}/default")["metadata"]["name"]
    api.close()


def test_a_deleted_namespace_does_not_keep_its_default_account(api: Local) -> None:
    api.ask("DELETE", "/api/v1/namespaces/a-ns")
    api.settle()
    assert 404 == api.refusal("GET", "/api/v1/namespaces/a-ns")["code"]
    assert [] == list(api.store.list("serviceaccounts", "a-ns").bodies)
