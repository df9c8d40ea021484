# SPDX-License-Identifier: Apache-2.0
"""Decides the next step of one TrainJob, given its Jobs and the time. Pure.

A TrainJob runs as the JobSet that its runtime defines, without a JobSet object in between: the Jobs
belong to the TrainJob. The processes of a training meet at a port of the job on loopback.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kuota.api.base import Json
from kuota.api.rules.report import child, elements, mapping, text
from kuota.bridge.jobs.fields import put
from kuota.bridge.jobs.train_job_runtime import PORT as TRAINER_PORT
from kuota.bridge.jobs.train_job_runtime import rendered

from .child_jobs import LOOPBACK, GroupEvent, GroupStep
from .job_set_rules import job_set_step
from .loopback_ports import PORT, Taken, loopback_port

CONTROLLER = "trainer.kubeflow.org/trainjob-controller"
_TEMPLATE = ("template", "spec", "template", "spec", "containers")
_ENDED = {"Complete": "Completed"}
"""Conditions that a JobSet names otherwise."""


def train_job_step(job: Json, jobs: Sequence[Json], now: float, taken: Taken) -> GroupStep:
    """The next step of a TrainJob, which has the spec of its runtime in the field `runtime`."""
    runtime, manager = job.get("runtime"), text(child(job, "spec").get("managedBy"))
    if not isinstance(runtime, dict) or (manager or CONTROLLER) != CONTROLLER:
        return GroupStep()
    if isinstance(child(runtime, "mlPolicy").get("mpi"), dict):
        return _without_mpi(job)
    port = loopback_port(job, jobs, taken)
    step = job_set_step(_job_set(job, runtime, port), jobs, now, taken)
    return step if step.status is None else replace(step, status=_status(step.status))


def _without_mpi(job: Json) -> GroupStep:
    """State that nothing starts the pods of a TrainJob whose runtime has the policy `mpi`."""
    if child(job, "spec").get("suspend") is True:
        return GroupStep()
    message = (
        "nothing on this machine starts the pods of a TrainJob whose runtime has the policy mpi, "
        "because its launcher needs hosts and SSH keys: the job uses quota until it is deleted; "
        "choose a runtime with the policy torch or jax"
    )
    return GroupStep(events=[GroupEvent("NothingStartsPods", message, warning=True)])


def _job_set(job: Json, runtime: Json, port: int) -> Json:
    """Return the JobSet of a TrainJob. Its Jobs belong to the TrainJob."""
    patches = [mapping(each) for each in elements(child(job, "spec").get("runtimePatches"))]
    found = rendered(job, runtime, patches)
    spec = {key: each for key, each in child(found, "spec").items() if key != "managedBy"}
    spec["suspend"] = child(job, "spec").get("suspend") is True
    jobs = [_at_port(mapping(each), port) for each in elements(spec.get("replicatedJobs"))]
    return {
        "apiVersion": job.get("apiVersion"),
        "kind": job.get("kind"),
        "metadata": child(job, "metadata"),
        "spec": spec | {"replicatedJobs": jobs},
        "status": _renamed(child(job, "status"), _ENDED),
    }


def _at_port(replicated: Json, port: int) -> Json:
    """Return a replicated Job whose processes use the port of the job instead of a fixed one."""
    metadata = child(replicated, "template", "metadata")
    notes = child(metadata, "annotations") | {PORT: str(port)}
    replicated = put(replicated, ("template", "metadata"), metadata | {"annotations": notes})
    containers = [
        mapping(each) for each in elements(child(replicated, *_TEMPLATE[:-1]).get("containers"))
    ]
    return put(replicated, _TEMPLATE, [_container(each, port) for each in containers])


def _container(container: Json, port: int) -> Json:
    env = [_variable(mapping(each), port) for each in elements(container.get("env"))]
    by_name = {text(each.get("name")): each for each in env}
    if "PET_MASTER_ADDR" not in by_name:
        return container | {"env": env} if env else container
    nodes, each = (text(by_name.get(name, {}).get("value")) for name in _SIZES)
    size = (int(nodes) if nodes.isdecimal() else 1) * (int(each) if each.isdecimal() else 1)
    added = [
        {"name": "MASTER_ADDR", "value": LOOPBACK},
        {"name": "MASTER_PORT", "value": str(port)},
        {"name": "WORLD_SIZE", "value": str(size)},
        by_name.get("PET_NODE_RANK", {}) | {"name": "RANK"},
    ]
    return container | {"env": [*env, *(new for new in added if new["name"] not in by_name)]}


_SIZES = ("PET_NNODES", "PET_NPROC_PER_NODE")


def _variable(variable: Json, port: int) -> Json:
    name, value = variable.get("name"), text(variable.get("value"))
    if name == "PET_MASTER_PORT" and value == str(TRAINER_PORT):
        return variable | {"value": str(port)}
    if name == "JAX_COORDINATOR_ADDRESS" and value.endswith(f":{TRAINER_PORT}"):
        return variable | {"value": f"{value.rpartition(':')[0]}:{port}"}
    return variable


def _status(status: Json) -> Json:
    """Return the status of a TrainJob, from that of its JobSet."""
    renamed = _renamed(status, {after: before for before, after in _ENDED.items()})
    kept = {key: each for key, each in renamed.items() if key in ("conditions", "restarts")}
    counts = elements(status.get("replicatedJobsStatus"))
    return kept | {"jobsStatus": counts}


def _renamed(status: Json, names: dict[str, str]) -> Json:
    found = [mapping(each) for each in elements(status.get("conditions"))]
    if not found:
        return status
    renamed = [
        each | {"type": names.get(text(each.get("type")), each.get("type"))} for each in found
    ]
    return status | {"conditions": renamed}
