# SPDX-License-Identifier: Apache-2.0
"""Events are validated as Kubernetes validates them, and are about objects of their namespace."""

from __future__ import annotations

from typing import Any

import pytest

from kuota.api.base import Json
from server.served import Local

WHEN = "2026-11-16T12:00:00.000000Z"


def path(group: str, namespace: str) -> str:
    root = "/api/v1" if group == "v1" else f"/apis/{group}"
    return f"{root}/namespaces/{namespace}/events"


def core(namespace: str, about: str, **fields: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": namespace},
        "involvedObject": {"kind": "Job", "name": "j", **({"namespace": about} if about else {})},
        **fields,
    }


def complete(namespace: str, about: str, **fields: Any) -> Json:
    """A core/v1 Event with an eventTime."""
    said = {"action": "Said", "reason": "Said", "eventTime": WHEN}
    return core(
        namespace, about, **said, reportingComponent="me", reportingInstance="me-0", **fields
    )


def newer(namespace: str, about: str, **fields: Any) -> Json:
    names = {"involvedObject": "regarding", "reportingComponent": "reportingController"}
    event = {names.get(name, name): value for name, value in complete(namespace, about).items()}
    return event | {"apiVersion": "events.k8s.io/v1", "type": "Normal"} | fields


@pytest.fixture
def api(api: Local) -> Local:
    for name in ("team", "other", "kube-system"):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        api.raw("POST", "/api/v1/namespaces", namespace)
    return api


def refused(api: Local, event: Json) -> list[str]:
    """The fields of all causes of the rejection."""
    where = path(event["apiVersion"], event["metadata"]["namespace"])
    answer = api.refusal("POST", where, event)
    assert 422 == answer["code"], answer
    return [each["field"] for each in answer["details"]["causes"]]


@pytest.mark.parametrize("form", [core, complete, newer])
def test_an_event_is_about_an_object_of_its_namespace(form: Any, api: Local) -> None:
    assert ["involvedObject.namespace"] == refused(api, form("team", "other"))
    assert ["involvedObject.namespace"] == refused(api, form("team", ""))
    assert ["involvedObject.namespace"] == refused(api, form("default", "other"))
    for namespace, about in (("team", "team"), ("default", "")):
        event = form(namespace, about)
        assert 201 == api.raw("POST", path(event["apiVersion"], namespace), event).status


def test_events_of_cluster_objects_may_be_in_the_system_namespace(api: Local) -> None:
    assert ["involvedObject.namespace"] == refused(api, core("kube-system", ""))
    assert 201 == api.raw("POST", path("v1", "kube-system"), complete("kube-system", "")).status


def test_the_message_names_both_namespaces_and_kubernetes_words(api: Local) -> None:
    said = api.refusal("POST", path("v1", "team"), core("team", "other"))["message"]
    assert (
        'involvedObject.namespace: Invalid value: "other": does not match event.namespace' in said
    )
    assert 'namespace "team"' in said


@pytest.mark.parametrize("form", [core, newer])
def test_an_event_cannot_be_changed_to_another_namespace(form: Any, api: Local) -> None:
    event = form("team", "team")
    where = path(event["apiVersion"], "team")
    assert 201 == api.raw("POST", where, event).status
    field = "involvedObject" if form is core else "regarding"
    patch = {field: {"namespace": "other"}}
    answer = api.refusal("PATCH", f"{where}/e", patch, media="application/merge-patch+json")
    assert "involvedObject.namespace" in answer["message"]


def test_an_event_with_a_time_says_who_reports_what(api: Local) -> None:
    bare = core("team", "team", eventTime=WHEN)
    assert ["reportingComponent", "reportingInstance", "action", "reason"] == refused(api, bare)
    bare = newer("team", "team", reportingController="not a name!", action="x" * 129)
    assert ["reportingController", "action"] == refused(api, bare)
    assert ["message"] == refused(api, newer("team", "team", note="x" * 1025))


def test_a_new_event_of_the_newer_version_has_no_fields_of_the_older(api: Local) -> None:
    event = newer("team", "team", type="Odd", deprecatedCount=3, series={"count": 1})
    event["series"]["lastObservedTime"] = WHEN
    event["deprecatedSource"] = {"component": "me"}
    assert {"type", "count", "series.count", "source"} == {*refused(api, event)}
    assert ["eventTime"] == refused(api, newer("team", "team", eventTime=None))


def test_only_the_series_changes_through_the_newer_version(api: Local) -> None:
    event = complete("team", "team", count=1, firstTimestamp="2026-11-16T12:00:00Z")
    assert 201 == api.raw("POST", path("v1", "team"), event).status
    where = path("events.k8s.io/v1", "team") + "/e"
    merge = "application/merge-patch+json"
    series = {"series": {"count": 2, "lastObservedTime": WHEN}}
    assert 200 == api.raw("PATCH", where, series, media=merge).status
    for change in ({"reason": "Other"}, {"note": "other"}, {"deprecatedCount": 7}):
        assert 422 == api.refusal("PATCH", where, change, media=merge)["code"]
