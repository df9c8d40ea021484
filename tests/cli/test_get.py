# SPDX-License-Identifier: Apache-2.0
"""`kuota get` and `kuota describe` against a running server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

from cli.cluster import Cluster, condition, job, local_queue, pod_status, workload
from kuota.cli.connect import explained
from kuota.kube.errors import Unreachable
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    CRDS,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    NODES,
    PODS,
    WORKLOADS,
)
from kuota.up.place import Place, Running


def _populated(cluster: Cluster) -> None:
    cluster.create(JOBS, job("a", team="x"))
    cluster.create(JOBS, job("b", team="y"))
    cluster.create(LOCAL_QUEUES, local_queue("research"))


def test_objects_are_shown_as_the_servers_table(cluster: Cluster) -> None:
    _populated(cluster)
    header, *rows = cluster.kuota("get", "jobs").splitlines()
    assert ["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE"] == header.split()
    assert ["a", "b"] == [row.split()[0] for row in rows]
    wide = cluster.kuota("get", "job", "a", "-o", "wide")
    assert "CONTAINERS" in wide
    assert "\nb" not in wide


def test_labels_select(cluster: Cluster) -> None:
    _populated(cluster)
    assert "job.batch/b\n" == cluster.kuota("get", "jobs", "-l", "team=y", "-o", "name")


def test_all_namespaces_are_shown_with_their_names(cluster: Cluster) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}}
    cluster.create(NAMESPACES, namespace)
    _populated(cluster)
    away = job("c")
    away["metadata"]["namespace"] = "lab"
    cluster.create(JOBS, away)
    rows = [line.split()[:2] for line in cluster.kuota("get", "jobs", "-A").splitlines()]
    assert [["NAMESPACE", "NAME"], ["default", "a"], ["default", "b"], ["lab", "c"]] == rows
    assert "job.batch/c\n" == cluster.kuota("get", "jobs", "-n", "lab", "-o", "name")


def test_several_kinds_make_several_tables(cluster: Cluster) -> None:
    _populated(cluster)
    said = cluster.kuota("get", "jobs,lq")
    assert "jobs.batch/a" in said
    assert "localqueues.kueue.x-k8s.io/research" in said


def test_whole_objects_come_as_json_and_yaml(cluster: Cluster) -> None:
    _populated(cluster)
    one = json.loads(cluster.kuota("get", "job/a", "-o", "json"))
    assert ("Job", "a") == (one["kind"], one["metadata"]["name"])
    assert "managedFields" not in one["metadata"]
    every = yaml.safe_load(cluster.kuota("get", "jobs", "-o", "yaml"))
    assert ("List", ["a", "b"]) == (every["kind"], [o["metadata"]["name"] for o in every["items"]])


def test_nothing_found_is_no_failure_and_leaves_standard_output_empty(cluster: Cluster) -> None:
    with cluster.start("get", "jobs") as process:
        out, err = process.communicate(timeout=30)
    assert (0, "", "No jobs found in namespace default.\n") == (process.returncode, out, err)


def test_a_missing_object_fails(cluster: Cluster) -> None:
    assert 'jobs.batch "none" not found' in cluster.kuota("get", "job", "none", code=1)
    assert "" == cluster.kuota("get", "job", "none", "--ignore-not-found")


LOOKING = [("get", "job"), ("get", "-o", "yaml", "job"), ("describe", "job"), ("delete", "job")]


@pytest.mark.parametrize("command", LOOKING)
def test_an_object_of_another_namespace_is_pointed_out(
    cluster: Cluster, command: tuple[str, ...]
) -> None:
    cluster.create(NAMESPACES, {"metadata": {"name": "vision"}})
    made = job("train")
    made["metadata"]["namespace"] = "vision"
    cluster.create(JOBS, made)
    said = cluster.kuota(*command, "train", code=1)
    hint = "not found in namespace default; there is one in namespace vision: say -n vision"
    assert f'jobs.batch "train" {hint}' in said
    assert "there is one" not in cluster.kuota(*command, "none", code=1)


def test_an_unknown_kind_is_guessed(cluster: Cluster) -> None:
    assert "did you mean job?" in cluster.kuota("get", "jop", code=2)


def test_kinds_of_definitions_are_found(cluster: Cluster) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"plural": "rayjobs", "singular": "rayjob", "kind": "RayJob", "shortNames": ["rj"]}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "rayjobs.ray.io"},
        "spec": {"group": "ray.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    cluster.create(CRDS, definition)
    manifest = "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: r}\n"
    assert "rayjob.ray.io/r created\n" == cluster.kuota("apply", "-f", "-", stdin=manifest)
    assert "rayjob.ray.io/r\n" == cluster.kuota("get", "rj", "-o", "name")


def test_changes_are_shown_as_they_come(cluster: Cluster) -> None:
    cluster.create(JOBS, job("a"))
    with cluster.start("get", "jobs", "-w") as process:
        assert process.stdout is not None
        assert "NAME" == process.stdout.readline().split()[0]
        assert "a" == process.stdout.readline().split()[0]
        cluster.create(JOBS, job("b"))
        assert "b" == process.stdout.readline().split()[0]
        cluster.status(JOBS, "b", {"active": 1})
        assert "b" == process.stdout.readline().split()[0]
        process.terminate()


def test_names_are_followed(cluster: Cluster) -> None:
    with cluster.start("get", "job", "b", "-w", "-o", "name") as process:
        assert process.stdout is not None
        cluster.create(JOBS, job("a"))
        cluster.create(JOBS, job("b"))
        assert "job.batch/b\n" == process.stdout.readline()
        process.terminate()


def test_a_job_is_described_with_the_reason_why_it_waits(cluster: Cluster) -> None:
    made = cluster.create(JOBS, job("train"))
    cluster.create(WORKLOADS, workload("job-train", made))
    reserved = condition("QuotaReserved", holds=False, reason="Pending", message="2 more needed")
    cluster.status(WORKLOADS, "job-train", {"conditions": [reserved]})
    said = cluster.kuota("describe", "job", "train")
    assert "State:       waiting\n" in said
    assert "Why:         2 more needed\n" in said
    assert "Workload:    job-train\n" in said
    assert "Events:      none\n" in said
    assert "QuotaReserved   False" in cluster.kuota("describe", "wl/job-train")


def test_a_node_is_described_with_what_is_free(cluster: Cluster) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "here"}}
    cluster.create(NODES, node)
    offered = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    cluster.status(NODES, "here", {"allocatable": offered})
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "500m"}}}
    for name in ("a", "b"):
        metadata = {"name": name, "namespace": "default"}
        spec = {"nodeName": "here", "containers": [container]}
        cluster.create(PODS, {"kind": "Pod", "metadata": metadata, "spec": spec})
    cluster.status(PODS, "b", {"phase": "Succeeded"})
    said = [line.split() for line in cluster.kuota("describe", "node", "here").splitlines()]
    for row in (["cpu", "4", "500m", "3500m"], ["memory", "8Gi", "0", "8Gi"]):
        assert row in said
    assert ["Pods:", "default/a"] in said


def test_who_waits_in_vain_is_told_what_would_help(cluster: Cluster) -> None:
    cluster.kuota("create", "cq", "gpus")
    cluster.create(LOCAL_QUEUES, local_queue("research", "gpus"))
    stopped = condition("Active", holds=False, message="it is stopped")
    cluster.status(CLUSTER_QUEUES, "gpus", {"conditions": [stopped]})
    cluster.create(WORKLOADS, workload("w", cluster.create(JOBS, job("train"))))
    message = "pod set main got no flavor: 9 is more than the 8 it could ever get"
    waits = condition("QuotaReserved", holds=False, reason="ExceedsMaxQuota", message=message)
    asked = [{"name": "main", "resources": {"nvidia.com/gpu": "9"}}]
    cluster.status(WORKLOADS, "w", {"conditions": [waits], "resourceRequests": asked})
    said = cluster.kuota("describe", "job/train")
    assert "Queue:       research, of ClusterQueue gpus\n" in said
    assert "Asks for:    9 nvidia.com/gpu\n" in said
    why = "9 is more than the 8 it could ever get. ClusterQueue gpus: it is stopped"
    assert f"Why:         {why}\n" in said
    assert "Way out:     ask for less, or have the quota raised" in said


def test_who_names_a_queue_that_is_not_there_is_told_those_that_are(cluster: Cluster) -> None:
    cluster.create(WORKLOADS, workload("w", cluster.create(JOBS, job("train")), "reserch"))
    assert "Way out:     create LocalQueue reserch" in cluster.kuota("describe", "job/train")
    for name in ("research", "speech"):
        cluster.create(LOCAL_QUEUES, local_queue(name))
    out = "name another queue: in namespace default there are research and speech"
    assert f"Way out:     {out}\n" in cluster.kuota("describe", "job/train")


def test_a_job_whose_pods_find_no_room_is_told_why(cluster: Cluster) -> None:
    made = cluster.create(JOBS, job("train"))
    cluster.create(WORKLOADS, workload("w", made))
    cluster.status(WORKLOADS, "w", {"conditions": [condition("Admitted")]})
    cluster.start_pod(made, "train-1", "Pending")
    full = condition("PodScheduled", holds=False, message="0/1 nodes are available")
    cluster.status(PODS, "train-1", {"phase": "Pending", "conditions": [full]})
    said = cluster.kuota("describe", "job/train")
    assert "Why:         pod train-1: 0/1 nodes are available\n" in said


def test_a_job_without_a_queue_is_told_why_its_pods_wait(cluster: Cluster) -> None:
    cluster.start_pod(cluster.create(JOBS, job("train")), "train-1", "Pending")
    full = condition("PodScheduled", holds=False, message="0/1 nodes are available")
    cluster.status(PODS, "train-1", {"phase": "Pending", "conditions": [full]})
    said = cluster.kuota("describe", "job/train")
    assert "Why:         pod train-1: 0/1 nodes are available\n" in said


def test_a_job_whose_pods_fail_is_told_why_until_one_runs(cluster: Cluster) -> None:
    made = cluster.create(JOBS, job("train"))
    cluster.create(WORKLOADS, workload("w", made))
    waiting = condition("PodsReady", holds=False, message="Not all pods are ready")
    cluster.status(WORKLOADS, "w", {"conditions": [condition("Admitted"), waiting]})
    cluster.start_pod(made, "train-1")
    ended = {"terminated": {"exitCode": 128, "message": "it has no command"}}
    cluster.status(PODS, "train-1", pod_status("Failed", ended))
    said = "Why:         pod train-1: it has no command\n"
    assert said in cluster.kuota("describe", "job/train")
    cluster.start_pod(made, "train-2")
    assert said not in cluster.kuota("describe", "job/train")


def _preempted_by(cluster: Cluster, uid: str) -> str:
    """What a Job is told that had to make room for the Workload with that uid."""
    cluster.create(WORKLOADS, workload("w", cluster.create(JOBS, job("train"))))
    message = (
        f"preempted to make room for a workload (UID: {uid}, job UID: 1) "
        "due to priority; preemptor path: /a; preempted path: /a"
    )
    evicted = condition("Evicted", reason="Preempted", message=message)
    cluster.status(WORKLOADS, "w", {"conditions": [evicted]})
    return cluster.kuota("describe", "job/train")


def test_who_was_preempted_is_told_for_whom(cluster: Cluster) -> None:
    cluster.create(NAMESPACES, {"kind": "Namespace", "metadata": {"name": "lab"}})
    urgent = job("urgent")
    urgent["metadata"]["namespace"] = "lab"
    other = workload("w2", cluster.create(JOBS, urgent))
    other["metadata"]["namespace"] = "lab"
    taker = cluster.create(WORKLOADS, other)
    plain = "preempted to make room for Job urgent in namespace lab due to priority"
    assert f"Why:         {plain}\n" in _preempted_by(cluster, taker["metadata"]["uid"])


def test_who_was_preempted_for_somebody_unknown_is_spared_the_uid(cluster: Cluster) -> None:
    plain = "preempted to make room for another workload due to priority"
    assert f"Why:         {plain}\n" in _preempted_by(cluster, "gone")


def test_a_certificate_that_proves_nothing_is_told_apart_from_silence() -> None:
    error = Unreachable("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate")
    assert "the server cannot prove who it is" in explained(error).message


def test_without_a_server_the_status_is_three(cluster: Cluster) -> None:
    said = cluster.kuota("get", "jobs", code=3, KUBECONFIG="")
    assert "Start one with `kuota up`" in said
    cluster.close()
    assert "does not answer" in cluster.kuota("get", "jobs", code=3)
    assert "no such file" in cluster.kuota("get", "jobs", "--kubeconfig", "/none", code=3)


def test_a_token_that_is_not_known_is_refused(cluster: Cluster) -> None:
    text = cluster.kubeconfig.read_text().replace("admin-token", "wrong")
    cluster.kubeconfig.write_text(text)
    assert "does not know these credentials" in cluster.kuota("get", "jobs", code=1)


def test_the_running_installation_is_found(cluster: Cluster) -> None:
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    running = Running(pid=os.getpid(), started=started, port=cluster.port, version="test")
    Place(cluster.folder).announce(running)
    said = cluster.kuota("get", "ns", "-o", "name", KUBECONFIG="", KUOTA_STATE=str(cluster.folder))
    assert "namespace/default" in said


OTHER_USER = """
import os, sys
import kuota.kube.config, kuota.up.place
from kuota.cli.connect import Choice, connection_of
if os.geteuid() == 0:
    os.setuid(65534)
print(connection_of(Choice()).server)
"""


def test_somebody_elses_installation_is_reached_by_its_socket() -> None:
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    with TemporaryDirectory() as folder:
        place = Place(Path(folder))
        place.root.chmod(0o711)
        place.announce(Running(pid=os.getpid(), started=started, port=1, version="test"))
        place.kubeconfig.touch(mode=0)
        env = os.environ | {"KUOTA_STATE": folder, "KUBECONFIG": "", "HOME": "/"}
        done = subprocess.run(
            [sys.executable, "-c", OTHER_USER], env=env, check=True, capture_output=True, text=True
        )
        assert f"unix://{place.socket}\n" == done.stdout
