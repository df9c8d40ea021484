# SPDX-License-Identifier: Apache-2.0
"""`kuota apply` against a running server."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.cluster import Cluster
from kuota.kube.resources import CLUSTER_QUEUES, CONFIG_MAPS, NAMESPACES

QUEUES = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: research, namespace: lab}
spec: {clusterQueue: gpus}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: gpus}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - {name: any, resources: [{name: nvidia.com/gpu, nominalQuota: QUOTA}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: lab}
"""
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '1'}\n"


def _written(cluster: Cluster, text: str, name: str = "a.yaml") -> str:
    path = Path(cluster.folder, name)
    path.write_text(text)
    return str(path)


def test_objects_are_created_then_left_alone_then_changed(cluster: Cluster) -> None:
    path = _written(cluster, QUEUES.replace("QUOTA", "4"))
    created = cluster.kuota("apply", "-f", path).splitlines()
    # The namespace goes first, wherever it stands: the LocalQueue lives in it.
    assert [
        "namespace/lab created",
        "localqueue.kueue.x-k8s.io/research created",
        "clusterqueue.kueue.x-k8s.io/gpus created",
    ] == created
    again = cluster.kuota("apply", "-f", path)
    assert ["unchanged"] * 3 == [line.split()[-1] for line in again.splitlines()]
    _written(cluster, QUEUES.replace("QUOTA", "8"))
    assert "clusterqueue.kueue.x-k8s.io/gpus configured" in cluster.kuota("apply", "-f", path)
    fields = cluster.get(CLUSTER_QUEUES, "gpus")["metadata"]["managedFields"]
    assert ("kuota", "Apply") in [(each["manager"], each["operation"]) for each in fields]


def test_a_folder_and_standard_input_are_taken(cluster: Cluster) -> None:
    Path(cluster.folder, "all").mkdir()
    _written(cluster, MAP, "all/a.yaml")
    assert "configmap/a created\n" == cluster.kuota("apply", "-f", "all")
    assert "configmap/a\n" == cluster.kuota("apply", "-f", "-", "-o", "name", stdin=MAP)


def test_with_one_fault_nothing_is_applied_and_all_faults_are_reported(cluster: Cluster) -> None:
    broken = QUEUES.replace("QUOTA", "-1").replace("clusterQueue: gpus", "clusterQueue: Gpus!")
    said = cluster.kuota("apply", "-f", _written(cluster, broken), code=1)
    assert "nominalQuota" in said
    assert "spec.clusterQueue" in said
    assert "nothing was applied" in said
    assert "lab" not in cluster.names(NAMESPACES)


def test_a_file_that_is_missing_is_wrong_use(cluster: Cluster) -> None:
    assert "cannot be read" in cluster.kuota("apply", "-f", "none.yaml", code=2)


def test_what_the_server_refuses_does_not_stop_the_rest(cluster: Cluster) -> None:
    foreign = MAP.replace("name: a", "name: b, namespace: nowhere")
    path = _written(cluster, f"{foreign}---\n{MAP}")
    said = cluster.kuota("apply", "-f", path, code=1)
    assert "configmap/a created" in said
    assert f"{path}:1: ConfigMap/b" in said


def test_fields_of_others_are_not_taken_over_without_force(cluster: Cluster) -> None:
    cluster.create(CONFIG_MAPS, _map("theirs"))
    path = _written(cluster, MAP)
    assert "--force-conflicts" in cluster.kuota("apply", "-f", path, code=1)
    assert "theirs" == cluster.get(CONFIG_MAPS, "a")["data"]["x"]
    assert "configmap/a configured\n" == cluster.kuota("apply", "-f", path, "--force-conflicts")
    assert "1" == cluster.get(CONFIG_MAPS, "a")["data"]["x"]


def test_a_dry_run_stores_nothing(cluster: Cluster) -> None:
    said = cluster.kuota("apply", "-f", _written(cluster, MAP), "--dry-run")
    assert "configmap/a created (dry run)\n" == said
    assert "a" not in cluster.names(CONFIG_MAPS)


def test_an_object_without_a_name_leads_to_create(cluster: Cluster) -> None:
    manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n"
    (cluster.folder / "a.yaml").write_text(manifest)
    said = cluster.kuota("apply", "-f", str(cluster.folder / "a.yaml"), code=1)
    assert f"to use a generateName: kuota create -f {cluster.folder / 'a.yaml'}" in said


def test_a_kind_that_is_not_served_is_named(cluster: Cluster) -> None:
    other = "apiVersion: film.example.com/v1\nkind: RenderJob\nmetadata: {name: r}\n"
    said = cluster.kuota("apply", "-f", _written(cluster, other), code=1)
    assert "no RenderJob in film.example.com/v1; install its CustomResourceDefinition" in said


@pytest.mark.parametrize(
    ("said_to_be", "hint"),
    [
        ("batch/v1\nkind: Jobb", "no Jobb in batch/v1; did you mean Job?"),
        ("batch/v2\nkind: Job", "batch/v2 has no kind Job. Fix: use batch/v1."),
        ("bach/v1\nkind: Job", "no Job in bach/v1; Job is in batch/v1"),
    ],
)
def test_a_kind_that_is_misspelt_is_guessed(cluster: Cluster, said_to_be: str, hint: str) -> None:
    other = f"apiVersion: {said_to_be}\nmetadata: {{name: r}}\n"
    assert hint in cluster.kuota("apply", "-f", _written(cluster, other), code=1)


def _map(value: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _named("a"),
        "data": {"x": value},
    }


def _named(name: str, labels: dict[str, str] | None = None) -> dict[str, object]:
    return {"name": name, "namespace": "default", "labels": labels or {}}
