# SPDX-License-Identifier: Apache-2.0
"""Pods run with the permissions of the user who created them, and nobody else's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kuota.api.base import Json
from kuota.api.core import AUTHOR, RUN_AS
from kuota.server.requests import ADMINS, User
from server.served import ADMIN, MERGE, Local, job, namespace, pod

ANN = User("ann", ("team-a", "system:authenticated"), "1001")
BEN = User("ben", ("team-a", "system:authenticated"), "1002")
NOBODY = User("token", ("team-a", "system:authenticated"))
JOBS = "/apis/batch/v1/namespaces/team-a/jobs"
CRON_JOBS = "/apis/batch/v1/namespaces/team-a/cronjobs"
PODS = "/api/v1/namespaces/team-a/pods"


@pytest.fixture
def api() -> Iterator[Local]:
    local = Local()
    local.ask("POST", "/api/v1/namespaces", namespace("team-a", "team-a"))
    yield local
    local.close()


def annotated(body: Json, uid: str) -> Json:
    metadata = body if "template" not in body.get("spec", {}) else body["spec"]["template"]
    metadata.setdefault("metadata", {})["annotations"] = {RUN_AS: uid}
    return body


def of_job(found: Json) -> str | None:
    annotations = found["spec"]["template"]["metadata"].get("annotations", {})
    value: str | None = annotations.get(RUN_AS)
    return value


def of_pod(found: Json) -> str | None:
    value: str | None = found["metadata"].get("annotations", {}).get(RUN_AS)
    return value


def test_jobs_and_pods_carry_the_uid_of_who_made_them(api: Local) -> None:
    assert "1001" == of_job(api.ask("POST", JOBS, job("a"), user=ANN))
    assert "1001" == of_pod(api.ask("POST", PODS, pod("a"), user=ANN))


def test_impersonation_is_rejected(api: Local) -> None:
    assert "1001" == of_job(api.ask("POST", JOBS, annotated(job("a"), "0"), user=ANN))
    assert of_pod(api.ask("POST", PODS, annotated(pod("a"), "0"), user=NOBODY)) is None
    patch = {"metadata": {"annotations": {RUN_AS: "0"}}}
    api.ask("POST", PODS, pod("b"), user=ANN)
    assert "1001" == of_pod(api.ask("PATCH", f"{PODS}/b", patch, media=MERGE, user=BEN))


def test_an_update_keeps_whose_work_it_is(api: Local) -> None:
    api.ask("POST", JOBS, job("a", suspend=True), user=ANN)
    patch = {"spec": {"parallelism": 2, "template": {"metadata": {"annotations": None}}}}
    assert "1001" == of_job(api.ask("PATCH", f"{JOBS}/a", patch, media=MERGE, user=BEN))


def test_whoever_rewrites_a_cron_job_lends_it_their_own_rights(api: Local) -> None:
    body = {
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": job("x")["spec"]}},
    }

    def uid(found: Json) -> str | None:
        return of_job(found["spec"]["jobTemplate"])

    assert "1001" == uid(api.ask("POST", CRON_JOBS, body, user=ANN))
    path = f"{CRON_JOBS}/nightly"
    assert "1001" == uid(api.ask("PATCH", path, {"spec": {"suspend": True}}, media=MERGE, user=BEN))
    changed = {"spec": {"jobTemplate": {"spec": {"backoffLimit": 1}}}}
    assert "1002" == uid(api.ask("PATCH", path, changed, media=MERGE, user=BEN))


def test_admins_may_choose_and_are_not_root_unless_they_say_so(api: Local) -> None:
    assert "0" == of_job(api.ask("POST", JOBS, annotated(job("a"), "0"), user=ADMIN))
    root = User("root", (ADMINS,), "0")
    assert of_job(api.ask("POST", JOBS, job("b"), user=root)) is None
    assert "1000" == of_job(api.ask("POST", JOBS, job("c"), user=User("eve", (ADMINS,), "1000")))


def author(found: Json) -> str | None:
    value: str | None = found["metadata"].get("annotations", {}).get(AUTHOR)
    return value


def test_jobs_and_pods_name_their_author_whoever_changes_them(api: Local) -> None:
    claimed = job("a") | {"metadata": {"name": "a", "annotations": {AUTHOR: "ben"}}}
    assert "ann" == author(api.ask("POST", JOBS, claimed, user=ANN))
    assert "ann" == author(api.ask("POST", PODS, pod("a"), user=ANN))
    for value in ("ben", None):
        patch = {"metadata": {"annotations": {AUTHOR: value}}}
        for user in (BEN, ADMIN):
            found = api.ask("PATCH", f"{JOBS}/a", patch, media=MERGE, user=user)
            assert "ann" == author(found)


def test_jobs_of_a_cron_job_name_the_author_of_the_cron_job(api: Local) -> None:
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "a"},
        "spec": {"schedule": "@daily", "jobTemplate": {"spec": job("x")["spec"]}},
    }
    found = api.ask("POST", CRON_JOBS, cron, user=ANN)
    assert "ann" == author(found["spec"]["jobTemplate"])
