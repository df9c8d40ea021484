# SPDX-License-Identifier: Apache-2.0
"""MultiKueueClusters, their Secrets and checks, in the complete system in virtual time."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections import Counter
from typing import Any

import msgspec
import pytest

from control.objects import flavor, local_queue, queue
from control.stage import Stage
from control.test_multikueue_kubeconfig import CANARY, kubeconfig
from control.virtual import VirtualClock, played
from control.worker_connections import LOST, Worker
from kuota import failures
from kuota.api.base import Json, Key
from kuota.control.system import System
from kuota.kube.client import Client
from kuota.kube.config import Connection
from kuota.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    CORE_EVENTS,
    EVENTS,
    MULTI_KUEUE_CLUSTERS,
    MULTI_KUEUE_CONFIGS,
    NAMESPACES,
    SECRETS,
    WORKLOADS,
)
from kuota.view.clusters import cluster_row

V = "kueue.x-k8s.io/v1beta2"
SPACE = "kueue-system"
T = "2026-01-02T03:04:05Z"
SERVER = "https://worker.example.com:6443"


def secret(name: str, content: str, key: str = "kubeconfig") -> Json:
    coded = base64.b64encode(content.encode()).decode()
    meta = {"namespace": SPACE, "name": name}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {key: coded}}


def cluster(name: str, source: Json | None = None) -> Json:
    by_secret = {"kubeConfig": {"location": f"{name}-secret", "locationType": "Secret"}}
    spec = {"clusterSource": source or by_secret}
    meta = {"name": name}
    return {"apiVersion": V, "kind": "MultiKueueCluster", "metadata": meta, "spec": spec}


def config(*clusters: str, **spec: str) -> Json:
    named = {"apiVersion": V, "kind": "MultiKueueConfig", "metadata": {"name": "fleet"}}
    return named | {"spec": {"clusters": list(clusters), **spec}}


def check(name: str = "elsewhere") -> Json:
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "fleet"}
    spec = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}
    return {"apiVersion": V, "kind": "AdmissionCheck", "metadata": {"name": name}, "spec": spec}


class Fleet(Stage):
    """A manager, and one worker at the address of the kubeconfig."""

    def __init__(self, gates: dict[str, bool] | None = None) -> None:
        super().__init__(gates=gates)
        self.worker = Worker(VirtualClock())
        self.connections: list[Connection] = []

    def start(self) -> None:
        self.system = System(
            self.api, gates=self._gates, clock=self.clock, worker_clients=self._client
        )
        self.running = asyncio.create_task(self.system.run())

    def _client(self, name: str, connection: Connection) -> Client:
        self.connections.append(connection)
        return self.worker

    def activity(self, resource: Any, name: str) -> tuple[str, str]:
        """The status and the reason of the condition Active."""
        found = self.api.find(resource, name)
        assert found is not None
        for each in (found.get("status") or {}).get("conditions") or ():
            if each["type"] == "Active":
                return each["status"], each["reason"]
        return "", ""

    def message(self, name: str) -> str:
        found = self.api.find(MULTI_KUEUE_CLUSTERS, name)
        assert found is not None
        return str(found["status"]["conditions"][0]["message"])


def run(story: Any, gates: dict[str, bool] | None = None) -> None:
    async def played_by() -> None:
        await Fleet(gates).play(story)

    played(played_by())


def test_a_cluster_is_connected_by_its_secret_and_its_check_is_active() -> None:
    async def story(fleet: Any) -> None:
        await fleet.api.apply(secret("near-secret", kubeconfig()), cluster("near"))
        await fleet.api.apply(config("near", "far"), check())
        await fleet.rest()
        assert ("True", "Active") == fleet.activity(MULTI_KUEUE_CLUSTERS, "near")
        assert ("True", "SomeActiveClusters") == fleet.activity(ADMISSION_CHECKS, "elsewhere")
        assert [SERVER] == [each.server for each in fleet.connections]
        await fleet.api.patch(
            MULTI_KUEUE_CONFIGS, Key("", "fleet"), {"spec": {"clusters": ["near"]}}
        )
        await fleet.rest()
        assert ("True", "Active") == fleet.activity(ADMISSION_CHECKS, "elsewhere")
        await fleet.api.delete(MULTI_KUEUE_CLUSTERS, Key("", "near"))
        await fleet.rest()
        assert ("False", "NoUsableClusters") == fleet.activity(ADMISSION_CHECKS, "elsewhere")
        await fleet.api.delete(MULTI_KUEUE_CONFIGS, Key("", "fleet"))
        await fleet.rest()
        assert ("False", "BadConfig") == fleet.activity(ADMISSION_CHECKS, "elsewhere")

    run(story)


def test_a_secret_that_appears_later_or_changes_is_noticed() -> None:
    async def story(fleet: Any) -> None:
        await fleet.api.apply(cluster("near"))
        await fleet.rest()
        assert ("False", "BadKubeConfig") == fleet.activity(MULTI_KUEUE_CLUSTERS, "near")
        assert "Secret 'near-secret' not found in namespace" in fleet.message("near")
        await fleet.api.apply(secret("near-secret", "x", key="other"))
        await fleet.rest()
        assert "under the key 'kubeconfig'" in fleet.message("near")
        await fleet.api.delete(SECRETS, Key(SPACE, "near-secret"))
        await fleet.api.apply(secret("near-secret", kubeconfig()))
        await fleet.rest()
        assert ("True", "Active") == fleet.activity(MULTI_KUEUE_CLUSTERS, "near")
        insecure = kubeconfig(None, {"insecure-skip-tls-verify": True})
        await fleet.api.apply(secret("near-secret", insecure))
        await fleet.rest()
        assert ("False", "InsecureKubeConfig") == fleet.activity(MULTI_KUEUE_CLUSTERS, "near")
        assert fleet.system.checks.multikueue is not None
        assert fleet.system.checks.multikueue.clusters.active() == []
        await fleet.api.apply(secret("near-secret", kubeconfig({"token": "new"})))
        await fleet.rest()
        assert ("True", "Active") == fleet.activity(MULTI_KUEUE_CLUSTERS, "near")
        assert fleet.connections[-1].user.token.reveal() == "new"

    run(story)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (
            {"clusterProfileRef": {"name": "profile"}},
            "MultiKueueClusterProfileFeatureDisabled",
        ),
        (
            {"kubeConfig": {"location": "/etc/passwd", "locationType": "Path"}},
            "BadKubeConfig",
        ),
    ],
)
def test_a_source_that_is_not_allowed_is_refused(source: Json, reason: str) -> None:
    async def story(fleet: Any) -> None:
        await fleet.api.apply(cluster("near", source))
        await fleet.rest()
        assert ("False", reason) == fleet.activity(MULTI_KUEUE_CLUSTERS, "near")

    run(story)


def test_a_lost_cluster_makes_its_check_inactive_and_back() -> None:
    async def story(fleet: Any) -> None:
        await fleet.api.apply(secret("near-secret", kubeconfig()), cluster("near"))
        await fleet.api.apply(config("near"), check())
        await fleet.rest(10)
        fleet.worker.fail(LOST)
        await fleet.rest(60)
        assert ("False", "ClientConnectionFailed") == fleet.activity(MULTI_KUEUE_CLUSTERS, "near")
        assert ("False", "NoUsableClusters") == fleet.activity(ADMISSION_CHECKS, "elsewhere")
        fleet.worker.recover()
        await fleet.rest(400)
        assert ("True", "Active") == fleet.activity(ADMISSION_CHECKS, "elsewhere")

    run(story)


def test_the_managers_own_cluster_is_refused() -> None:
    async def story(fleet: Any) -> None:
        meta = {"name": "kube-system"}
        stored = await fleet.api.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
        )
        fleet.worker.uid = stored["metadata"]["uid"]
        await fleet.api.apply(secret("near-secret", kubeconfig()), cluster("near"))
        await fleet.rest()
        assert "manager's own cluster" in fleet.message("near")

    run(story)


def test_a_name_gets_another_cluster_when_no_workload_records_the_old_one() -> None:
    async def story(fleet: Any) -> None:
        await fleet.api.apply(secret("near-secret", kubeconfig()), cluster("near"))
        meta = {"namespace": "team", "name": "w"}
        await fleet.api.apply({"apiVersion": V, "kind": "Workload", "metadata": meta, "spec": {}})
        await fleet.rest(10)
        for status in (
            {"nominatedClusterNames": ["near"]},
            {"clusterName": "near", "nominatedClusterNames": None},
        ):
            body, key = {"status": status}, Key("team", "w")
            await fleet.api.patch(WORKLOADS, key, body, subresource="status")
        fleet.worker.uid = "another"
        fleet.worker.cut(LOST)
        await fleet.rest()
        assert "for another cluster than before" in fleet.message("near")
        await fleet.api.delete(WORKLOADS, Key("team", "w"))
        await fleet.rest(20)
        assert ("True", "Active") == fleet.activity(MULTI_KUEUE_CLUSTERS, "near")

    run(story)


def test_a_cluster_has_two_names_unless_one_config_names_both() -> None:
    async def story(fleet: Any) -> None:
        for name in ("near", "again"):
            await fleet.api.apply(secret(f"{name}-secret", kubeconfig()), cluster(name))
        await fleet.rest()
        states = {fleet.activity(MULTI_KUEUE_CLUSTERS, name) for name in ("near", "again")}
        assert {("True", "Active")} == states
        await fleet.api.apply(config("near", "again"))
        await fleet.rest()
        states = {fleet.activity(MULTI_KUEUE_CLUSTERS, name) for name in ("near", "again")}
        assert {("True", "Active"), ("False", "BadKubeConfig")} == states
        await fleet.api.delete(MULTI_KUEUE_CONFIGS, Key("", "fleet"))
        await fleet.rest()
        states = {fleet.activity(MULTI_KUEUE_CLUSTERS, name) for name in ("near", "again")}
        assert {("True", "Active")} == states

    run(story)


def copy_of(name: str, origin: str = "multikueue") -> Json:
    labels = {"kueue.x-k8s.io/multikueue-origin": origin}
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    return {
        "apiVersion": V,
        "kind": "Workload",
        "metadata": {"namespace": "team", "name": name, "labels": labels},
        "spec": {"podSets": [{"name": "main", "count": 1, "template": template}]},
    }


def test_what_is_left_over_in_a_worker_is_deleted_at_the_interval() -> None:
    async def story(fleet: Any) -> None:
        await fleet.api.apply(secret("near-secret", kubeconfig()), cluster("near"))
        await fleet.api.create(WORKLOADS, copy_of("kept"))
        # Its check is not known, so nobody can say that it has no copies.
        state = {"name": "elsewhere", "state": "Pending", "message": "", "lastTransitionTime": T}
        status = {"status": {"admissionChecks": [state]}}
        await fleet.api.patch(WORKLOADS, Key("team", "kept"), status, subresource="status")
        other = copy_of("of-another-manager")
        other["metadata"]["annotations"] = {"kuota.dev/multikueue-manager": "another"}
        await fleet.api.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}
        )
        stale = (copy_of("gone"), copy_of("malformed"))
        for each in (copy_of("kept"), *stale, copy_of("foreign", "other"), other):
            made = await fleet.worker.create(WORKLOADS, each)
            if made["metadata"]["name"] == "malformed":
                unnamed = {"metadata": made["metadata"] | {"ownerReferences": [{"kind": "Job"}]}}
                fleet.worker.store_unvalidated(WORKLOADS, Key("team", "malformed"), unnamed)
        await fleet.rest(70)
        left = [each["metadata"]["name"] for each in fleet.worker.all(WORKLOADS)]
        assert ["kept", "foreign", "of-another-manager"] == left

    run(story)


def test_a_meaningless_answer_to_a_deletion_does_not_end_the_manager(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failures, "COUNTS", counted := Counter[str]())

    async def story(fleet: Any) -> None:
        delete = fleet.worker.delete

        async def meaningless(*args: Any, **options: Any) -> Json:
            return {}

        await fleet.api.apply(secret("near-secret", kubeconfig()), cluster("near"))
        await fleet.worker.create(WORKLOADS, copy_of("gone"))
        fleet.worker.delete = meaningless
        await fleet.rest(70)
        assert counted["worker cluster"] == 1
        fleet.worker.delete = delete
        await fleet.rest(70)
        assert [] == fleet.worker.all(WORKLOADS), "it is tried again"

    run(story)


def test_a_cluster_reports_that_another_manager_has_the_same_origin() -> None:
    def conflict(fleet: Any) -> Json:
        found = fleet.api.find(MULTI_KUEUE_CLUSTERS, "near")["status"]["conditions"]
        return next((each for each in found if each["type"] == "OriginConflict"), {})

    async def story(fleet: Any) -> None:
        await fleet.api.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}
        )
        await fleet.api.apply(secret("near-secret", kubeconfig()), cluster("near"))
        await fleet.rest()
        assert {} == conflict(fleet)
        other = copy_of("train")
        other["metadata"]["annotations"] = {"kuota.dev/multikueue-manager": "another"}
        await fleet.worker.create(WORKLOADS, other)
        await fleet.rest()
        assert ("True", "OriginInUse") == (conflict(fleet)["status"], conflict(fleet)["reason"])
        assert "team/train" in conflict(fleet)["message"]
        assert "set multiKueue.origin" in conflict(fleet)["message"]
        assert ("True", "Active") == fleet.activity(MULTI_KUEUE_CLUSTERS, "near")
        row = cluster_row(fleet.api.find(MULTI_KUEUE_CLUSTERS, "near"), (), ())
        assert ("connected", conflict(fleet)["message"]) == (row.state, row.message)
        fleet.worker.fail(LOST)
        await fleet.rest(60)
        await fleet.worker.delete(WORKLOADS, Key("team", "train"))
        await fleet.rest()
        assert {} != conflict(fleet)
        fleet.worker.recover()
        await fleet.rest(400)
        assert {} == conflict(fleet)

    run(story)


def test_the_quota_of_a_manager_follows_its_workers() -> None:
    async def story(fleet: Any) -> None:
        await fleet.furnish(cpu=1)
        strategy = {"admissionChecksStrategy": {"admissionChecks": [{"name": "elsewhere"}]}}
        await fleet.api.patch(CLUSTER_QUEUES, Key("", "cq"), {"spec": strategy})
        await fleet.api.apply(secret("near-secret", kubeconfig()), cluster("near"))
        await fleet.api.apply(config("near", quotaManagement="Automated"), check())
        await fleet.worker.apply(flavor(), queue("theirs", 7), local_queue("main", "theirs"))
        await fleet.rest(10)
        found = fleet.api.find(CLUSTER_QUEUES, "cq")
        resources = found["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
        assert ["7"] == [each["nominalQuota"] for each in resources]
        conditions = {each["type"]: each["reason"] for each in found["status"]["conditions"]}
        assert "QuotaAutomated" == conditions["MultiKueueManagerQuotaAutomation"]

    run(story, {"MultiKueueManagerQuotaAutomation": True})


def test_no_part_of_a_kubeconfig_appears_in_objects_events_or_logs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(fleet: Any) -> None:
        contents = [
            kubeconfig(),
            kubeconfig({"token": CANARY, "tokenFile": f"/{CANARY}"}),
            kubeconfig({"token": CANARY}, {"server": f"https://{CANARY}.example.com"}),
            f"{CANARY}: [",
        ]
        await fleet.api.apply(cluster("near"))
        for each in contents:
            await fleet.api.apply(secret("near-secret", each))
            await fleet.rest(10)
            fleet.worker.fail(LOST)
            await fleet.rest(30)
            fleet.worker.recover()
        written = [
            msgspec.json.encode(fleet.api.all(kind)).decode()
            for kind in (MULTI_KUEUE_CLUSTERS, EVENTS, CORE_EVENTS)
        ]
        assert CANARY not in "".join(written)

    caplog.set_level(logging.DEBUG)
    run(story)
    assert CANARY not in caplog.text
