# SPDX-License-Identifier: Apache-2.0
"""Directories and users of the machine are an admin's to give, and members cannot take more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kuota.api.base import Json
from kuota.api.core import AUTHOR_ROLE
from kuota.api.status import StatusError
from kuota.runner.container_env import LaunchError
from kuota.runner.cron_rules import new_job
from kuota.runner.isolation import Isolation
from kuota.runner.job_pods import new_pod
from kuota.runner.pod_rights import pod_rights
from kuota.runner.run_as import RunAsPolicy
from kuota.runner.settings import RunnerSettings
from kuota.server.admission import Review
from kuota.server.builtin_kinds import builtin_kinds
from kuota.server.pod_policy import PodPolicy, pod_policy_hook
from kuota.server.requests import User
from kuota.server.streaming.pod_sessions import check_user
from server.served import ADMIN, MERGE, Local, job, namespace, pod

ANN = User("ann", ("vision", "system:authenticated"), "1001")
TOKEN_ONLY = User("eve", ("vision", "system:authenticated"))
PODS = "/api/v1/namespaces/vision/pods"
JOBS = "/apis/batch/v1/namespaces/vision/jobs"
CRON_JOBS = "/apis/batch/v1/namespaces/vision/cronjobs"
VISION = "/api/v1/namespaces/vision"
STATE = "/var/lib/kuota-of-the-test"


def server(*, users: bool) -> Local:
    """A server with the policy of `kuota up`; with `users` as root runs it."""

    def hook(review: Review) -> Json:
        return pod_policy_hook(local.store, PodPolicy(STATE, users=users))(review)

    local = Local(hooks=(hook,))
    local.ask("POST", "/api/v1/namespaces", namespace("vision", "vision"))
    return local


@pytest.fixture(params=[True, False], ids=["root", "unprivileged"])
def api(request: pytest.FixtureRequest) -> Iterator[Local]:
    local = server(users=request.param)
    yield local
    local.close()


@pytest.fixture
def root_api() -> Iterator[Local]:
    local = server(users=True)
    yield local
    local.close()


def list_directories(api: Local, value: str) -> None:
    body = {"metadata": {"annotations": {"kuota.dev/host-paths": value}}}
    api.ask("PATCH", VISION, body, media=MERGE)


def using(path: str, *, read_only: bool = False, **more: Any) -> Json:
    """A spec that mounts a directory of the machine."""
    mount = {"name": "v", "mountPath": "/v", "readOnly": read_only, **more}
    container = {"name": "main", "image": "x", "command": ["true"], "volumeMounts": [mount]}
    return {"containers": [container], "volumes": [{"name": "v", "hostPath": {"path": path}}]}


def refused(api: Local, body: Json, user: User = ANN, path: str = PODS) -> str:
    status = api.refusal("POST", path, body, user=user)
    assert 422 == status["code"], status
    return str(status["message"])


@pytest.mark.parametrize("path", ["/", "/etc", "/home", "/root", "/var/run/docker.sock", "/proc"])
def test_members_have_no_directories_by_default(api: Local, path: str) -> None:
    assert "not allowed in namespace vision" in refused(api, pod("a", **using(path)))
    one = job("a")
    one["spec"]["template"]["spec"] |= using(path)
    assert "not allowed" in refused(api, one, path=JOBS)
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "a"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": one["spec"]}},
    }
    assert "not allowed" in refused(api, cron, path=CRON_JOBS)
    assert "not allowed" in refused(api, pod("a", **using(path)), TOKEN_ONLY)


def test_faults_of_the_policy_are_reported_together_with_all_others(root_api: Local) -> None:
    one = pod("a", **using("/etc"), securityContext={"runAsUser": 0})
    one["metadata"]["labels"] = {"-": "x"}
    one["spec"]["containers"][0] |= {"name": "Not A Name", "resources": {"requests": {"cpu": -1}}}
    one["spec"]["volumes"].append({"name": "../x", "emptyDir": {}})
    status = root_api.refusal("POST", PODS, one, user=ANN)
    assert 422 == status["code"]
    assert {
        "metadata.labels",
        "spec.containers[0].name",
        "spec.containers[0].resources.requests[cpu]",
        "spec.securityContext.runAsUser",
        "spec.volumes[0].hostPath",
        "spec.volumes[1].name",
    } == {cause["field"] for cause in status["details"]["causes"]}


def test_members_have_the_directories_that_an_admin_lists(api: Local) -> None:
    list_directories(api, "/data:ro, /scratch/vision:rw,/models")
    for at, spec in enumerate(
        (
            using("/data", read_only=True),
            using("/data/sets/", read_only=True),
            using("/models/big", read_only=True),
            using("/scratch/vision"),
        )
    ):
        api.ask("POST", PODS, pod(f"fine-{at}", **spec), user=ANN)
    assert "reading only" in refused(api, pod("a", **using("/data")))
    assert "reading only" in refused(api, pod("a", **using("/models")))
    for path in ("/scratch", "/scratch/vision2", "/scratch/visio", "/datas", "/data/../etc"):
        assert refused(api, pod("a", **using(path, read_only=True)))


def test_members_cannot_extend_the_list(api: Local) -> None:
    body = {"metadata": {"annotations": {"kuota.dev/host-paths": "/:rw"}}}
    assert 403 == api.refusal("PATCH", VISION, body, media=MERGE, user=ANN)["code"]


@pytest.mark.parametrize("value", ["data:ro", "/data:rx", "/a/../b", "~", "/data:ro:rw"])
def test_a_list_that_cannot_be_read_is_rejected(api: Local, value: str) -> None:
    body = {"metadata": {"annotations": {"kuota.dev/host-paths": value}}}
    assert 422 == api.refusal("PATCH", VISION, body, media=MERGE)["code"]


def test_a_cron_job_cannot_be_rewritten_to_use_a_directory(api: Local) -> None:
    body = {
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": job("x")["spec"]}},
    }
    api.ask("POST", CRON_JOBS, body, user=ANN)
    changed = {"spec": {"jobTemplate": {"spec": {"template": {"spec": using("/etc")}}}}}
    status = api.refusal("PATCH", f"{CRON_JOBS}/nightly", changed, media=MERGE, user=ANN)
    assert 422 == status["code"]


@pytest.mark.parametrize("path", [STATE, f"{STATE}/", f"{STATE}/pods", f"/{STATE}//tls"])
def test_the_state_directory_cannot_be_mounted(api: Local, path: str) -> None:
    assert "state directory" in refused(api, pod("a", **using(path)), ADMIN)
    list_directories(api, "/var/lib:rw")
    assert "state directory" in refused(api, pod("a", **using(path)))


def test_members_choose_their_own_user_and_those_that_an_admin_lists(root_api: Local) -> None:
    def running_as(uid: int) -> Json:
        return {"securityContext": {"runAsUser": uid}}

    root_api.ask("POST", PODS, pod("own", **running_as(1001)), user=ANN)
    for user in (ANN, TOKEN_ONLY):
        for uid in (0, 1002):
            assert "runAsUser" in refused(root_api, pod("a", **running_as(uid)), user)
            container = {"name": "main", "image": "x"} | running_as(uid)
            assert "runAsUser" in refused(root_api, pod("a", containers=[container]), user)
            both = {"initContainers": [container | {"name": "init"}]}
            assert "runAsUser" in refused(root_api, pod("a", **both), user)
    body = {"metadata": {"annotations": {"kuota.dev/run-as-uids": "1002, 1003"}}}
    root_api.ask("PATCH", VISION, body, media=MERGE)
    root_api.ask("POST", PODS, pod("listed", **running_as(1002)), user=ANN)
    body = {"metadata": {"annotations": {"kuota.dev/run-as-uids": "0"}}}
    assert 422 == root_api.refusal("PATCH", VISION, body, media=MERGE)["code"]


def test_the_role_of_the_author_cannot_be_forged(api: Local) -> None:
    def role(found: Json) -> str | None:
        value: str | None = found["metadata"].get("annotations", {}).get(AUTHOR_ROLE)
        return value

    forged = pod("a")
    forged["metadata"]["annotations"] = {AUTHOR_ROLE: "admin"}
    assert role(api.ask("POST", PODS, forged, user=ANN)) is None
    patch = {"metadata": {"annotations": {AUTHOR_ROLE: "admin"}}}
    assert role(api.ask("PATCH", f"{PODS}/a", patch, media=MERGE, user=ANN)) is None
    # An admin who edits the object of a member does not vouch for its content.
    assert role(api.ask("PATCH", f"{PODS}/a", patch, media=MERGE)) is None
    assert "admin" == role(api.ask("POST", PODS, pod("b")))
    one = job("c", suspend=True)
    one["spec"]["template"]["metadata"] = {"annotations": {AUTHOR_ROLE: "admin"}}
    found = api.ask("POST", JOBS, one, user=ANN)
    assert role(found["spec"]["template"]) is None
    again = {"spec": {"template": {"metadata": {"annotations": {AUTHOR_ROLE: "admin"}}}}}
    found = api.ask("PATCH", f"{JOBS}/c", again, media=MERGE, user=ANN)
    assert role(found["spec"]["template"]) is None


def test_a_member_who_rewrites_the_cron_job_of_an_admin_loses_the_role(api: Local) -> None:
    body = {
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": job("x")["spec"]}},
    }
    api.ask("POST", CRON_JOBS, body)
    path = f"{CRON_JOBS}/nightly"
    changed = {"spec": {"jobTemplate": {"spec": {"backoffLimit": 1}}}}
    found = api.ask("PATCH", path, changed, media=MERGE, user=ANN)
    template = found["spec"]["jobTemplate"]["spec"]["template"]
    assert {"kuota.dev/run-as-uid": "1001"} == template["metadata"]["annotations"]


def test_only_the_template_names_the_user_of_pods(api: Local) -> None:
    """The server checks the annotations of templates; those of the Job itself mean nothing."""
    forged = {"annotations": {"kuota.dev/run-as-uid": "1002"}}
    made = job("a", suspend=True)
    made["metadata"] |= forged
    found = api.ask("POST", JOBS, made, user=ANN)
    assert "1001" == new_pod(found)["metadata"]["annotations"]["kuota.dev/run-as-uid"]
    body = {
        "metadata": {"name": "nightly", **forged},
        "spec": {
            "schedule": "0 3 * * *",
            "jobTemplate": {"metadata": forged, "spec": made["spec"]},
        },
    }
    cron = api.ask("POST", CRON_JOBS, body, user=ANN)
    pod = new_pod(new_job(cron, 0.0))
    assert "1001" == pod["metadata"]["annotations"]["kuota.dev/run-as-uid"]


def stored(spec: Json, **annotations: str) -> Json:
    """A pod as the runner finds it, perhaps stored by a server without these rules."""
    metadata = {"name": "a", "namespace": "vision", "uid": "1", "annotations": annotations}
    return {"metadata": metadata, "spec": spec}


def test_the_runner_checks_the_directories_again(tmp_path: Path) -> None:
    settings = RunnerSettings(state_dir=str(tmp_path), run_as=RunAsPolicy(uid=0))
    with pytest.raises(LaunchError, match="not allowed"):
        pod_rights(stored(using("/etc")), {}, settings)
    lists = {"metadata": {"annotations": {"kuota.dev/host-paths": "/etc:ro"}}}
    with pytest.raises(LaunchError, match="reading only"):
        pod_rights(stored(using("/etc")), lists, settings)
    with pytest.raises(LaunchError, match="cannot enforce"):
        pod_rights(stored(using("/etc", read_only=True)), lists, settings)
    able = RunnerSettings(
        state_dir=str(tmp_path), run_as=RunAsPolicy(uid=0), isolation=Isolation("namespaces")
    )
    assert not pod_rights(stored(using("/etc", read_only=True)), lists, able).trusted
    admins = stored(using("/etc"), **{AUTHOR_ROLE: "admin"})
    assert pod_rights(admins, {}, settings).host_directories is None


def test_exec_never_grants_more_rights_than_the_caller_has() -> None:
    ben = User("ben", ("vision", "system:authenticated"), "1002")
    admins, anns = pod("admins"), pod("anns")
    admins["metadata"]["annotations"] = {AUTHOR_ROLE: "admin"}
    anns["metadata"]["annotations"] = {"kuota.dev/run-as-uid": "1001"}
    kind = next(each for each in builtin_kinds() if each.resource == "pods")
    for caller, entered in ((ANN, admins), (ben, admins), (ben, anns), (TOKEN_ONLY, anns)):
        with pytest.raises(StatusError, match="only"):
            check_user(kind, entered, caller)
    for caller, entered in ((ADMIN, admins), (ADMIN, anns), (ANN, anns), (ben, pod("token"))):
        check_user(kind, entered, caller)
