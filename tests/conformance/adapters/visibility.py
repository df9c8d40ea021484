# SPDX-License-Identifier: Apache-2.0
"""Suites of group `visibility`: positions of pending workloads, and server settings."""

from __future__ import annotations

from urllib.parse import quote

from conformance import world
from conformance.case import Json, Run, check, same
from conformance.recorder import convert
from conformance.registry import Exercise, suite
from kuota.api.base import Key
from kuota.api.config.shapes import Configuration
from kuota.engine.engine import Engine
from kuota.engine.facts import EngineObject, ObjectStored
from kuota.visibility.aggregated import serving
from kuota.visibility.api import PREFIX, VisibilityApi
from kuota.visibility.responses import ApiResponse


@suite(
    "visibility/storage-TestPendingWorkloadsInCQ",
    "visibility/storage-TestPendingWorkloadsInLQ",
    exercises=Exercise.PATH,
    ignores={"inputs.req.queryParams.kind": "the Go type of the options"},
    functions={"wantErrMatch": "whether the error is NotFound, which `apiReason` says too"},
)
def lines(run: Run) -> None:
    """Both versions answer alike."""
    api = VisibilityApi(_engine(run), _Objects(run.inputs.get("workloads") or []))
    wanted = run.expected.get("wantResp") or {}
    for version in ("v1beta1", "v1beta2"):
        answer = _asked(api, run.inputs["req"], version)
        fault, items = wanted.get("wantErr"), wanted.get("wantPendingWorkloads")
        if fault:
            same(fault.get("apiReason"), answer.body.get("reason"))
        check((answer.status == 200) == (not fault), f"answered {answer.status}: {answer.body}")
        same(items, answer.body.get("items"))


@suite(
    "visibility/visibility-TestCreateVisibilityServerOptions",
    ignores={
        f"expected.want.{name}": "a path of the Go server, which the test leaves empty"
        for name in ("certFile", "certDirValue", "keyFile")
    },
)
def options(run: Run) -> None:
    found = serving(convert(run.inputs["cfg"], Configuration))
    wanted = run.expected["want"]
    same(wanted["bindAddress"], found.host)
    same(wanted["bindPort"], found.port)
    same(wanted["certDirectory"], found.own)


def _engine(run: Run) -> Engine:
    engine = Engine(world.policy_of(run))
    values: list[EngineObject] = [
        *map(world.cluster_queue, run.inputs.get("clusterQueues") or ()),
        *map(world.local_queue, run.inputs.get("queues") or ()),
        *(world.workload(each, world.gates_of(run)) for each in run.inputs.get("workloads") or ()),
    ]
    for each in values:
        engine.apply(ObjectStored(value=each), run.now)
    return engine


class _Objects:
    def __init__(self, workloads: list[Json]) -> None:
        self._found: dict[Key, Json] = {
            Key(each["metadata"].get("namespace", ""), each["metadata"]["name"]): each["metadata"]
            for each in workloads
        }

    def metadata(self, kind: str, key: Key) -> Json:
        return self._found.get(key, {})


def _asked(api: VisibilityApi, req: Json, version: str) -> ApiResponse:
    namespace, name = req.get("nsName"), quote(req["queueName"], safe="")
    at = f"namespaces/{quote(namespace, safe='')}/localqueues" if namespace else "clusterqueues"
    query = {
        word: str(req["queryParams"][word])
        for word in ("limit", "offset")
        if word in req["queryParams"]
    }
    return api.answer("GET", f"{PREFIX}/{version}/{at}/{name}/pendingworkloads", query)
