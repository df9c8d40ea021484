# SPDX-License-Identifier: Apache-2.0
"""Positions of pending workloads equal the scheduling order."""

from __future__ import annotations

from build import job, key, local_queue, namespace, queue
from kuota.api.base import Json, Key
from kuota.engine.engine import Engine
from kuota.engine.facts import ObjectStored
from kuota.visibility.api import PREFIX, VisibilityApi, parse_path
from kuota.visibility.pending import PageRequest, in_cluster_queue, in_local_queue
from kuota.visibility.responses import ApiResponse

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}


class FakeObjects:
    """Every Workload has the same owner."""

    def metadata(self, kind: str, key: Key) -> Json:
        return {"ownerReferences": [OWNER], "creationTimestamp": "2026-01-02T03:04:05Z"}


def engine() -> Engine:
    """Two LocalQueues of one ClusterQueue, with four workloads that wait."""
    made = Engine()
    jobs = (
        job("a", queue="x", created=1.0, gpu=1),
        job("b", queue="y", created=2.0, gpu=1),
        job("c", queue="x", created=3.0, priority=9, gpu=1),
        job("d", queue="y", created=4.0, gpu=1, priority=3, boost=3),
    )
    for each in (namespace(), queue("q", gpu=1), local_queue("x", "q"), local_queue("y", "q")):
        made.apply(ObjectStored(value=each), 0.0)
    for one in jobs:
        made.apply(ObjectStored(value=one), 0.0)
    return made


def lines(window: PageRequest | None = None) -> list[tuple[str, int, int]]:
    found = in_cluster_queue(engine(), "q", window or PageRequest()) or []
    return [(e.workload.key.name, e.in_cluster_queue, e.in_local_queue) for e in found]


def test_the_line_is_the_order_of_the_queue_with_both_positions() -> None:
    assert [("c", 0, 0), ("d", 1, 0), ("a", 2, 1), ("b", 3, 1)] == lines()


def test_a_window_is_cut_out_of_the_line_and_positions_stay() -> None:
    assert [("d", 1, 0), ("a", 2, 1)] == lines(PageRequest(offset=1, limit=2))
    assert [] == lines(PageRequest(limit=-1))
    assert 4 == len(lines(PageRequest(offset=-5, limit=10**12)))


def test_the_line_of_a_local_queue_has_gaps_in_the_positions_of_its_cluster_queue() -> None:
    found = in_local_queue(engine(), key("y"), PageRequest(offset=1)) or []
    assert [("b", 3, 1)] == [
        (e.workload.key.name, e.in_cluster_queue, e.in_local_queue) for e in found
    ]


def test_an_unknown_queue_has_no_line_and_an_orphaned_one_an_empty_line() -> None:
    made = engine()
    made.apply(ObjectStored(value=local_queue("z", "nowhere")), 0.0)
    assert in_cluster_queue(made, "nowhere", PageRequest()) is None
    assert in_local_queue(made, key("nowhere"), PageRequest()) is None
    assert [] == in_local_queue(made, key("z"), PageRequest())


def test_the_priority_that_is_reported_is_without_the_boost() -> None:
    found = in_cluster_queue(engine(), "q", PageRequest()) or []
    assert [9, 0, 0, 0] == [each.priority for each in found]


def _get(path: str, method: str = "GET", accept: str = "", **query: str) -> ApiResponse:
    return VisibilityApi(engine(), FakeObjects()).answer(method, path, query, accept)


def test_an_answer_lists_names_owners_and_positions() -> None:
    answer = _get(f"{PREFIX}/v1beta1/clusterqueues/q/pendingworkloads", limit="1")
    assert {
        "kind": "PendingWorkloadsSummary",
        "apiVersion": "visibility.kueue.x-k8s.io/v1beta1",
        "metadata": {},
        "items": [
            {
                "metadata": {
                    "name": "c",
                    "namespace": "default",
                    "creationTimestamp": "2026-01-02T03:04:05Z",
                    "ownerReferences": [{k: OWNER[k] for k in OWNER if k != "controller"}],
                },
                "priority": 9,
                "localQueueName": "x",
                "positionInClusterQueue": 0,
                "positionInLocalQueue": 0,
            }
        ],
    } == answer.body


def test_a_local_queue_is_found_in_its_namespace_only() -> None:
    at = f"{PREFIX}/v1beta2/namespaces"
    assert 2 == len(_get(f"{at}/default/localqueues/x/pendingworkloads").body["items"])
    other = _get(f"{at}/other/localqueues/x/pendingworkloads")
    assert (404, "NotFound") == (other.status, other.body["reason"])


def test_what_is_not_served_is_refused() -> None:
    line = f"{PREFIX}/v1beta2/clusterqueues/q/pendingworkloads"
    assert 405 == _get(line, "POST").status
    assert 400 == _get(line, limit="many").status
    assert 404 == _get(f"{PREFIX}/v1/clusterqueues/q/pendingworkloads").status
    assert 404 == _get(f"{PREFIX}/v1beta2/clusterqueues/q").status
    assert 404 == _get(f"{PREFIX}/v1beta2/namespaces/a/clusterqueues/q/pendingworkloads").status
    assert parse_path(f"{PREFIX}/v1beta2/localqueues/x/pendingworkloads") is None


def test_the_api_serves_discovery_and_openapi_documents() -> None:
    names = [each["name"] for each in _get(f"{PREFIX}/v1beta2").body["resources"]]
    assert "clusterqueues/pendingworkloads" in names
    assert "localqueues/pendingworkloads" in names
    assert "v1beta2" == _get(PREFIX).body["preferredVersion"]["version"]
    assert "APIGroupList" == _get("/apis").body["kind"]
    whole = _get(
        "/apis", accept="application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    )
    assert "APIGroupDiscoveryList" == whole.body["kind"]
    assert 7 == len(_get("/openapi/v2").body["paths"])
    for path in _get("/openapi/v3").body["paths"]:
        served = 3 if "kuota.dev" in path else 2
        assert served == len(_get(f"/openapi/v3/{path}").body["paths"])
