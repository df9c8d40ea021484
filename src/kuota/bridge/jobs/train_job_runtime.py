# SPDX-License-Identifier: Apache-2.0
"""Renders a TrainJob and its runtime into the JobSet that the Kubeflow trainer creates.

The container that trains gets the variables and the port that the trainer adds for PyTorch and JAX.
What it adds for MPI, a volume with keys and hosts, matters neither to quota nor to scheduling.
"""

from __future__ import annotations

from collections.abc import Iterable

from kuota.api.base import Json
from kuota.api.quantity import QuantityError, parse
from kuota.api.rules.report import child, elements, integer, mapping, string_map, text

from .fields import put
from .job_set import replicated_jobs

_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
_TRAINER = "trainer"
_NODE = "node"
PORT = 29500
"""The rendezvous port of the training processes."""
_RANK = {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
_WHOLE = 10**9
_SINGLE = (_TRAINER, "dataset-initializer", "model-initializer")
"""The steps whose Jobs always have one replica."""
_MERGE_KEYS = {
    "replicatedJobs": "name",
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
    "env": "name",
    "claims": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
}
"""The lists that a strategic merge patch merges by a key. Others are replaced."""


def rendered(
    train_job: Json, runtime: Json, patches: Iterable[Json], *, with_framework: bool = True
) -> Json:
    """Return the JobSet of a TrainJob with this spec of its runtime and these patches of it.

    Without `with_framework`, variables and port of the training framework are left out.
    """
    spec = child(runtime, "template", "spec")
    for each in patches:
        patch = child(each, "trainingRuntimeSpec", "template", "spec")
        spec = mapping(_patched(spec, patch))
    listed = replicated_jobs({"spec": spec})
    jobs = [_configured(each, train_job, runtime, with_framework) for each in listed]
    return {"metadata": child(train_job, "metadata"), "spec": spec | {"replicatedJobs": jobs}}


def _patched(value: object, patch: object, field: str = "") -> object:
    """Return a value after a strategic merge patch of a field with this name."""
    if isinstance(patch, dict):
        before = mapping(value)
        changes = {
            name: _patched(before.get(name), each, name)
            for name, each in patch.items()
            if each is not None
        }
        return {name: each for name, each in before.items() if name not in patch} | changes
    key = _MERGE_KEYS.get(field)
    if key is None or not isinstance(patch, list):
        return patch
    listed = elements(value)
    names = [text(mapping(each).get(key)) for each in listed]
    result = list(listed)
    for each in patch:
        name = text(mapping(each).get(key))
        if name in names:
            result[names.index(name)] = _patched(result[names.index(name)], each)
        else:
            result.append(each)
    return result


def _configured(replicated: Json, train_job: Json, runtime: Json, with_framework: bool) -> Json:
    """Return a replicated Job with the number of pods and the container of this TrainJob."""
    step = string_map(child(replicated, "template", "metadata").get("labels")).get(_STEP)
    trainer = child(train_job, "spec", "trainer")
    launcher_trains = child(runtime, "mlPolicy", "mpi").get("runLauncherAsNode") is True
    name = text(replicated.get("name"))
    pods = _pods(replicated, trainer, runtime, step)
    for field in ("parallelism", "completions"):
        replicated = put(replicated, ("template", "spec", field), pods)
    if step in _SINGLE:
        replicated = replicated | {"replicas": 1}
    changes: Json = {}
    if step == _TRAINER:
        fields = ("image", "command", "args")
        changes |= {field: trainer[field] for field in fields if trainer.get(field)}
    if (step == _TRAINER and runtime.get("mlPolicy")) or (launcher_trains and name == _NODE):
        changes |= {"resources": child(trainer, "resourcesPerNode")}
    if step == _TRAINER or (launcher_trains and name == _NODE):
        changes |= {"env": elements(trainer.get("env"))}
    if step == _TRAINER and with_framework:
        changes |= _framework(train_job, runtime, pods, changes["env"])
    return _with_container(replicated, changes)


def _framework(train_job: Json, runtime: Json, pods: int, env: list[Json]) -> Json:
    """Return the variables and the port of the training framework."""
    policy, name = child(runtime, "mlPolicy"), text(child(train_job, "metadata").get("name"))
    address = f"{name}-{_NODE}-0-0.{name}"
    added: dict[str, Json] = {}
    if isinstance(policy.get("torch"), dict):
        added = {
            "PET_NNODES": {"value": str(pods)},
            "PET_NPROC_PER_NODE": {"value": processes_per_node(train_job, runtime)},
            "PET_NODE_RANK": {"valueFrom": {"fieldRef": _RANK}},
            "PET_MASTER_ADDR": {"value": address},
            "PET_MASTER_PORT": {"value": str(PORT)},
        }
    elif isinstance(policy.get("jax"), dict):
        added = {
            "JAX_NUM_PROCESSES": {"value": str(pods)},
            "JAX_PROCESS_ID": {"valueFrom": {"fieldRef": _RANK}},
            "JAX_COORDINATOR_ADDRESS": {"value": f"{address}:{PORT}"},
        }
    else:
        return {}
    own = [each for each in map(mapping, env) if text(each.get("name")) not in added]
    variables = [value | {"name": key} for key, value in added.items()]
    return {"env": [*own, *variables], "ports": [{"containerPort": PORT}]}


def processes_per_node(train_job: Json, runtime: Json) -> str:
    """Return how many processes torchrun starts in a pod; without GPUs, one for each CPU."""
    trainer = child(train_job, "spec", "trainer")
    given = trainer.get("numProcPerNode")
    if given is None:
        given = child(runtime, "mlPolicy", "torch").get("numProcPerNode")
    if given not in (None, "", "auto"):
        return str(given)
    resources = child(trainer, "resourcesPerNode")
    amounts = child(resources, "limits") or child(resources, "requests")
    if any("gpu" in name.lower() for name in amounts):
        return "auto"
    try:
        return str(max(1, parse(amounts.get("cpu") or 0) // _WHOLE))
    except (QuantityError, TypeError, ValueError):
        return "1"


def _pods(replicated: Json, trainer: Json, runtime: Json, step: str | None) -> int:
    policy, nodes = child(runtime, "mlPolicy"), integer(trainer.get("numNodes"))
    count = _or_one(child(replicated, "template", "spec").get("parallelism"))
    if step == _TRAINER and "mlPolicy" in runtime:
        count = _or_one(policy.get("numNodes"))
    if nodes is None:
        return max(count, 1)
    if isinstance(policy.get("mpi"), dict):
        if replicated.get("name") != _NODE:
            return max(count, 1)
        launcher = child(policy, "mpi").get("runLauncherAsNode") is True
        return max(nodes - 1, 1) if launcher else nodes
    return nodes if step == _TRAINER else max(count, 1)


def _with_container(replicated: Json, changes: Json) -> Json:
    """Return a replicated Job with changes of the container that trains."""
    path = ("template", "spec", "template", "spec")
    containers = elements(child(replicated, *path).get("containers"))
    if not changes or not any(mapping(each).get("name") == _NODE for each in containers):
        return replicated
    patch = {"containers": [{"name": _NODE} | changes]}
    return put(replicated, path, _patched(child(replicated, *path), patch))


def _or_one(value: object) -> int:
    found = integer(value)
    return 1 if found is None else found
