# SPDX-License-Identifier: Apache-2.0
"""The output and exit status of `kuota topology`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cli.cluster import MEMBER_TOKEN, TOKEN, Cluster
from kuota.api.base import Json, Key
from kuota.cli.topology import command
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
)
from manifests import GPU, V1BETA2, cluster_queue, flavor, job, local_queue, text

HOST = "kubernetes.io/hostname"
TOPOLOGY: Json = {
    "apiVersion": V1BETA2,
    "kind": "Topology",
    "metadata": {"name": "racks"},
    "spec": {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": HOST}]},
}
FLAVOR = flavor(nodeLabels={"pool": "a"}, topologyName="racks")
QUEUES = [cluster_queue("a", 100), local_queue("a")]


def node(name: str, rack: str, ready: str = "True", gpus: int = 2) -> Json:
    labels = {"pool": "a", HOST: name} | ({"rack": rack} if rack else {})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "allocatable": {"cpu": "4500m", "memory": "8Gi", GPU: str(gpus), "pods": "10"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def gang(name: str, pods: int) -> Json:
    made = job(name, "a", pods)
    annotations = {"kueue.x-k8s.io/podset-required-topology": "rack"}
    made["spec"]["template"]["metadata"] = {"annotations": annotations}
    return made


def pod(name: str, on: str) -> Json:
    resources = {"requests": {GPU: "1", "cpu": "1"}, "limits": {GPU: "1"}}
    container = {"name": "c", "image": "i", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": on, "containers": [container]},
        "status": {"phase": "Running"},
    }


SCENE = [TOPOLOGY, FLAVOR, *QUEUES, node("n1", "r1"), node("n2", "r2"), node("n3", "r2")]


def ran(objects: list[Json], *options: str) -> Result:
    return CliRunner().invoke(command, ["-f", "-", *options], input=text(*objects))


def report(objects: list[Json], *options: str) -> dict[str, Any]:
    result = ran(objects, "-o", "json", *options)
    assert 0 == result.exit_code, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def drawn(objects: list[Json], *options: str) -> list[str]:
    result = ran(objects, *options)
    assert 0 == result.exit_code, result.output
    return result.output.splitlines()


def test_domains_are_drawn_with_what_is_free() -> None:
    lines = drawn([*SCENE, gang("big", 4), pod("daemon", "n1")])
    assert lines[:2] == ["Topology racks, flavor h100: 3 nodes", f"Levels: rack > {HOST}"]
    assert lines[3].split("   ")[0] == "DOMAIN"
    tree = [line.partition("   ")[0].rstrip() for line in lines[4:9]]
    assert ["r1", "└─ n1", "r2", "├─ n2", "└─ n3"] == tree
    assert "████░░░░ 1 of 2" in lines[4]
    assert "██░░░░░░ 3.5 of 4.5" in lines[4]
    assert "████████ 0 of 4" in lines[6]


def test_usage_of_placed_and_of_other_pods_is_told_apart() -> None:
    found = report([*SCENE, gang("small", 1), pod("daemon", "n1")])
    (row,) = found["flavors"]
    first = next(each for each in row["domains"][0]["resources"] if each["resource"] == GPU)
    wanted = {"total": "2", "others": "1", "placed": "1", "free": "0", "usedPercent": 100}
    assert wanted | {"resource": GPU} == first
    assert [1, 0] == [each["pods"] for each in row["domains"]]


def test_pods_on_nodes_are_not_reported_as_unqueued() -> None:
    notes = report([*SCENE, pod("daemon", "n1")])["notes"]
    assert not any("daemon" in each for each in notes)


def test_a_job_is_shown_in_its_domains_with_ranks() -> None:
    lines = drawn([*SCENE, gang("big", 4)], "big")
    assert lines[0].startswith("default/big (Workload job-big-")
    assert lines[0].endswith("): 4 pods placed on flavor h100")
    assert not any("n1" in line for line in lines)
    ranks = {line.split()[1]: line.partition("ranks ")[2] for line in lines if "─ " in line}
    assert {"n2": "0-1", "n3": "2-3"} == ranks


def test_a_workload_is_found_by_its_own_name_too() -> None:
    objects = [*SCENE, gang("big", 4)]
    name = report(objects, "default/big")["workload"]["workload"]
    assert name == report(objects, name)["workload"]["workload"]


def test_a_job_that_is_not_placed_is_explained() -> None:
    lines = drawn([*SCENE, gang("huge", 5)], "huge")
    assert lines[0].endswith("no pods are placed")
    assert "fits only 4 of 5 pods" in lines[1]


def test_without_nodes_only_quota_counts() -> None:
    found = report([TOPOLOGY, FLAVOR, *QUEUES, gang("big", 4)], "big")
    assert [] == found["workload"]["flavors"]
    assert "" == found["workload"]["waiting"]


def test_nodes_that_are_not_used_are_listed_with_the_reason() -> None:
    more = [node("n4", "r3", "False"), node("n5", ""), node("n6", "r3")]
    more[2]["spec"] = {"unschedulable": True}
    lines = drawn([*SCENE, *more])
    assert [
        "Node n4 is not used: it is not ready.",
        "Node n5 is not used: it has no label rack.",
        "Node n6 is not used: it is cordoned.",
    ] == [line for line in lines if line.startswith("Node ")]


def test_large_topologies_are_drawn_without_their_lowest_level() -> None:
    nodes = [node(f"n{at:03}", f"r{at // 10:02}") for at in range(101)]
    objects = [TOPOLOGY, FLAVOR, *QUEUES, *nodes]
    lines = drawn(objects)
    assert not any("n000" in line for line in lines)
    assert f"by level: {HOST}: 101. Add them with --level {HOST}" in "\n".join(lines)
    assert any("n000" in line for line in drawn(objects, "--level", HOST))
    assert 101 == report(objects)["flavors"][0]["nodes"]


def test_one_flavor_can_be_selected() -> None:
    other = flavor("other", nodeLabels={"pool": "b"}, topologyName="racks")
    found = report([*SCENE, other], "--flavor", "other")
    assert ["other"] == [each["flavor"] for each in found["flavors"]]
    assert "No node has the labels" in "\n".join(drawn([*SCENE, other], "--flavor", "other"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--flavor", "none"], "no flavor none with a topology; there are: h100"),
        (["--level", "zone"], f"topology racks has no level zone; it has rack, {HOST}"),
        (["default/bog"], "no job or Workload default/bog; did you mean default/big?"),
    ],
)
def test_what_does_not_exist_is_reported(options: list[str], message: str) -> None:
    result = ran([*SCENE, gang("big", 4)], *options)
    assert 0 != result.exit_code
    assert message in result.output


def test_missing_topologies_and_flavors_are_reported() -> None:
    assert "No flavor has a topology" in ran([flavor()]).output
    assert "names the Topology racks, which does not exist" in ran([FLAVOR]).output


def test_invalid_manifests_are_reported_as_by_check() -> None:
    broken = {**TOPOLOGY, "spec": {"levels": []}}
    result = ran([broken])
    assert 1 == result.exit_code
    assert "spec.levels" in result.output


@pytest.fixture
def live(cluster: Cluster) -> Cluster:
    team = {"name": "vision", "labels": {"kuota.dev/team": "vision"}}
    cluster.create(NAMESPACES, {"metadata": team})
    cluster.create(CLUSTER_QUEUES, cluster_queue("a", 8))
    cluster.create(TOPOLOGIES, TOPOLOGY)
    cluster.create(RESOURCE_FLAVORS, FLAVOR)
    for each in (node("n1", "r1"), node("n2", "r2")):
        cluster.create(NODES, {**each, "status": {}})
        cluster.status(NODES, each["metadata"]["name"], each["status"])
    return cluster


def _place(cluster: Cluster, name: str, on: str) -> None:
    resources = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
    container = {"name": "c", "image": "i", "resources": resources}
    meta = {"name": name, "namespace": "vision"}
    pods = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    obj = {"apiVersion": V1BETA2, "kind": "Workload", "metadata": meta}
    cluster.create(WORKLOADS, obj | {"spec": {"podSets": [pods], "queueName": "a"}})
    values = [{"universal": on}]
    part = {"domainCount": 1, "podCounts": {"universal": 1}, "valuesPerLevel": values}
    assigned = {
        "name": "main",
        "count": 1,
        "flavors": {GPU: "h100"},
        "resourceUsage": {GPU: "1"},
        "topologyAssignment": {"levels": [HOST], "slices": [part]},
    }
    at = "2026-01-02T03:04:05Z"
    reserved = {"type": "QuotaReserved", "status": "True", "reason": "r", "message": ""}
    status = {
        "admission": {"clusterQueue": "a", "podSetAssignments": [assigned]},
        "conditions": [reserved | {"lastTransitionTime": at}],
    }
    written = cluster.client.patch(
        WORKLOADS, Key("vision", name), {"status": status}, subresource="status"
    )
    cluster.do(written)


def test_a_server_is_read_without_manifests(live: Cluster) -> None:
    _place(live, "train", "n2")
    live.create(PODS, pod("daemon", "n1"))
    found = json.loads(live.kuota("topology", "-o", "json"))
    amounts = [
        next(each for each in domain["resources"] if each["resource"] == GPU)
        for domain in found["flavors"][0]["domains"]
    ]
    assert [("1", "0"), ("0", "1")] == [(each["others"], each["placed"]) for each in amounts]
    assert "rank 0" in live.kuota("topology", "train", "-n", "vision")


def test_members_see_the_usage_of_their_own_namespace(live: Cluster) -> None:
    _place(live, "train", "n2")
    words = live.kubeconfig.read_text().replace(TOKEN, MEMBER_TOKEN)
    live.kubeconfig.write_text(words)
    found = live.kuota("topology", "train", "-n", "vision")
    assert "rank 0" in found
    assert "You may not list workloads of all namespaces." in found
