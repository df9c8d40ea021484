# SPDX-License-Identifier: Apache-2.0
"""Runs controllers of operators and autoscalers that `make kube` provides, on a real API server.

Their webhooks are not registered: manifests of tests contain what these would set. The exception is
LeaderWorkerSet, whose webhooks label the pods that Kubernetes' controllers create.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from cluster import definitions
from cluster.kube_server import KubeServer, free_port
from kuota.api.base import Json
from kuota.kube.client import Client
from kuota.kube.errors import AlreadyExists
from kuota.kube.resources import NAMESPACES, SECRETS, Resource, key_of
from kuota.webhook.injection import MUTATING

VALIDATORS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
_TRAINING_CERTIFICATES = Path("/tmp/k8s-webhook-server/serving-certs")
"""Where the training operator expects certificates. It has no option for that."""
_TRAINING_NAMESPACE = "kubeflow"
KWOK_LEASE_S = 20
"""How long a heartbeat of KWOK's nodes is valid."""
_KWOK_STAGES = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: node-is-ready}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector:
    matchExpressions:
    - key: '.status.conditions.[] | select( .type == "Ready" ) | .status'
      operator: NotIn
      values: ["True"]
  next:
    statusTemplate: |
      phase: Running
      conditions:
      - type: Ready
        status: "True"
        reason: KubeletReady
        message: ""
        lastHeartbeatTime: {{ Now | Quote }}
        lastTransitionTime: {{ Now | Quote }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-runs}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: .status.phase, operator: In, values: [Pending]}
  next:
    statusTemplate: |
      phase: Running
      startTime: {{ Now | Quote }}
      conditions:
      - {type: Initialized, status: "True"}
      - {type: ContainersReady, status: "True"}
      - {type: Ready, status: "True"}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-ends}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: Exists}
  next: {delete: true}
"""
"""Nodes are ready, and pods run until they are deleted. By default, KWOK ends pods of Jobs."""


@asynccontextmanager
async def running(name: str, server: KubeServer, folder: Path) -> AsyncIterator[asyncio.Task[None]]:
    """Run the controller of an operator. The task raises if the controller ends by itself.

    Skips the test if the controller was not built.
    """
    program = definitions.provided().get(name)
    if program is None:
        pytest.skip(f"the controller {name} is not built: run `make kube`")
    certificates = folder / "certs"
    _write_certificates(server, certificates)
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            str(program),
            *_FLAGS[name](folder, certificates),
            stdout=output,
            stderr=output,
            env=os.environ | _environment(name, server),
        )
    watched = asyncio.create_task(_ended(process, log))
    try:
        yield watched
    finally:
        watched.cancel()
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await asyncio.gather(watched, return_exceptions=True)


def _environment(name: str, server: KubeServer) -> dict[str, str]:
    hooks = "true" if name == "lws" else "false"
    return {"KUBECONFIG": str(server.kubeconfig), "ENABLE_WEBHOOKS": hooks}


async def _ended(process: asyncio.subprocess.Process, log: Path) -> None:
    status = await process.wait()
    raise AssertionError(f"the controller ended with {status}:\n{log.read_text()[-3000:]}")


def _write_certificates(server: KubeServer, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in (("tls.crt", "server.crt"), ("tls.key", "server.key")):
        (folder / name).write_bytes(server.certificates.file(source).read_bytes())


def _configured(api_version: str) -> Callable[[Path, Path], list[str]]:
    """Flags with a configuration file as JobSet and LeaderWorkerSet have it."""

    def flags(folder: Path, certificates: Path) -> list[str]:
        config = folder / "config.json"
        config.write_text(json.dumps(_configuration(api_version, certificates)))
        return [f"--config={config}", "--metrics-bind-address=0", "--leader-elect=false"]

    return flags


def _configuration(api_version: str, certificates: Path) -> Json:
    webhook = {"host": "127.0.0.1", "port": free_port(), "certDir": str(certificates)}
    return {
        "apiVersion": api_version,
        "kind": "Configuration",
        "internalCertManagement": {"enable": False},
        "health": {"healthProbeBindAddress": "127.0.0.1:0"},
        "metrics": {"bindAddress": "0"},
        "webhook": webhook,
    }


def _kuberay(folder: Path, certificates: Path) -> list[str]:
    addresses = ["--metrics-addr=0", "--health-probe-bind-address=127.0.0.1:0"]
    return [*addresses, "--enable-leader-election=false"]


def _training(folder: Path, certificates: Path) -> list[str]:
    _TRAINING_CERTIFICATES.mkdir(parents=True, exist_ok=True)
    for each in certificates.iterdir():
        (_TRAINING_CERTIFICATES / each.name).write_bytes(each.read_bytes())
    addresses = ["--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:0"]
    schemes = ("pytorchjob", "tfjob", "xgboostjob", "paddlejob", "jaxjob")
    enabled = [f"--enable-scheme={each}" for each in schemes]
    return [*addresses, *enabled, f"--webhook-server-port={free_port()}", "--kube-api-qps=500"]


def _karpenter(folder: Path, certificates: Path) -> list[str]:
    ports = [f"--metrics-port={free_port()}", f"--health-probe-port={free_port()}"]
    # Pods that arrive within these times get nodes together.
    batches = ["--batch-idle-duration=200ms", "--batch-max-duration=1s"]
    return [*ports, *batches, "--disable-leader-election=true"]


def _kwok(folder: Path, certificates: Path) -> list[str]:
    config = folder / "stages.yaml"
    config.write_text(_KWOK_STAGES)
    nodes = "--manage-nodes-with-label-selector=test/kwok=true"
    lease = f"--node-lease-duration-seconds={KWOK_LEASE_S}"
    server = f"--server-address=127.0.0.1:{free_port()}"
    return [nodes, lease, server, f"--config={config}"]


_FLAGS: dict[str, Callable[[Path, Path], list[str]]] = {
    "jobset": _configured("config.jobset.x-k8s.io/v1alpha1"),
    "lws": _configured("config.lws.x-k8s.io/v1alpha1"),
    "karpenter": _karpenter,
    "kuberay": _kuberay,
    "kwok": _kwok,
    "training-operator": _training,
}


async def prepare_training(client: Client) -> None:
    """Create the objects in which the training operator keeps its certificates."""
    place = {"namespace": _TRAINING_NAMESPACE}
    for resource, metadata in (
        (NAMESPACES, {"name": _TRAINING_NAMESPACE}),
        (SECRETS, {"name": "training-operator-webhook-cert"} | place),
        (VALIDATORS, {"name": "validator.training-operator.kubeflow.org"}),
    ):
        named = {"apiVersion": resource.api_version, "kind": resource.kind}
        with suppress(AlreadyExists):
            await client.create(resource, named | {"metadata": metadata})


@asynccontextmanager
async def leader_worker_set_webhooks(
    client: Client, server: KubeServer, folder: Path
) -> AsyncIterator[None]:
    """Register the webhooks of the LeaderWorkerSet operator, which label its pods.

    The operator must run with the configuration in the folder.
    """
    config = json.loads((folder / "config.json").read_text())
    url = f"https://127.0.0.1:{config['webhook']['port']}"
    bundle = base64.b64encode(server.certificates.authority.read_bytes()).decode()
    labelled = {"key": "leaderworkerset.sigs.k8s.io/name", "operator": "Exists"}
    sets = {"apiGroups": ["leaderworkerset.x-k8s.io"], "resources": ["leaderworkersets"]}
    pods = {"apiGroups": [""], "resources": ["pods"]}
    rules = {"leaderworkerset-x-k8s-io-v1-leaderworkerset": sets, "-v1-pod": pods}
    hooks = [
        {
            "name": f"lws{index}.example.com",
            "clientConfig": {"url": f"{url}/mutate-{path}", "caBundle": bundle},
            "rules": [rule | {"apiVersions": ["v1"], "operations": ["CREATE"]}],
            "objectSelector": {"matchExpressions": [labelled]}
            if "pods" in rule["resources"]
            else {},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }
        for index, (path, rule) in enumerate(rules.items())
    ]
    named = {"apiVersion": MUTATING.api_version, "kind": MUTATING.kind}
    made = await client.create(MUTATING, named | {"metadata": {"name": "lws"}, "webhooks": hooks})
    try:
        yield
    finally:
        await client.delete(MUTATING, key_of(made))
