# SPDX-License-Identifier: Apache-2.0
"""A run with more Jobs than quota, two queues and a preemption, and its expected final state.

The final state does not depend on the injected failures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from cluster.definitions import minimal
from control.objects import check, condition, flavor, local_queue, workload_class
from control.virtual import played
from injection import objects
from injection.check import NAME
from injection.installation import ELASTIC, GPU, LATENCY_S, Installation
from injection.points import PLAN, Failure
from kuota.api.base import Json, Key
from kuota.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    CRDS,
    CRON_JOBS,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    key_of,
)
from kuota.runner.inventory import Machine
from kuota.runner.nodes import node_status, this_machine

LIMIT_S = 900.0
"""By then everything must have come to rest, whatever failed."""


LAST = "last"
ENDS = {"low", "high", "one", "two", "either", "checked", "placed", "owned", ELASTIC}
"""The Jobs that must succeed. `long` must run, and `brief` and `gone` come and go.

Of the other kinds, group and JobSet must succeed, Deployment and StatefulSet must run. The queue of
JobSet and StatefulSet is drained for a while.
"""


async def _begin(it: Installation) -> None:
    """What is there before the first process starts."""
    named = {"apiVersion": "v1", "kind": "ConfigMap"}
    await it.apply((NAMESPACES, {"metadata": {"name": "team"}}))
    for each in (objects.JOB_SETS, objects.MPI_JOBS):
        await it.apply((CRDS, minimal(each.group, each.version, each.plural, each.kind)))
    meta = {"name": "settings", "namespace": "team"}
    await it.apply((CONFIG_MAPS, named | {"metadata": meta, "data": {"A": "1"}}))
    for name in ("empty", "busy"):
        plan = this_machine(name, Machine(cpu_milli=1000, memory_bytes=1 << 30, disk_bytes=1))
        await it.client.create(NODES, plan.node)
        status = {"status": node_status(plan, "127.0.0.1", it.clock.now().timestamp())}
        await it.client.patch(NODES, Key("", name), status, subresource="status")
    await it.apply((PODS, objects.pod("former", 30, nodeName="busy")))
    await _short_lived_node(it)
    taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    lost = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "lost"}}
    stray = objects.pod("stray", 30, nodeName="lost")
    stray["metadata"]["labels"] = {"kueue.x-k8s.io/managed": "true"}
    stray["metadata"]["annotations"] = {"kueue.x-k8s.io/safe-to-forcefully-delete": "true"}
    await it.apply((NODES, lost | {"spec": {"taints": [taint]}}), (PODS, stray))
    await it.client.delete(PODS, key_of(stray))


async def _short_lived_node(it: Installation) -> None:
    """A node with one GPU, which is the best place for a job that needs one."""
    labels = {"kubernetes.io/hostname": "fragile", "kubernetes.io/os": "linux"}
    meta = {"name": "fragile", "labels": labels}
    room = {"cpu": "1", "memory": "1Gi", "pods": "10", GPU: "1"}
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}
    status = {"capacity": room, "allocatable": room, "conditions": [ready]}
    await it.apply((NODES, {"apiVersion": "v1", "kind": "Node", "metadata": meta}))
    await it.client.patch(NODES, Key("", "fragile"), {"status": status}, subresource="status")


async def _fail_node(it: Installation) -> None:
    """Cordon the node as soon as a job is placed on it, and delete it while a pod waits for it."""
    await _placed_job_is(it, lambda: _assigned(it))
    await it.client.patch(NODES, Key("", "fragile"), {"spec": {"unschedulable": True}})
    await _placed_job_is(it, lambda: _waits_for_node(it))
    await it.client.delete(NODES, Key("", "fragile"))


async def _placed_job_is(it: Installation, there: Callable[[], Awaitable[bool]]) -> None:
    """Return once this holds, or once the job has ended: after a failure it may run elsewhere."""
    while not await there():
        if _succeeded(await it.client.get(JOBS, Key("team", "placed"))):
            return
        await asyncio.sleep(LATENCY_S)


async def _assigned(it: Installation) -> bool:
    return any("fragile" in str(each.get("status")) for each in await it.all(WORKLOADS))


async def _waits_for_node(it: Installation) -> bool:
    own = [each["spec"] for each in await it.all(PODS) if key_of(each).name.startswith("placed")]
    return any(each.get("nodeSelector") and not each.get("schedulingGates") for each in own)


async def _play(it: Installation) -> None:
    """What people do, at certain moments, however it goes."""
    preemption = {"withinClusterQueue": "LowerPriority"}
    await it.apply(
        (RESOURCE_FLAVORS, flavor()),
        (RESOURCE_FLAVORS, flavor("spare")),
        (TOPOLOGIES, objects.TOPOLOGY),
        (CLUSTER_QUEUES, objects.queue("a", 2, preemption=preemption)),
        (CLUSTER_QUEUES, objects.queue("b", 3)),
        (LOCAL_QUEUES, local_queue("a", "a")),
        (CLUSTER_QUEUES, objects.queue("c", 1, flavors=("default", "spare"), **objects.CONCURRENT)),
        (CLUSTER_QUEUES, objects.queue("d", 4)),
        (CLUSTER_QUEUES, objects.queue("e", 2)),
        (ADMISSION_CHECKS, check("switch", NAME)),
        (CLUSTER_QUEUES, objects.queue("f", 1, admissionChecksStrategy=objects.SWITCHED)),
        (LOCAL_QUEUES, local_queue("f", "f")),
        (TOPOLOGIES, objects.HOSTS),
        (RESOURCE_FLAVORS, objects.PLACED),
        (CLUSTER_QUEUES, objects.queue("g", 1, flavors=("placed",))),
        (LOCAL_QUEUES, local_queue("g", "g")),
        (LOCAL_QUEUES, local_queue("d", "d")),
        (LOCAL_QUEUES, local_queue("e", "e")),
        (LOCAL_QUEUES, local_queue("b", "b")),
        (LOCAL_QUEUES, local_queue("c", "c")),
        (WORKLOAD_PRIORITY_CLASSES, workload_class("high", 10)),
        (CRON_JOBS, objects.cron()),
    )
    await asyncio.sleep(2)
    await it.apply(
        (JOBS, objects.job("low", "a", 2, 60)),
        (JOBS, objects.job("one", "b", 1, 15, parallelism=2, completions=2)),
        (JOBS, objects.job("long", "b", 1, 1e6)),
        (JOBS, objects.job("brief", "", 0, 5, ttlSecondsAfterFinished=5)),
        (JOBS, objects.job("gone", "", 0, 30)),
        (JOBS, objects.job("late", "", 0, 1000, activeDeadlineSeconds=5)),
        (JOBS, objects.job("either", "c", 1, 10)),
        (JOBS, objects.job("checked", "f", 1, 10)),
        (JOBS, objects.placed()),
        (PODS, objects.pod("huge", 5, 1000)),
    )
    await _fail_node(it)
    mpi = await it.client.create(objects.MPI_JOBS, objects.mpi_job())
    await it.apply(
        (JOBS, objects.owned(mpi)),
        (PODS, objects.member("member-0")),
        (PODS, objects.member("member-1")),
        (objects.STATEFUL_SETS, objects.serving(objects.STATEFUL_SETS, "db")),
        (objects.DEPLOYMENTS, objects.serving(objects.DEPLOYMENTS, "web")),
        (objects.JOB_SETS, objects.job_set("set", "e", 20)),
        (objects.JOB_SETS, objects.job_set("brief", "d", 5, ttlSecondsAfterFinished=5)),
        (JOBS, objects.elastic()),
    )
    await asyncio.sleep(8)
    await it.client.create(CONFIG_MAPS, objects.switch())
    await it.client.patch(JOBS, Key("team", ELASTIC), {"spec": {"parallelism": 2}})
    await it.client.patch(objects.DEPLOYMENTS, Key("team", "web"), {"spec": {"replicas": 2}})
    await it.client.patch(CLUSTER_QUEUES, Key("", "e"), {"spec": {"stopPolicy": "HoldAndDrain"}})
    await it.apply(
        (JOBS, objects.job("high", "a", 2, 20, high=True)),
        (JOBS, objects.job("two", "b", 2, 15)),
    )
    await it.client.delete(JOBS, Key("team", "gone"), propagation="Orphan")
    await asyncio.sleep(10)
    await it.apply((WORKLOADS, await _twin(it, "two")))
    changed = {"metadata": {"annotations": {"version": "2"}}}
    body = {"spec": {"replicas": 1, "template": changed}}
    await it.client.patch(objects.DEPLOYMENTS, Key("team", "web"), body)
    await it.client.patch(objects.STATEFUL_SETS, Key("team", "db"), {"spec": {"template": changed}})
    await it.client.patch(CLUSTER_QUEUES, Key("", "e"), {"spec": {"stopPolicy": "None"}})
    high = Key("", "high")
    await it.client.patch(WORKLOAD_PRIORITY_CLASSES, high, {"value": 20})
    await it.client.delete(PODS, Key("team", "huge"))
    await asyncio.sleep(120)


async def _twin(it: Installation, job: str) -> Json:
    """A second Workload of a Job, which somebody made by mistake."""
    owner = await it.client.get(JOBS, Key("team", job))
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "controller": True}
    reference |= {"uid": owner["metadata"]["uid"], "blockOwnerDeletion": True}
    pods = {"name": "main", "count": 1, "template": owner["spec"]["template"]}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "twin", "namespace": "team", "ownerReferences": [reference]},
        "spec": {"queueName": "b", "podSets": [pods]},
    }


async def _faults(it: Installation) -> list[str]:
    """What is not yet as it must be in the end."""
    found: list[str] = []
    jobs = {key_of(each).name: each for each in await it.all(JOBS)}
    ticks = [each for name, each in jobs.items() if name.startswith("tick-")]
    ends = ENDS | ({LAST} & jobs.keys())
    found += [f"{name} has not succeeded" for name in ends if not _succeeded(jobs[name])]
    found += [f"{name} is still there" for name in ("brief", "gone") if name in jobs]
    if not any(_succeeded(each) for each in ticks):
        found.append("no Job of the CronJob has succeeded")
    if condition(jobs["late"], "Failed").get("reason") != "DeadlineExceeded":
        found.append("late has not failed")
    if (jobs["long"].get("status") or {}).get("ready") != 1:
        found.append("long does not run")
    found += await _other_faults(it)
    found += [*await _record_faults(it), *await _node_faults(it)]
    return [*found, *await _quota_faults(it), *await _pod_faults(it)]


async def _other_faults(it: Installation) -> list[str]:
    """Jobs of other kinds: those that end have ended, and the others run."""
    found = []
    pods = {key_of(each).name: each for each in await it.all(PODS)}
    members = [name for name in ("member-0", "member-1") if name in pods]
    found += [f"{name} has not ended" for name in members if _phase(pods[name]) != "Succeeded"]
    for resource in (objects.STATEFUL_SETS, objects.DEPLOYMENTS):
        (served,) = await it.all(resource)
        if (served.get("status") or {}).get("readyReplicas") != 1:
            found.append(f"{resource.kind} does not run")
    sets = {key_of(each).name: each for each in await it.all(objects.JOB_SETS)}
    if {*sets} != {"set"}:
        found.append(f"the JobSets are {sorted(sets)}")
    elif condition(sets["set"], "Completed").get("status") != "True":
        found.append("the JobSet has not ended")
    return found


async def _record_faults(it: Installation) -> list[str]:
    """Deployment and StatefulSet have had two templates, of which the second is the present one.

    The Deployment keeps no record of the first.
    """
    (web,), (db,) = [await it.all(each) for each in (objects.DEPLOYMENTS, objects.STATEFUL_SETS)]
    found = []
    sets = [(_revision(each), each["spec"].get("replicas")) for each in await it.all(REPLICA_SETS)]
    if sets != [("2", 1)]:
        found.append(f"the ReplicaSets have the numbers and replicas {sets}")
    if _revision(web) != "2":
        found.append(f"the Deployment has revision {_revision(web)}")
    records = sorted(await it.all(CONTROLLER_REVISIONS), key=lambda each: int(each["revision"]))
    if [1, 2] != [each["revision"] for each in records]:
        found.append(f"the StatefulSet has {len(records)} records")
        return found
    recorded, status = records[-1]["data"]["spec"]["template"], db.get("status") or {}
    if recorded != {"$patch": "replace"} | db["spec"]["template"]:
        found.append("the record of the StatefulSet has another template")
    if {key_of(records[-1]).name} != {status.get(f"{each}Revision") for each in _REVISIONS}:
        found.append("the status of the StatefulSet names another revision")
    return found


_REVISIONS = ("current", "update")


def _revision(obj: Json) -> str:
    notes = obj["metadata"].get("annotations") or {}
    return str(notes.get("deployment.kubernetes.io/revision") or "")


async def _node_faults(it: Installation) -> list[str]:
    """No running Workload is on the failed node, and none reports a failed node any more."""
    found = []
    for each in await it.all(WORKLOADS):
        status, name = each.get("status") or {}, key_of(each).name
        if condition(each, "Finished").get("status") == "True":
            continue
        if status.get("unhealthyNodes"):
            found.append(f"{name} has unhealthy nodes")
        if "fragile" in str(status.get("admission")):
            found.append(f"{name} is on the failed node")
    stray = [key_of(e).name for e in await it.all(PODS) if e["spec"].get("nodeName") == "lost"]
    return found + [f"{name} is still on the lost node" for name in stray]


async def _quota_faults(it: Installation) -> list[str]:
    """Published usage and the engine's must be the sum over what holds quota."""
    found = []
    sums = dict.fromkeys("abcdefg", 0)
    for each in await it.all(WORKLOADS):
        if condition(each, "Finished"):
            continue
        if condition(each, "QuotaReserved").get("status") != "True":
            found.append(f"{key_of(each).name} waits")
            continue
        admission = each["status"]["admission"]
        (given,) = admission["podSetAssignments"]
        sums[admission["clusterQueue"]] += int(given["resourceUsage"][GPU])
    for queue in await it.all(CLUSTER_QUEUES):
        name, status = key_of(queue).name, queue.get("status") or {}
        offered = status.get("flavorsReservation") or ()
        published = sum(int(each["resources"][0]["total"]) for each in offered)
        believed = sum(c.used for c in it.system.engine.state.queues[name].node.cells.values())
        if not published == believed == sums[name]:
            found.append(f"{name} publishes {published}, believes {believed}, holds {sums[name]}")
        if status.get("pendingWorkloads"):
            found.append(f"{name} counts {status['pendingWorkloads']} as waiting")
    return found


async def _pod_faults(it: Installation) -> list[str]:
    """Each running pod has one process, and nothing else has a process or a device."""
    pods = await it.all(PODS)
    found = [f"{key_of(e).name} is {_phase(e)}" for e in pods if _phase(e) == "Pending"]
    running = {each["metadata"]["uid"] for each in pods if _phase(each) == "Running"}
    processes = [Path(folder).parts[-4] for folder in it.machine.alive()]
    if sorted(running) != sorted(processes):
        found.append(f"{len(running)} pods run, with {len(processes)} processes")
    holders = set(it.devices().holders())
    if not holders <= running:
        found.append(f"devices are held by nothing: {holders - running}")
    known = {each["metadata"]["uid"] for each in pods}
    if not set(it.homes()) <= known:
        found.append("a folder is left of a pod that is gone")
    return found


async def _settled(it: Installation) -> None:
    while await _faults(it):
        await asyncio.sleep(5)


def _phase(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def _succeeded(job: Json) -> bool:
    return condition(job, "Complete").get("status") == "True"


def run_story(state_dir: Path, *failures: Failure) -> Installation:
    """Tell the story, and let points fail; raises AssertionError if it does not end well."""

    async def story() -> Installation:
        PLAN.arm(*failures)
        it = Installation(state_dir)
        await _begin(it)
        await it.open()
        try:
            async with asyncio.timeout(LIMIT_S):
                await _play(it)
                await _settled(it)
                # A new process would correct what the failure left, so it comes last.
                await it.apply((JOBS, objects.job(LAST, "a", 1, 5)))
                await it.roll()
                await _settled(it)
        except TimeoutError:
            faults = await _faults(it)
            raise AssertionError("; ".join(faults) or "it came to rest too late") from None
        finally:
            await it.close()
        return it

    return played(story())
