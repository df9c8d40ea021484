# SPDX-License-Identifier: Apache-2.0
"""Lists in pages, tables, metadata only; watches with bookmarks, selectors and initial events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kuota.api.base import Json
from server.served import CRDS, JOBS, KUEUE, MAPS, MERGE, PODS, Local, config_map, job, pod, said

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@pytest.fixture
def api() -> Iterator[Local]:
    local = Local(logs=said)
    yield local
    local.close()


def names(listing: Json) -> list[str]:
    return [each["metadata"]["name"] for each in listing["items"]]


def labelled(name: str, **labels: str) -> Json:
    body = config_map(name)
    body["metadata"]["labels"] = labels
    return body


def test_pages_are_of_one_instant(api: Local) -> None:
    for name in ("a", "c", "e"):
        api.ask("POST", MAPS, config_map(name))
    first = api.ask("GET", MAPS, limit="2")
    api.ask("POST", MAPS, config_map("d"))
    api.ask("DELETE", f"{MAPS}/e")
    token = first["metadata"]["continue"]
    second = api.ask("GET", MAPS, limit="2", **{"continue": token})
    assert (["a", "c"], ["e"]) == (names(first), names(second))
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
    assert "continue" not in second["metadata"]
    api.store.compact(0)
    status = api.refusal("GET", MAPS, limit="2", **{"continue": token})
    assert (410, "Expired") == (status["code"], status["reason"])
    assert 400 == api.refusal("GET", MAPS, **{"continue": "nonsense"})["code"]


def test_selected_pages_skip_what_is_not_wanted(api: Local) -> None:
    for at in range(6):
        api.ask("POST", MAPS, labelled(f"m{at}", odd=str(at % 2)))
    first = api.ask("GET", MAPS, limit="2", labelSelector="odd=1")
    token = first["metadata"]["continue"]
    second = api.ask("GET", MAPS, limit="2", labelSelector="odd=1", **{"continue": token})
    assert (["m1", "m3"], ["m5"]) == (names(first), names(second))


def test_lists_name_their_kind_and_revision(api: Local) -> None:
    found = api.ask("GET", "/apis/batch/v1/jobs")
    assert ("JobList", "batch/v1", []) == (found["kind"], found["apiVersion"], found["items"])
    assert str(api.store.revision) == found["metadata"]["resourceVersion"]
    status = api.refusal("GET", JOBS, resourceVersion="999999")
    assert 504 == status["code"]


def test_fields_select_pods_by_node_and_phase(api: Local) -> None:
    api.ask("POST", PODS, pod("a", nodeName="n1"))
    api.ask("POST", PODS, pod("b", nodeName="n2"))
    assert ["a"] == names(api.ask("GET", PODS, fieldSelector="spec.nodeName=n1"))
    assert ["b"] == names(
        api.ask("GET", "/api/v1/pods", fieldSelector="status.phase=Pending,spec.nodeName!=n1")
    )
    assert 400 == api.refusal("GET", PODS, fieldSelector="spec.nonsense=1")["code"]
    assert 400 == api.refusal("GET", PODS, labelSelector="a in (")["code"]


def test_workloads_are_selected_by_where_they_are_admitted(api: Local) -> None:
    path = f"{KUEUE}/namespaces/default/workloads"
    found = api.ask("GET", path, fieldSelector="status.admission.clusterQueue=q")
    assert [] == found["items"]


def test_a_table_has_columns_cells_and_metadata(api: Local) -> None:
    api.ask("POST", PODS, pod("a"))
    table = api.ask("GET", PODS, accept=TABLE)
    columns = {each["name"]: each["priority"] for each in table["columnDefinitions"]}
    assert ["Name", "Ready", "Status", "Restarts", "Age"] == [
        k for k, v in columns.items() if not v
    ]
    assert ["a", "0/1", "Pending", "0", "0s"] == table["rows"][0]["cells"][:5]
    assert "PartialObjectMetadata" == table["rows"][0]["object"]["kind"]
    whole = api.ask("GET", f"{PODS}/a", accept=TABLE, includeObject="Object")
    assert "Pod" == whole["rows"][0]["object"]["kind"]
    assert api.ask("GET", PODS, accept=TABLE, includeObject="None")["rows"][0]["object"] is None


def test_metadata_alone_can_be_listed(api: Local) -> None:
    api.ask("POST", MAPS, config_map("a", secret="s"))
    found = api.ask("GET", MAPS, accept=METADATA)
    assert "PartialObjectMetadataList" == found["kind"]
    assert {"kind", "apiVersion", "metadata"} == set(found["items"][0])


def test_a_watch_goes_on_from_a_revision(api: Local) -> None:
    start = api.ask("POST", MAPS, config_map("a"))["metadata"]["resourceVersion"]
    api.ask("PATCH", f"{MAPS}/a", {"data": {"x": "1"}}, media=MERGE)
    api.ask("DELETE", f"{MAPS}/a")
    answer = api.raw("GET", MAPS, watch="true", resourceVersion=start)
    events = api.events(answer, 2)
    assert ["MODIFIED", "DELETED"] == [each["type"] for each in events]
    assert events[1]["object"]["metadata"]["resourceVersion"] == str(api.store.revision)


def test_a_watch_without_a_revision_begins_with_what_is_there(api: Local) -> None:
    api.ask("POST", MAPS, config_map("a"))
    queries: tuple[dict[str, Any], ...] = ({}, {"resourceVersion": "0"})
    for query in queries:
        answer = api.raw("GET", MAPS, watch="1", **query)
        assert ["ADDED"] == [each["type"] for each in api.events(answer, 1)]


def test_initial_events_end_with_a_marked_bookmark(api: Local) -> None:
    api.ask("POST", MAPS, config_map("a"))
    answer = api.raw(
        "GET",
        MAPS,
        watch="true",
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    )
    added, bookmark = api.events(answer, 2)
    assert ("ADDED", "BOOKMARK") == (added["type"], bookmark["type"])
    metadata = bookmark["object"]["metadata"]
    assert {"k8s.io/initial-events-end": "true"} == metadata["annotations"]
    assert str(api.store.revision) == metadata["resourceVersion"]
    assert 422 == api.refusal("GET", MAPS, watch="true", sendInitialEvents="true")["code"]


def test_a_selecting_watch_sees_objects_come_and_go(api: Local) -> None:
    start = str(api.store.revision)
    api.ask("POST", MAPS, labelled("a", x="no"))
    for value in ("yes", "yes", "no"):
        patch = {"metadata": {"labels": {"x": value}}, "data": {"at": str(api.store.revision)}}
        api.ask("PATCH", f"{MAPS}/a", patch, media=MERGE)
    api.ask("DELETE", f"{MAPS}/a")
    answer = api.raw("GET", MAPS, watch="true", resourceVersion=start, labelSelector="x=yes")
    events = api.events(answer, 3)
    assert ["ADDED", "MODIFIED", "DELETED"] == [each["type"] for each in events]


def test_a_watch_from_the_forgotten_past_says_so(api: Local) -> None:
    for name in ("a", "b"):
        api.ask("POST", MAPS, config_map(name))
    api.store.compact(0)
    answer = api.raw("GET", MAPS, watch="true", resourceVersion="1")
    (event,) = api.events(answer, 1)
    assert ("ERROR", 410, "Expired") == (
        event["type"],
        event["object"]["code"],
        event["object"]["reason"],
    )


def test_a_watch_of_tables_has_one_row_an_event_and_one_head(api: Local) -> None:
    start = str(api.store.revision)
    api.ask("POST", MAPS, config_map("a"))
    api.ask("POST", MAPS, config_map("b"))
    events = api.events(api.raw("GET", MAPS, watch="true", resourceVersion=start, accept=TABLE), 2)
    assert [["a"], ["b"]] == [
        [row["cells"][0] for row in each["object"]["rows"]] for each in events
    ]
    assert events[0]["object"]["columnDefinitions"]
    assert events[1]["object"]["columnDefinitions"] is None


def test_a_watch_ends_when_its_time_is_up_and_closes_its_feed(api: Local) -> None:
    answer = api.raw(
        "GET", MAPS, watch="true", resourceVersion=str(api.store.revision), timeoutSeconds="1"
    )

    async def drained() -> list[bytes]:
        assert not isinstance(answer.body, bytes)
        return [piece async for piece in answer.body]

    assert b"" == b"".join(api.run(asyncio.wait_for(drained(), 5)))


def test_logs_need_a_container_that_has_begun(api: Local) -> None:
    containers = [{"name": name, "image": "x"} for name in ("one", "two")]
    api.ask("POST", PODS, pod("a", containers=containers))
    status = api.refusal("GET", f"{PODS}/a/log")
    assert "choose one of: [one two]" in status["message"]
    status = api.refusal("GET", f"{PODS}/a/log", container="one")
    assert "waiting to start: ContainerCreating" in status["message"]
    api.ask("PATCH", f"{PODS}/a/status", {"status": {"phase": "Running"}}, media=MERGE)
    answer = api.raw("GET", f"{PODS}/a/log", container="one", tailLines="3")

    async def whole() -> bytes:
        assert not isinstance(answer.body, bytes)
        return b"".join([piece async for piece in answer.body])

    assert b"a/one tail=3\n" == api.run(whole())
    assert 400 == api.refusal("GET", f"{PODS}/a/log", container="one", tailLines="x")["code"]


def test_options_of_logs_are_validated_as_in_kubernetes(api: Local) -> None:
    api.ask("POST", PODS, pod("a"))
    log, least = f"{PODS}/a/log", "must be greater than 0"
    status = api.refusal("GET", log, limitBytes="0", sinceSeconds="0", tailLines="-1")
    assert (422, "Invalid", "PodLogOptions") == (
        *(status["code"], status["reason"]),
        status["details"]["kind"],
    )
    assert status["message"] == (
        'PodLogOptions "a" is invalid: [tailLines: Invalid value: -1: must be greater than or '
        f"equal to 0, limitBytes: Invalid value: 0: {least}, "
        f"sinceSeconds: Invalid value: 0: {least}]"
    )
    both = api.refusal("GET", log, sinceSeconds="1", sinceTime="2026-01-01T00:00:00Z")
    assert "at most one of `sinceTime` or `sinceSeconds`" in both["message"]
    assert "stream: Forbidden" in api.refusal("GET", log, stream="Stdout")["message"]
    for moment in ("0001-01-01", "2026-01-01T00:00:00", "20260101T000000Z", "x"):
        assert 400 == api.refusal("GET", log, sinceTime=moment)["code"], moment
    for number in (2**63 - 1, 1):
        waiting = api.refusal("GET", log, limitBytes=str(number))
        assert "waiting to start" in waiting["message"], number
    assert 400 == api.refusal("GET", log, limitBytes=str(2**63))["code"]


def test_rows_of_jobs_tell_how_they_stand(api: Local) -> None:
    api.ask("POST", JOBS, job("a", completions=3, parallelism=2))
    status = {
        "startTime": "2026-11-15T11:58:30Z",
        "completionTime": "2026-11-15T11:59:00Z",
        "succeeded": 3,
        "conditions": [{"type": "Complete", "status": "True"}],
    }
    api.ask("PATCH", f"{JOBS}/a/status", {"status": status}, media=MERGE)
    row = api.ask("GET", f"{JOBS}/a", accept=TABLE)["rows"][0]["cells"]
    assert ["a", "Complete", "3/3", "30s", "0s"] == row[:5]


def test_a_cell_that_cannot_be_made_does_not_hide_the_row(api: Local) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [
            {"name": "Count", "type": "integer", "jsonPath": ".spec.count"},
            {"name": "Seen", "type": "date", "jsonPath": ".spec.seen"},
        ],
    }
    definition = {
        "metadata": {"name": "things.x.io"},
        "spec": {
            "group": "x.io",
            "scope": "Cluster",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [version],
        },
    }
    api.ask("POST", CRDS, definition)
    api.ask("POST", "/apis/x.io/v1/things", {"metadata": {"name": "a"}, "spec": {"count": "many"}})
    row = api.ask("GET", "/apis/x.io/v1/things", accept=TABLE)["rows"][0]["cells"]
    assert ["a", None, "<unknown>"] == row


def test_secrets_take_plain_text(api: Local) -> None:
    body = {"metadata": {"name": "s"}, "stringData": {"a": "b"}}
    made = api.ask("POST", "/api/v1/namespaces/default/secrets", body)
    assert ({"a": "Yg=="}, "Opaque") == (made["data"], made["type"])
    assert "stringData" not in made
