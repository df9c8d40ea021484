# SPDX-License-Identifier: Apache-2.0
"""Stock kubectl with Kueue's kinds, custom kinds and owned objects."""

from __future__ import annotations

import pytest
import yaml

from hang import HANG_S
from kuota.api.base import Json
from kuota.api.crds import crds
from server.served import Served, config_map, job, pod

QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: research}
spec:
  cohort: lab
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: any, resources: [{name: cpu, nominalQuota: 5}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: main, namespace: default}
spec: {clusterQueue: research}
"""

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: rayjobs.ray.io}
spec:
  group: ray.io
  names: {kind: RayJob, plural: rayjobs, shortNames: [rj], categories: [all]}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [entrypoint]
            properties:
              entrypoint: {type: string}
              replicas: {type: integer, default: 2, minimum: 0}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""


@pytest.fixture(scope="module")
def queues(cluster: Served) -> Served:
    cluster.kubectl("apply", "-f", "-", stdin=QUEUES)
    return cluster


@pytest.fixture(scope="module")
def ray(cluster: Served) -> Served:
    cluster.kubectl("apply", "-f", "-", stdin=CRD)
    cluster.kubectl("wait", "--for=condition=Established", "crd/rayjobs.ray.io")
    return cluster


def test_an_older_version_is_stored_in_the_newer_and_served_in_both(queues: Served) -> None:
    new = queues.json("get", "clusterqueue", "research")
    assert ("kueue.x-k8s.io/v1beta2", "lab") == (new["apiVersion"], new["spec"]["cohortName"])
    old = queues.json("get", "clusterqueues.v1beta1.kueue.x-k8s.io", "research")
    assert ("kueue.x-k8s.io/v1beta1", "lab") == (old["apiVersion"], old["spec"]["cohort"])
    again = queues.warned("apply", "-f", "-", stdin=QUEUES)
    assert "v1beta1 ClusterQueue is deprecated" in again


def test_queues_have_defaults_columns_and_short_names(queues: Served) -> None:
    assert "BestEffortFIFO" == queues.kubectl(
        "get", "cq", "research", "-o", "jsonpath={.spec.queueingStrategy}"
    )
    rows = queues.kubectl("get", "cq", "-o", "wide").splitlines()
    assert rows[0].startswith("NAME       COHORT   STRATEGY")
    assert rows[1].startswith("research   lab      BestEffortFIFO")
    assert "main   research" in queues.kubectl("get", "queues")


def test_a_queue_that_breaks_a_rule_is_refused_with_the_path(queues: Served) -> None:
    patch = '{"spec":{"queueingStrategy":"Random"}}'
    said = queues.kubectl("patch", "cq", "research", "--type=merge", "-p", patch, code=1)
    assert "spec.queueingStrategy: Unsupported value" in said


def test_a_queue_in_use_is_held_by_its_finalizer(queues: Served) -> None:
    queues.kubectl("delete", "cq", "research", "--wait=false")
    found = queues.json("get", "cq", "research")
    assert ["kueue.x-k8s.io/resource-in-use"] == found["metadata"]["finalizers"]
    assert "deletionTimestamp" in found["metadata"]


def test_kueues_own_definitions_can_be_installed_over_it(queues: Served) -> None:
    definition = next(each for each in crds() if each["spec"]["names"]["kind"] == "Cohort")
    queues.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(definition))
    queues.kubectl("get", "cohorts.v1beta1.kueue.x-k8s.io")
    queues.kubectl("delete", "crd", "cohorts.kueue.x-k8s.io")
    queues.kubectl("get", "cohorts")


def ray_job(name: str, **spec: object) -> Json:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_a_custom_kind_has_its_defaults_and_columns(ray: Served) -> None:
    manifest = yaml.safe_dump(ray_job("first", entrypoint="python"))
    assert "created" in ray.kubectl("apply", "-f", "-", stdin=manifest)
    assert "unchanged" in ray.kubectl("apply", "-f", "-", stdin=manifest)
    status = '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
    ray.kubectl("patch", "rj", "first", "--subresource=status", "--type=merge", "-p", status)
    rows = [row.split() for row in ray.kubectl("get", "rj", "first").splitlines()]
    assert [["NAME", "REPLICAS", "READY"], ["first", "2", "True"]] == rows
    assert "rayjob.ray.io/first" in ray.kubectl("get", "all")
    assert "entrypoint\t<string> -required-" in ray.kubectl("explain", "rayjob.spec")


def test_a_custom_kind_is_checked_by_its_schema(ray: Served) -> None:
    said = ray.kubectl(
        "create", "-f", "-", stdin=yaml.safe_dump(ray_job("bad", replicas=-1)), code=1
    )
    assert "spec.entrypoint: Required value" in said
    assert "spec.replicas: Invalid value: -1" in said
    typo = yaml.safe_dump(ray_job("bad", entrypoint="x", entryponit="y"))
    assert 'unknown field "spec.entryponit"' in ray.kubectl("create", "-f", "-", stdin=typo, code=1)


def test_a_custom_kind_is_scaled(ray: Served) -> None:
    ray.kubectl("create", "-f", "-", stdin=yaml.safe_dump(ray_job("big", entrypoint="x")))
    ray.kubectl("scale", "rayjob", "big", "--replicas=5")
    found = ray.json("get", "rj", "big", "--show-managed-fields")
    assert 5 == found["spec"]["replicas"]
    through = {each.get("subresource", "") for each in found["metadata"]["managedFields"]}
    assert {"", "scale"} == through


def test_a_custom_object_is_applied_server_side(ray: Served) -> None:
    manifest = yaml.safe_dump(ray_job("sided", entrypoint="a"))
    ray.kubectl("apply", "--server-side", "-f", "-", stdin=manifest)
    other = yaml.safe_dump(ray_job("sided", entrypoint="b"))
    said = ray.kubectl(
        "apply", "--server-side", "--field-manager=b", "-f", "-", stdin=other, code=1
    )
    assert ".spec.entrypoint" in said


def owned(owner: Json) -> Json:
    child = pod(f"{owner['metadata']['name']}-pod")
    child["metadata"]["ownerReferences"] = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    return child


@pytest.mark.parametrize("policy", ["background", "foreground"])
def test_what_a_job_owns_goes_with_it(cluster: Served, policy: str) -> None:
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump(job(policy)))
    child = owned(cluster.json("get", "job", policy))
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump(child))
    cluster.kubectl("delete", "job", policy, f"--cascade={policy}")
    cluster.kubectl("wait", "--for=delete", f"pod/{policy}-pod", f"--timeout={HANG_S}s")
    assert "not found" in cluster.kubectl("get", "job", policy, code=1)


def test_orphans_stay_and_forget_their_owner(cluster: Served) -> None:
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump(job("parent")))
    child = owned(cluster.json("get", "job", "parent"))
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump(child))
    cluster.kubectl("delete", "job", "parent", "--cascade=orphan")
    assert "ownerReferences" not in cluster.json("get", "pod", "parent-pod")["metadata"]


def test_a_pod_on_a_node_stays_until_its_node_lets_go(cluster: Served) -> None:
    manifest = pod("bound", nodeName="here", terminationGracePeriodSeconds=7)
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump(manifest))
    cluster.kubectl("delete", "pod", "bound", "--wait=false")
    assert ["bound", "0/1", "Terminating"] == cluster.kubectl(
        "get", "pod", "bound", "--no-headers"
    ).split()[:3]
    assert 7 == cluster.json("get", "pod", "bound")["metadata"]["deletionGracePeriodSeconds"]
    cluster.kubectl("delete", "pod", "bound", "--force", "--grace-period=0")
    assert "not found" in cluster.kubectl("get", "pod", "bound", code=1)


def test_events_are_the_same_in_both_apis(cluster: Served) -> None:
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "seen", "namespace": "default"},
        "eventTime": "2026-11-15T12:00:00.000000Z",
        "regarding": {"kind": "Job", "name": "x", "namespace": "default"},
        "reason": "Seen",
        "note": "by both",
        "type": "Normal",
        "action": "Look",
        "reportingController": "kuota",
        "reportingInstance": "kuota-0",
    }
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump(event))
    core = cluster.json("get", "events", "seen")
    assert ("by both", "x") == (core["message"], core["involvedObject"]["name"])
    newer = cluster.json("get", "events.events.k8s.io", "seen")
    assert ("by both", "x") == (newer["note"], newer["regarding"]["name"])
    only = ("get", "events", "--field-selector=involvedObject.name=x", "-o", "name")
    assert "event/seen\n" == cluster.kubectl(*only)


def test_pages_make_up_the_whole(cluster: Served) -> None:
    for at in range(5):
        cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump(config_map(f"page-{at}")))
    names = cluster.kubectl("get", "cm", "--chunk-size=2", "-o", "name").split()
    assert [f"configmap/page-{at}" for at in range(5)] == names
