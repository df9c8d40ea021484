# SPDX-License-Identifier: Apache-2.0
"""The number of objects in a namespace is limited, by ResourceQuotas and in total."""

from __future__ import annotations

from typing import Any

import pytest

from kuota.api.base import Json, Key
from kuota.server.object_quota import NamespaceLimits, ObjectQuota
from kuota.server.requests import SYSTEM_USER, User
from server.served import ANN, JOBS, MAPS, PODS, Local, config_map, job, pod

QUOTAS = "/api/v1/namespaces/default/resourcequotas"


def quota(**hard: str) -> Json:
    named = {name.replace("__", "/").replace("_", "."): amount for name, amount in hard.items()}
    return {"metadata": {"name": "q"}, "spec": {"hard": named}}


def published(api: Local) -> Any:
    """The status of the quota after it was published again."""
    ObjectQuota(api.store)._publish("default")
    stored = api.store.get("resourcequotas", Key("default", "q"))
    assert stored is not None
    return stored["status"]


@pytest.mark.parametrize(
    ("hard", "path", "make"),
    [
        ({"count__jobs_batch": "2"}, JOBS, job),
        ({"configmaps": "2"}, MAPS, config_map),
        ({"count__configmaps": "2"}, MAPS, config_map),
        ({"pods": "2"}, PODS, pod),
        ({"count__pods": "2"}, PODS, pod),
    ],
)
def test_a_quota_limits_object_counts(api: Local, hard: Json, path: str, make: Any) -> None:
    api.ask("POST", QUOTAS, quota(**hard))
    (name,) = quota(**hard)["spec"]["hard"]
    for each in ("a", "b"):
        api.ask("POST", path, make(each))
    refused = api.refusal("POST", path, make("c"))
    assert (403, "Forbidden") == (refused["code"], refused["reason"])
    expected = f"exceeded quota: q, requested: {name}=1, used: {name}=2, limited: {name}=2"
    assert refused["message"].endswith(f'"c" is forbidden: {expected}')
    assert {"hard": {name: "2"}, "used": {name: "2"}} == published(api)
    api.ask("DELETE", f"{path}/a", gracePeriodSeconds="0")
    api.ask("POST", path, make("c"))


def test_ended_pods_do_not_count_as_pods(api: Local) -> None:
    api.ask("POST", QUOTAS, quota(pods="1", count__pods="5"))
    api.ask("POST", PODS, pod("a"))
    api.refusal("POST", PODS, pod("b"))
    ended = {"status": {"phase": "Succeeded"}}
    api.ask("PATCH", f"{PODS}/a/status", ended, media="application/merge-patch+json")
    api.ask("POST", PODS, pod("b"))
    assert {"pods": "1", "count/pods": "2"} == published(api)["used"]


def test_apply_and_dry_run_do_not_evade_a_quota(api: Local) -> None:
    api.ask("POST", QUOTAS, quota(configmaps="0"))
    api.refusal("POST", MAPS, config_map("a"), dryRun="All")
    apply = "application/apply-patch+yaml"
    applied = api.refusal("PATCH", f"{MAPS}/a", config_map("a"), media=apply, fieldManager="m")
    assert "exceeded quota: q" in applied["message"]


def test_an_update_is_possible_although_a_quota_is_exceeded(api: Local) -> None:
    api.ask("POST", MAPS, config_map("a"))
    api.ask("POST", QUOTAS, quota(configmaps="0"))
    api.ask("PUT", f"{MAPS}/a", config_map("a", b="c"))


def test_parts_of_a_quota_that_are_not_enforced_are_named(api: Local) -> None:
    response = api.raw("POST", QUOTAS, quota(requests_cpu="1", pods="1"))
    assert ("spec.hard: requests.cpu is not enforced, only object counts are",) == response.warnings


def test_a_namespace_has_a_limit_of_objects_and_bytes(api: Local) -> None:
    namespace = {"metadata": {"name": "team", "labels": {"kuota.dev/team": "team-a"}}}
    api.ask("POST", "/api/v1/namespaces", namespace)
    maps = "/api/v1/namespaces/team/configmaps"
    limits = api.api._quota
    # The server itself stores objects in the namespace.
    most = api.store.sizes.namespace("team")[0] + 2
    limits._limits = NamespaceLimits(objects=most)
    for each in ("a", "b"):
        api.ask("POST", maps, config_map(each), user=ANN)
    account = User("system:serviceaccount:team:a", ANN.groups, issuer="ann")
    api.refusal("POST", maps, config_map("c"), user=account)
    refused = api.refusal("POST", maps, config_map("c"), user=ANN)
    full = f"namespace team contains {most} objects, and the limit is {most}"
    assert full in refused["message"]
    limits._limits = NamespaceLimits(bytes=1)
    assert "MiB" in api.refusal("POST", maps, config_map("c"), user=ANN)["message"]
    api.ask("DELETE", f"{maps}/a", user=ANN)


@pytest.mark.parametrize(("path", "make"), [(PODS, pod), (JOBS, job)])
def test_objects_that_controllers_create_for_users_count_too(
    api: Local, path: str, make: Any
) -> None:
    api.api._quota._limits = NamespaceLimits(objects=api.store.sizes.namespace("default")[0] + 1)
    system = User(SYSTEM_USER, ("system:masters",))
    api.ask("POST", path, make("a"), user=system)
    assert "the limit is" in api.refusal("POST", path, make("b"), user=system)["message"]
    api.ask("POST", MAPS, config_map("a"), user=system)


def test_sizes_are_the_same_after_a_restart(api: Local) -> None:
    api.ask("POST", MAPS, config_map("a", text="x" * 1000))
    api.ask("PUT", f"{MAPS}/a", config_map("a", text="y" * 5000))
    api.ask("POST", MAPS, config_map("b"))
    api.ask("DELETE", f"{MAPS}/b")
    sizes = api.store.sizes
    again = type(sizes)(api.store._db)
    assert (1, sizes.namespace("default"), sizes.log_bytes) == (
        again.objects("configmaps", "default"),
        again.namespace("default"),
        again.log_bytes,
    )
