# SPDX-License-Identifier: Apache-2.0
"""A manager and a worker on one machine: users see where their jobs run, and their logs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from attack.members import TEAMS, Member, job, join
from hang import HANG_S
from up.machine import KUOTA, Machine, open_folder, running

FLEET = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueConfig
metadata: {name: fleet}
spec: {clusters: [lab-2]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: fleet}
spec:
  controllerName: kueue.x-k8s.io/multikueue
  parameters: {apiGroup: kueue.x-k8s.io, kind: MultiKueueConfig, name: fleet}
"""
DISPATCHED = {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "fleet"}]}}}
LOG = "/apis/visibility.kuota.dev/v1alpha1/namespaces/{}/workloads/{}/log?pod={}"
PODS = "/apis/visibility.kuota.dev/v1alpha1/namespaces/{}/workloads/{}/pods"
STAYS = ["sh", "-c", "echo hello from $HOSTNAME; sleep 600"]


class Fleet:
    """The manager, its worker, and a member of each of two teams."""

    def __init__(self, folder: Path, manager: Machine, worker: Machine) -> None:
        self.manager, self.worker = manager, worker
        self.red = join(manager, "rosa", "red", folder)
        self.blue = join(manager, "bob", "blue", folder)
        for team in ("red", "blue"):
            worker.apply(TEAMS.replace("TEAM", team))
        self._connect(folder)

    def _connect(self, folder: Path) -> None:
        token = folder / "lab-2.kubeconfig"
        self.worker.kuota("token", "create", "fleet", "--manager", "--out", str(token))
        self.manager.kuota("cluster", "add", "lab-2", "--kubeconfig", str(token))
        self.manager.apply(FLEET)
        patch = ("patch", "clusterqueue", "red", "--type=merge", "-p", json.dumps(DISPATCHED))
        self.manager.kubectl(*patch)

    def workload(self) -> str:
        (found,) = self.manager.get("workloads", "-n", "red")["items"]
        return str(found["metadata"]["name"])

    def pod(self) -> str:
        (found,) = self.worker.get("pods", "-n", "red")["items"]
        return str(found["metadata"]["name"])


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with (
        open_folder() as folder,
        running("--gpus", "0") as manager,
        running("--gpus", "4") as worker,
    ):
        yield Fleet(folder, manager, worker)


def said(member: Member, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run kuota as a member, who has no access to the worker."""
    return subprocess.run(
        [KUOTA, *arguments],
        env={**os.environ, "KUBECONFIG": str(member.kubeconfig), "KUOTA_STATE": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


@pytest.mark.slow
def test_members_follow_their_jobs_to_another_cluster_and_no_others(fleet: Fleet) -> None:
    assert 0 == fleet.red.create(job("train", STAYS)).returncode
    fleet.manager.started("train", namespace="red")
    _job_is_shown(fleet)
    _requests_to_the_worker_are_counted(fleet)
    _others_see_nothing(fleet)
    _nothing_else_of_the_worker_is_visible(fleet)
    _a_finished_job_says_where_it_ran(fleet)


def _job_is_shown(fleet: Fleet) -> None:
    shown = said(fleet.red, "describe", "job/train")
    assert 0 == shown.returncode, shown.stderr
    assert "Cluster:     lab-2\n" in shown.stdout
    assert f"  {fleet.pod()}" in shown.stdout
    assert "Running" in shown.stdout
    for what in ("job/train", f"workload/{fleet.workload()}"):
        logs = said(fleet.red, "logs", what)
        assert (0, "hello from ") == (logs.returncode, logs.stdout[:11]), logs.stderr
    with subprocess.Popen(
        [KUOTA, "logs", "-f", "job/train"],
        env={**os.environ, "KUBECONFIG": str(fleet.red.kubeconfig)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as following:
        assert following.stdout is not None
        assert following.stdout.readline().startswith("hello from ")
        following.terminate()


def _requests_to_the_worker_are_counted(fleet: Fleet) -> None:
    text = fleet.manager.kubectl("get", "--raw", "/metrics")
    counted = [each for each in text.splitlines() if each.startswith("rest_client_requests_total{")]
    assert all('host="multikueuecluster/lab-2"' in each for each in counted)
    created = [each for each in counted if 'code="201"' in each and 'method="POST"' in each]
    assert 1 == len(created), counted


def _others_see_nothing(fleet: Fleet) -> None:
    name, pod = fleet.workload(), fleet.pod()
    for path in (PODS.format("red", name), LOG.format("red", name, pod)):
        refused = fleet.blue.kubectl("get", "--raw", path)
        assert refused.returncode != 0
        assert "Forbidden" in refused.stderr
    assert said(fleet.blue, "logs", "-n", "red", "job/train").returncode != 0
    # The namespace of the caller does not help either.
    crossed = fleet.blue.kubectl("get", "--raw", LOG.format("blue", name, pod))
    assert "NotFound" in crossed.stderr


def _nothing_else_of_the_worker_is_visible(fleet: Fleet) -> None:
    fleet.worker.kubectl("create", "-n", "red", "-f", "-", stdin=json.dumps(job("own", STAYS)))
    fleet.worker.kubectl("patch", "clusterqueue", "red", "--type=json", "-p", json.dumps(_MORE))
    fleet.worker.started("own", namespace="red")
    pods = fleet.worker.get("pods", "-n", "red")["items"]
    (own,) = (each["metadata"]["name"] for each in pods if "own" in each["metadata"]["name"])
    listed = fleet.red.kubectl("get", "--raw", PODS.format("red", fleet.workload()))
    (seen,) = json.loads(listed.stdout)["pods"]
    assert "own" not in seen["metadata"]["name"]
    assert [{"name": "main"}] == seen["spec"]["containers"], "no environment, no volumes"
    for wanted in (own, "..", "a/b", "%2e%2e", "x" * 300, ""):
        path = LOG.format("red", fleet.workload(), wanted)
        refused = fleet.red.kubectl("get", "--raw", path)
        assert refused.returncode != 0
        assert "hello" not in refused.stdout
        assert "InternalError" not in refused.stderr


_MORE = [
    {
        "op": "replace",
        "path": "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota",
        "value": "2",
    }
]


def _a_finished_job_says_where_it_ran(fleet: Fleet) -> None:
    quick = ["sh", "-c", "echo done"]
    fleet.red.kubectl("delete", "job", "train")
    ran = said(fleet.red, "run", "-q", "main", "--gpus", "1", "--", "sh", "-c", "echo quick words")
    assert "quick words\n" == ran.stdout, "a short job is over before its pods can be listed"
    assert 0 == fleet.red.create(job("quick", quick)).returncode
    fleet.manager.wait("job/quick -n red", "condition=Complete")
    late = said(fleet.red, "logs", "job/quick")
    assert late.returncode != 0
    assert "lab-2" in late.stderr
