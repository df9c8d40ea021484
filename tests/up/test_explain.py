# SPDX-License-Identifier: Apache-2.0
"""A running system explains why a workload waits as `kuota plan` does from its manifests."""

from __future__ import annotations

import json

from up.lab import job, queues
from up.machine import Machine

KINDS = "resourceflavors,clusterqueues,localqueues,workloads,workloadpriorityclasses,namespaces"


def test_describe_explains_as_plan_does(machine: Machine) -> None:
    machine.apply(queues(), job("runs", "sleep 1000", gpus=2))
    machine.started("runs")
    machine.apply(job("waits", "true"))
    waits = "jsonpath={.status.conditions[?(@.type=='QuotaReserved')].status}=False"
    machine.wait("workloads --all", "create")
    name = next(
        each["metadata"]["name"]
        for each in machine.get("workloads")["items"]
        if "waits" in each["metadata"]["name"]
    )
    machine.wait(f"workload/{name}", waits)
    objects = machine.kubectl("get", KINDS, "-A", "-o", "yaml")
    asked = ("plan", "-f", "-", "-o", "json", "--explain", f"default/{name}")
    planned = json.loads(machine.kuota(*asked, stdin=objects))["why"]
    said = machine.kuota("describe", "job", "waits")
    assert f"Why:         {planned['text']}\n" in said
    assert "ClusterQueue lab" in planned["text"]
    assert "Position:    1 of 1 in the ClusterQueue\n" in said
    flat = " ".join(said.split())
    assert planned["help"]
    for each in planned["help"]:
        # Plan knows workloads by their own names where their Jobs are not among its manifests.
        assert each["text"].partition(" default/")[0] in flat
