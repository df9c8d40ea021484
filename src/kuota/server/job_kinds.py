# SPDX-License-Identifier: Apache-2.0
"""Minimal definitions of the job kinds of other projects, so that they need not be installed.

Pod templates are validated like those of Kubernetes' own kinds. Of the other fields, only those
that Kuota reads are defined; fields that are not defined are stored as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kuota.api.base import Json
from kuota.api.config.frameworks import FRAMEWORKS

from .columns import AGE, NAME, Column, by_path, dig, listed, mapped
from .kinds import Kind, Version
from .schemas import ANYTHING, BOOLEAN, COUNT, STRING, list_of, map_of, object_of, with_metadata
from .shapes import reference

EACH, EVERY = "[]", "{}"
"""The steps of a path to all items of a list, and to all values of a map."""

Path = tuple[str, ...]

_POD = reference("PodTemplateSpec")
_STATE = by_path("State", ".status.conditions[-1].type")
_JOB_SET_TEMPLATE = ("replicatedJobs", EACH, "template", "spec", "template")
MOST_REPLICAS = 1000


class JobKindDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """One kind. `templates` are the paths of its pod templates."""

    group: str
    version: str
    kind: str
    plural: str
    spec: Json
    templates: tuple[Path, ...] = ()
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    namespaced: bool = True
    status: bool = True

    @property
    def resource(self) -> str:
        return f"{self.plural}.{self.group}"

    def served(self) -> Kind:
        schema = object_of(spec=self.spec, status=ANYTHING)
        version = Version(
            name=self.version,
            schema=with_metadata(schema),
            columns=(NAME, *self.columns, AGE),
            status=self.status,
        )
        return Kind(
            group=self.group,
            plural=self.plural,
            kind=self.kind,
            singular=self.kind.lower(),
            short_names=self.short_names,
            versions=(version,),
            stored=self.version,
            namespaced=self.namespaced,
            categories=("all",) if self.status else (),
            subresources=("status",) if self.status else (),
            provisional=True,
        )


def _defined(framework: str, plural: str, spec: Json, **more: Any) -> JobKindDefinition:
    group, version, kind = FRAMEWORKS[framework]
    return JobKindDefinition(
        group=group, version=version, kind=kind, plural=plural, spec=spec, **more
    )


_REPLICAS = COUNT | {"maximum": MOST_REPLICAS}
_RUN_POLICY = object_of(
    suspend=BOOLEAN,
    managedBy=STRING,
    backoffLimit=COUNT,
    activeDeadlineSeconds=COUNT,
    ttlSecondsAfterFinished=COUNT,
    cleanPodPolicy=STRING,
    schedulingPolicy=ANYTHING,
)


def _training(kind: str, field: str, **more: Json) -> JobKindDefinition:
    """A kind of the training operator, or one that resembles it."""
    replica = object_of(replicas=_REPLICAS, restartPolicy=STRING, template=_POD)
    spec = object_of(**{field: map_of(replica), "runPolicy": _RUN_POLICY} | more)
    return _defined(
        f"kubeflow.org/{kind}",
        f"{kind}s",
        spec,
        templates=(("spec", field, EVERY, "template"),),
        columns=(_STATE,),
    )


JOB_SET_SPEC = object_of(
    suspend=BOOLEAN,
    managedBy=STRING,
    ttlSecondsAfterFinished=COUNT,
    replicatedJobs=list_of(
        object_of(
            "name",
            "template",
            name=STRING,
            groupName=STRING,
            replicas=_REPLICAS,
            template=reference("JobTemplateSpec"),
            dependsOn=list_of(object_of(name=STRING, status=STRING)),
        ),
        100,
    )
    | {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    failurePolicy=object_of(maxRestarts=COUNT, rules=list_of(ANYTHING), restartStrategy=STRING),
    successPolicy=object_of(operator=STRING, targetReplicatedJobs=list_of(STRING)),
    startupPolicy=object_of(startupPolicyOrder=STRING),
    network=object_of(enableDNSHostnames=BOOLEAN, subdomain=STRING),
    coordinator=object_of(replicatedJob=STRING, jobIndex=COUNT, podIndex=COUNT),
)
_RAY_CLUSTER = object_of(
    suspend=BOOLEAN,
    managedBy=STRING,
    enableInTreeAutoscaling=BOOLEAN,
    headGroupSpec=object_of(template=_POD),
    workerGroupSpecs=list_of(
        object_of(
            groupName=STRING,
            replicas=COUNT,
            minReplicas=COUNT,
            maxReplicas=COUNT,
            numOfHosts=COUNT,
            suspend=BOOLEAN,
            template=_POD,
        ),
        100,
    ),
)
_RUNTIME = object_of(
    mlPolicy=object_of(numNodes=_REPLICAS, torch=object_of(numProcPerNode=ANYTHING)),
    template=object_of(metadata=ANYTHING, spec=JOB_SET_SPEC),
)


def _ray_templates(*path: str) -> tuple[Path, ...]:
    return (
        (*path, "headGroupSpec", "template"),
        (*path, "workerGroupSpecs", EACH, "template"),
    )


def _runtime(kind: str, *, namespaced: bool) -> JobKindDefinition:
    return JobKindDefinition(
        group="trainer.kubeflow.org",
        version="v1alpha1",
        kind=kind,
        plural=f"{kind.lower()}s",
        spec=_RUNTIME,
        templates=(("spec", "template", "spec", *_JOB_SET_TEMPLATE),),
        namespaced=namespaced,
        status=False,
    )


DEFINITIONS = (
    _defined(
        "jobset.x-k8s.io/jobset",
        "jobsets",
        JOB_SET_SPEC,
        templates=(("spec", *_JOB_SET_TEMPLATE),),
        columns=(
            by_path("TerminalState", ".status.terminalState"),
            by_path("Restarts", ".status.restarts"),
            by_path("Completed", ".status.conditions[?(@.type=='Completed')].status"),
            by_path("Suspended", ".spec.suspend"),
        ),
    ),
    _training("pytorchjob", "pytorchReplicaSpecs", nprocPerNode=STRING, elasticPolicy=ANYTHING),
    _training("tfjob", "tfReplicaSpecs"),
    _training("xgboostjob", "xgbReplicaSpecs"),
    _training("paddlejob", "paddleReplicaSpecs"),
    _training("jaxjob", "jaxReplicaSpecs"),
    _training("mpijob", "mpiReplicaSpecs", slotsPerWorker=COUNT),
    _defined(
        "trainer.kubeflow.org/trainjob",
        "trainjobs",
        object_of(
            suspend=BOOLEAN,
            managedBy=STRING,
            runtimeRef=object_of(name=STRING, kind=STRING, apiGroup=STRING),
            trainer=object_of(
                numNodes=_REPLICAS,
                image=STRING,
                command=list_of(STRING),
                args=list_of(STRING),
                env=list_of(reference("EnvVar")),
                resourcesPerNode=reference("ResourceRequirements"),
            ),
        ),
        columns=(_STATE,),
    ),
    _runtime("TrainingRuntime", namespaced=True),
    _runtime("ClusterTrainingRuntime", namespaced=False),
    _defined(
        "ray.io/raycluster",
        "rayclusters",
        _RAY_CLUSTER,
        templates=_ray_templates("spec"),
        columns=(by_path("Status", ".status.state"),),
    ),
    _defined(
        "ray.io/rayjob",
        "rayjobs",
        object_of(
            suspend=BOOLEAN, managedBy=STRING, entrypoint=STRING, rayClusterSpec=_RAY_CLUSTER
        ),
        templates=(
            *_ray_templates("spec", "rayClusterSpec"),
            ("spec", "submitterPodTemplate"),
        ),
        columns=(
            by_path("Job Status", ".status.jobStatus"),
            by_path("Deployment Status", ".status.jobDeploymentStatus"),
        ),
    ),
    _defined(
        "ray.io/rayservice",
        "rayservices",
        object_of(rayClusterConfig=_RAY_CLUSTER),
        templates=_ray_templates("spec", "rayClusterConfig"),
        columns=(by_path("Service Status", ".status.serviceStatus"),),
    ),
    _defined(
        "workload.codeflare.dev/appwrapper",
        "appwrappers",
        object_of(suspend=BOOLEAN, managedBy=STRING, components=list_of(ANYTHING, 100)),
        columns=(by_path("Status", ".status.phase"),),
    ),
    _defined(
        "sparkoperator.k8s.io/sparkapplication",
        "sparkapplications",
        object_of(suspend=BOOLEAN, driver=ANYTHING, executor=ANYTHING),
        short_names=("sparkapp",),
        columns=(by_path("Status", ".status.applicationState.state"),),
    ),
    _defined(
        "leaderworkerset.x-k8s.io/leaderworkerset",
        "leaderworkersets",
        object_of(
            replicas=_REPLICAS,
            leaderWorkerTemplate=object_of(size=COUNT, leaderTemplate=_POD, workerTemplate=_POD),
        ),
        templates=tuple(
            ("spec", "leaderWorkerTemplate", name) for name in ("leaderTemplate", "workerTemplate")
        ),
        short_names=("lws",),
        columns=(
            by_path("Ready", ".status.readyReplicas", "integer"),
            by_path("Desired", ".spec.replicas", "integer"),
        ),
    ),
)

BY_RESOURCE = {each.resource: each for each in DEFINITIONS}


def job_kinds() -> tuple[Kind, ...]:
    """The kinds, as the server serves them."""
    return tuple(each.served() for each in DEFINITIONS)


def at_path(obj: Any, path: Path, prefix: str = "") -> Iterator[tuple[str, Json]]:
    """Yield the objects at a path, each with its place in faults."""
    for index, step in enumerate(path):
        rest = path[index + 1 :]
        if step == EACH:
            for number, each in enumerate(listed(obj)):
                yield from at_path(each, rest, f"{prefix}[{number}]")
            return
        if step == EVERY:
            for key, each in mapped(obj).items():
                yield from at_path(each, rest, f"{prefix}[{key}]")
            return
        obj, prefix = dig(obj, step), f"{prefix}.{step}" if prefix else step
    if isinstance(obj, dict):
        yield prefix, obj
