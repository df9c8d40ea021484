# SPDX-License-Identifier: Apache-2.0
"""Each verb is sent as the request that Kubernetes expects."""

from __future__ import annotations

import msgspec
import pytest

from kuota.api.base import Key
from kuota.kube import requests
from kuota.kube.requests import LogOptions, PatchType, Selection, WriteOptions
from kuota.kube.resources import ALL, CLUSTER_QUEUES, JOBS, NODES, PODS, Resource

KEY = Key("team", "it")


@pytest.mark.parametrize(
    ("path", "resource", "key", "subresource"),
    [
        ("/api/v1/namespaces/team/pods/it", PODS, KEY, ""),
        ("/apis/batch/v1/namespaces/team/jobs/it/status", JOBS, KEY, "status"),
        ("/api/v1/nodes/n1", NODES, Key("", "n1"), ""),
        ("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/a", CLUSTER_QUEUES, Key("", "a"), ""),
    ],
)
def test_an_object_has_one_path(path: str, resource: Resource, key: Key, subresource: str) -> None:
    assert path == requests.item_path(resource, key, subresource)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a%2fb"])
def test_a_name_that_would_change_the_url_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a valid object name"):
        requests.deletion(PODS, Key("team", name))


def test_a_namespaced_object_needs_its_namespace() -> None:
    with pytest.raises(ValueError, match="namespace"):
        requests.reading(PODS, Key("", "it"))


def test_a_list_is_asked_for_page_by_page() -> None:
    which = Selection("team", "a in (b)", "status.phase=Running")
    request = requests.listing(PODS, which, resume="token")
    assert "/api/v1/namespaces/team/pods" == request.path
    assert {
        "labelSelector": "a in (b)",
        "fieldSelector": "status.phase=Running",
        "limit": "500",
        "continue": "token",
    } == request.query


def test_the_namespace_of_a_cluster_scoped_kind_is_of_no_account() -> None:
    assert "/api/v1/nodes" == requests.listing(NODES, Selection("team")).path


def test_a_watch_names_its_revision_and_outlives_its_own_timeout() -> None:
    request = requests.watching(PODS, Selection(), since="7", bookmarks=True)
    assert ("true", "7", "true") == tuple(
        request.query[name] for name in ("watch", "resourceVersion", "allowWatchBookmarks")
    )
    assert request.timeout_s is not None
    assert request.timeout_s > float(request.query["timeoutSeconds"])


def test_a_creation_goes_to_the_namespace_in_the_object() -> None:
    job = {"metadata": {"namespace": "team", "name": "it"}}
    options = WriteOptions(manager="me", dry_run=True, validation="Strict")
    request = requests.creation(JOBS, job, options)
    assert ("POST", "/apis/batch/v1/namespaces/team/jobs") == (request.method, request.path)
    expected = {"fieldManager": "me", "dryRun": "All", "fieldValidation": "Strict"}
    assert expected == request.query
    assert job == msgspec.json.decode(request.body)
    assert not request.idempotent


def test_a_binding_goes_to_the_pod_it_names() -> None:
    binding = {"metadata": {"namespace": "team", "name": "it"}, "target": {"name": "n1"}}
    request = requests.creation(PODS, binding, {}, "binding")
    assert "/api/v1/namespaces/team/pods/it/binding" == request.path


def test_a_replacement_that_could_undo_others_work_is_refused() -> None:
    with pytest.raises(ValueError, match="resourceVersion"):
        requests.replacement(JOBS, {"metadata": {"namespace": "team", "name": "it"}}, {})


@pytest.mark.parametrize(
    ("content_type", "idempotent", "kind"),
    [
        ("application/merge-patch+json", True, PatchType.MERGE),
        ("application/strategic-merge-patch+json", True, PatchType.STRATEGIC),
        ("application/apply-patch+yaml", True, PatchType.APPLY),
        ("application/json-patch+json", False, PatchType.JSON),
    ],
)
def test_each_patch_has_its_content_type(
    content_type: str, idempotent: bool, kind: PatchType
) -> None:
    request = requests.patching(JOBS, KEY, {}, kind, WriteOptions(manager="me", force=True))
    assert content_type == request.headers["content-type"]
    assert idempotent == request.idempotent
    assert {"fieldManager": "me", "force": "true"} == request.query


def test_an_apply_without_a_manager_is_refused() -> None:
    with pytest.raises(ValueError, match="manager"):
        requests.patching(JOBS, KEY, {}, PatchType.APPLY, {})


def test_a_deletion_carries_its_options_in_the_body() -> None:
    request = requests.deletion(
        JOBS, KEY, propagation="Foreground", uid="u1", grace_s=0, dry_run=True
    )
    assert {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "u1"},
        "gracePeriodSeconds": 0,
        "dryRun": ["All"],
    } == msgspec.json.decode(request.body)


def test_a_followed_log_may_be_silent_for_ever() -> None:
    options = LogOptions(container="main", follow=True, tail=0, since_s=5)
    request = requests.log_reading(PODS, KEY, options)
    assert {
        "container": "main",
        "follow": "true",
        "tailLines": "0",
        "sinceSeconds": "5",
    } == request.query
    assert request.timeout_s is None
    assert {} == LogOptions(since_s=0).query(), "servers reject 0, which kubectl does not send"


def test_every_kind_is_named_once() -> None:
    assert len({each.name for each in ALL}) == len(ALL) > 20
    assert "jobs.batch" == str(JOBS)
    assert ("pods", "v1") == (PODS.name, PODS.api_version)
