# SPDX-License-Identifier: Apache-2.0
"""The webhooks, the embedded API server and a plan treat a new Job alike."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from kuota.api.base import Json
from kuota.api.config.load import load
from kuota.api.config.shapes import Configuration
from kuota.api.faults import Invalid
from kuota.api.gates import Gates
from kuota.api.status import StatusError
from kuota.bridge.lifecycle_view import lifecycle_config
from kuota.kube.resources import ALL, NAMESPACES
from kuota.kube.resources import JOBS as KUBE_JOBS
from kuota.server.admission import Hook, Review
from kuota.server.api import ApiServer
from kuota.server.kinds import Kind
from kuota.server.requests import User
from kuota.server.store import Store
from kuota.sim.scenario import load_scenario
from kuota.up.job_hook import job_hook
from kuota.up.local import local_client
from webhook.reviews import Objects, answered

QUEUE, CLASS = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
JOBS = Kind(group="batch", plural="jobs", kind="Job", versions=(), stored="v1")


@dataclass(frozen=True)
class ExpectedOutcome:
    """What becomes of a Job.

    `workload` says whether a Workload queues for it once it is stored. `refused` holds the paths of
    invalid fields, or the message of a refusal that concerns no field.
    """

    suspended: bool = False
    queue: str = ""
    priority_class: str = ""
    managed_by: str = ""
    workload: bool = False
    refused: str = ""


QUEUED = ExpectedOutcome(suspended=True, queue="q", workload=True)


def obj(version: str, kind: str, name: str, namespace: str = "", **rest: Any) -> Json:
    meta = {"name": name, "uid": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": version, "kind": kind, "metadata": meta} | rest


def kueue(kind: str, name: str, namespace: str = "", **rest: Any) -> Json:
    return obj("kueue.x-k8s.io/v1beta2", kind, name, namespace, **rest)


def space(name: str, **labels: str) -> Json:
    made = obj("v1", "Namespace", name)
    made["metadata"]["labels"] = {"kubernetes.io/metadata.name": name} | labels
    return made


def local_queue(name: str) -> Json:
    return kueue("LocalQueue", name, "team", spec={"clusterQueue": "cq"})


def job(
    name: str = "j", queue: str = "", owner: str = "", kind: str = "Job", **labels: str
) -> Json:
    """A Job, controlled by the object of that name if there is one. Uids are names."""
    pods = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    made = obj("batch/v1", "Job", name, "team", spec={"template": {"spec": pods}})
    made["metadata"]["labels"] = labels | ({QUEUE: queue} if queue else {})
    if owner:
        version = "batch/v1" if kind in ("Job", "CronJob") else "example.com/v1"
        reference = {"apiVersion": version, "kind": kind, "name": owner, "uid": owner}
        made["metadata"]["ownerReferences"] = [reference | {"controller": True}]
    return made


def config(text: str = "") -> Configuration:
    return load(f"apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n{text}")


ALL_JOBS = "manageJobsWithoutQueueName: true\n"
LABELLED = "managedJobsNamespaceSelector: {matchLabels: {kueue: 'yes'}}\n"
FLOWS = "integrations: {frameworks: [batch/job], externalFrameworks: [Flow.v1.example.com]}\n"
NO_JOBS = "integrations: {frameworks: [pod]}\n"
DEFAULT_QUEUE = local_queue("default")
DEFAULT_CLASS = kueue("WorkloadPriorityClass", "default", value=7)
AWAY = [
    local_queue("q"),
    kueue(
        "ClusterQueue",
        "cq",
        spec={
            "namespaceSelector": {},
            "admissionChecksStrategy": {"admissionChecks": [{"name": "far"}]},
        },
    ),
    kueue("AdmissionCheck", "far", spec={"controllerName": "kueue.x-k8s.io/multikueue"}),
]


@dataclass(frozen=True)
class Case:
    job: Json
    outcome: ExpectedOutcome
    around: tuple[Json, ...] = ()
    config: str = ""
    gates: tuple[str, ...] = ()
    namespace: Json | None = None

    @property
    def space(self) -> Json:
        return space("team") if self.namespace is None else self.namespace

    @property
    def off(self) -> Gates:
        return Gates.of(dict.fromkeys(self.gates, False), check=False)


CASES = {
    "a queue name": Case(job(queue="q"), QUEUED),
    "no queue name": Case(job(), ExpectedOutcome()),
    "the default queue": Case(
        job(), ExpectedOutcome(suspended=True, queue="default", workload=True), (DEFAULT_QUEUE,)
    ),
    "a named queue beside the default one": Case(job(queue="q"), QUEUED, (DEFAULT_QUEUE,)),
    "every job is managed": Case(
        job(), ExpectedOutcome(suspended=True, workload=True), config=ALL_JOBS
    ),
    "every job is managed, but not in this namespace": Case(
        job(), ExpectedOutcome(), config=ALL_JOBS + LABELLED
    ),
    "every job is managed in a labelled namespace": Case(
        job(),
        ExpectedOutcome(suspended=True, workload=True),
        config=ALL_JOBS + LABELLED,
        namespace=space("team", kueue="yes"),
    ),
    "the default queue of an unmanaged namespace": Case(
        job(), ExpectedOutcome(), (DEFAULT_QUEUE,), config=LABELLED
    ),
    "a queue name in an unmanaged namespace": Case(
        job(queue="q"), ExpectedOutcome(suspended=True, queue="q"), config=LABELLED
    ),
    "a default class": Case(
        job(queue="q"),
        ExpectedOutcome(suspended=True, queue="q", priority_class="default", workload=True),
        (DEFAULT_CLASS,),
    ),
    "a default class without a queue": Case(
        job(), ExpectedOutcome(priority_class="default"), (DEFAULT_CLASS,)
    ),
    "a default class while the gate is off": Case(
        job(queue="q"), QUEUED, (DEFAULT_CLASS,), gates=("WorkloadPriorityClassDefaulting",)
    ),
    "owned by a queued job": Case(
        job(owner="above"), ExpectedOutcome(), (job("above", "q"), DEFAULT_QUEUE, DEFAULT_CLASS)
    ),
    "queued, and owned by a queued job": Case(
        job(queue="q", owner="above"), ExpectedOutcome(queue="q"), (job("above", "q"),)
    ),
    "queued, and owned by an unmanaged job": Case(
        job(queue="q", owner="above"), QUEUED, (job("above"),)
    ),
    "queued, and owned by an unmanaged job, which gives no default class": Case(
        job(queue="q", owner="above"), QUEUED, (job("above"), DEFAULT_CLASS)
    ),
    "owned by a job without a queue where every job is managed": Case(
        job(queue="q", owner="above"), ExpectedOutcome(queue="q"), (job("above"),), config=ALL_JOBS
    ),
    "two levels below a queued job": Case(
        job(queue="q", owner="middle"),
        ExpectedOutcome(queue="q"),
        (job("middle", owner="top"), job("top", "q")),
    ),
    "owned by a CronJob": Case(job(queue="q", owner="nightly", kind="CronJob"), QUEUED),
    "owned by an object of another controller that does not exist": Case(
        job(owner="flow", kind="Flow"),
        ExpectedOutcome(refused="Flow flow, the owner of the job, does not exist"),
        (DEFAULT_QUEUE, DEFAULT_CLASS),
        config=FLOWS,
    ),
    "owned by a job that does not exist": Case(
        job(queue="q", owner="above"),
        ExpectedOutcome(refused="Job above, the owner of the job, does not exist"),
    ),
    "below jobs that own each other": Case(
        job(queue="q", owner="above"),
        ExpectedOutcome(refused="the owner references of the job form a cycle"),
        (job("above", owner="top"), job("top", owner="above")),
    ),
    "a queue that sends its jobs to other clusters": Case(
        job(queue="q"),
        ExpectedOutcome(
            suspended=True, queue="q", managed_by="kueue.x-k8s.io/multikueue", workload=True
        ),
        tuple(AWAY),
    ),
    "such a queue while the gate is off": Case(
        job(queue="q"), QUEUED, tuple(AWAY), gates=("MultiKueue",)
    ),
    "a queue name that is none": Case(
        job(queue="Not_A_Name"), ExpectedOutcome(refused=f"metadata.labels[{QUEUE}]")
    ),
    "a time limit that is none": Case(
        job(queue="q", **{"kueue.x-k8s.io/max-exec-time-seconds": "soon"}),
        ExpectedOutcome(refused="metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]"),
    ),
    "the integration is off": Case(
        job(queue="Not_A_Name"),
        ExpectedOutcome(queue="Not_A_Name"),
        (DEFAULT_CLASS,),
        config=NO_JOBS,
    ),
}


@pytest.fixture(params=list(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def test_at_the_webhook(case: Case) -> None:
    objects = Objects({_state_dir(each): each for each in (case.space, *case.around)})
    options: Any = {"objects": objects, "config": config(case.config), "gates": case.off}
    said = answered("/mutate-batch-v1-job", case.job, **options)
    stored = said.object
    if said.allowed:
        said = answered("/validate-batch-v1-job", stored, **options)
    if said.allowed:
        assert case.outcome == outcome(stored, workload=case.outcome.workload)
    else:
        fields = ", ".join(sorted(path for path, _ in said.faults))
        assert case.outcome.refused == (fields or said.status["message"])


def test_at_the_embedded_server(case: Case) -> None:
    store = Store.open(":memory:")
    try:
        for each in (case.space, *case.around):
            store.create(_resource(each), each)
        hook = job_hook(store, lifecycle_config(config(case.config), case.off))
        assert case.outcome == _hooked(hook, case)
    finally:
        store.close()


def _hooked(hook: Hook, case: Case) -> ExpectedOutcome:
    try:
        stored = hook(Review(kind=JOBS, object=case.job, old=None, user=User("ann", ())))
    except Invalid as error:
        return ExpectedOutcome(refused=", ".join(sorted(each.path for each in error.errors)))
    except StatusError as error:
        return ExpectedOutcome(refused=error.message if error.code == 403 else str(error.code))
    return outcome(stored, workload=case.outcome.workload)


def test_in_a_plan(case: Case) -> None:
    objects = [case.space, *case.around, case.job]
    scenario = load_scenario(objects, config(case.config), case.off)
    if scenario.invalid:
        assert case.outcome.refused == ", ".join(
            sorted(each.fault.path for each in scenario.invalid)
        )
        return
    unqueued = [each.why for each in scenario.unqueued if each.key.name == "j"]
    found = [each.workload for each in scenario.submissions if each.name == "j"]
    if case.outcome.refused:
        assert ([case.outcome.refused], []) == (unqueued, found)
        return
    assert case.outcome.workload == bool(found)
    for each in found:
        assert case.outcome.queue == each.queue
        assert (7 if case.outcome.priority_class else 0) == each.priority
    if not found:
        assert unqueued or any("Job team/j is not queued" in note for note in scenario.notes)


def test_a_queued_job_below_an_unmanaged_one_waits_on_the_embedded_server() -> None:
    async def story() -> None:
        store = Store.open(":memory:")
        api = ApiServer(store, hooks=(job_hook(store, lifecycle_config(None, Gates())),))
        await api.start()
        try:
            client = local_client(api)
            await client.create(NAMESPACES, space("team"))
            above = await client.create(KUBE_JOBS, job("above"))
            child = job(queue="q", owner="above")
            child["metadata"]["ownerReferences"][0]["uid"] = above["metadata"]["uid"]
            stored = await client.create(KUBE_JOBS, child)
            assert (False, True) == (above["spec"].get("suspend", False), stored["spec"]["suspend"])
        finally:
            await api.close()
            store.close()

    asyncio.run(story())


def test_a_plan_finds_owners_that_the_default_queue_makes_managed() -> None:
    for objects in ([job("above"), job(owner="above")], [job(owner="above"), job("above")]):
        scenario = load_scenario([space("team"), DEFAULT_QUEUE, *objects])
        assert ["above"] == [each.name for each in scenario.submissions]
        assert any("a managed job owns it" in note for note in scenario.notes)


def outcome(stored: Json, *, workload: bool) -> ExpectedOutcome:
    labels = stored["metadata"].get("labels") or {}
    return ExpectedOutcome(
        suspended=stored["spec"].get("suspend") is True,
        queue=labels.get(QUEUE, ""),
        priority_class=labels.get(CLASS, ""),
        managed_by=stored["spec"].get("managedBy", ""),
        workload=workload,
    )


def _resource(made: Json) -> str:
    group = made["apiVersion"].rpartition("/")[0]
    return next(each.name for each in ALL if (each.group, each.kind) == (group, made["kind"]))


def _state_dir(made: Json) -> tuple[str, str]:
    return _resource(made).partition(".")[0], made["metadata"]["name"]
