# SPDX-License-Identifier: Apache-2.0
"""Names, keys, modes and paths in manifests never become paths outside of the pod's directory."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from kuota.api.base import Json
from kuota.server.requests import User
from server.served import Local, config_map, job, namespace, pod

ANN = User("ann", ("vision", "system:authenticated"), "1001")
PODS = "/api/v1/namespaces/vision/pods"
JOBS = "/apis/batch/v1/namespaces/vision/jobs"
CRON_JOBS = "/apis/batch/v1/namespaces/vision/cronjobs"
MAPS = "/api/v1/namespaces/vision/configmaps"
SECRETS = "/api/v1/namespaces/vision/secrets"
ESCAPE = "../../../../etc/cron.d"


@pytest.fixture(scope="module")
def api() -> Iterator[Local]:
    local = Local()
    local.ask("POST", "/api/v1/namespaces", namespace("vision", "vision"))
    yield local
    local.close()


def items(path: str, **more: Any) -> list[Json]:
    return [{"key": "k", "path": path, **more}]


def mounted(**mount: Any) -> Json:
    """A spec with an empty volume `v` and one mount of it."""
    container = {"name": "main", "image": "x", "command": ["true"]}
    mounts = [{"name": "v", "mountPath": "/v", **mount}]
    return {
        "volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [container | {"volumeMounts": mounts}],
    }


def volume(**source: Any) -> Json:
    return {"volumes": [{"name": "v", **source}]}


SETUID = 0o4755
ATTACKS: dict[str, tuple[str, Json]] = {
    "volume name": ("volumes[0].name", {"volumes": [{"name": ESCAPE, "emptyDir": {}}]}),
    "absolute volume name": ("volumes[0].name", {"volumes": [{"name": "/etc", "emptyDir": {}}]}),
    "dots as volume name": ("volumes[0].name", {"volumes": [{"name": "..", "emptyDir": {}}]}),
    "upper case volume name": ("volumes[0].name", {"volumes": [{"name": "A", "emptyDir": {}}]}),
    "volume name twice": (
        "volumes[1]",
        {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "hostPath": {"path": "/x"}}]},
    ),
    "two sources": (
        "volumes[0].hostPath",
        volume(emptyDir={}, hostPath={"path": "/home"}),
    ),
    "set-id default mode": (
        "volumes[0].configMap.defaultMode",
        volume(configMap={"name": "c", "defaultMode": SETUID}),
    ),
    "negative default mode": (
        "volumes[0].secret.defaultMode",
        volume(secret={"secretName": "c", "defaultMode": -1}),
    ),
    "set-id mode of an item": (
        "volumes[0].secret.items[0].mode",
        volume(secret={"secretName": "c", "items": items("p", mode=SETUID)}),
    ),
    "set-id mode of a projection": (
        "volumes[0].projected.defaultMode",
        volume(projected={"defaultMode": 0o2755, "sources": []}),
    ),
    "set-id mode of a downward item": (
        "volumes[0].downwardAPI.items[0].mode",
        volume(
            downwardAPI={
                "items": [{"path": "p", "mode": 0o1777, "fieldRef": {"fieldPath": "metadata.name"}}]
            }
        ),
    ),
    "path of an item": (
        "volumes[0].configMap.items[0].path",
        volume(configMap={"name": "c", "items": items("../x")}),
    ),
    "absolute path of an item": (
        "volumes[0].configMap.items[0].path",
        volume(configMap={"name": "c", "items": items("/etc/cron.d/x")}),
    ),
    "path of an item deep down": (
        "volumes[0].configMap.items[0].path",
        volume(configMap={"name": "c", "items": items("a/b/../../../x")}),
    ),
    "path of an item with a null": (
        "volumes[0].configMap.items[0].path",
        volume(configMap={"name": "c", "items": items("a\0b")}),
    ),
    "path of a projected item": (
        "volumes[0].projected.sources[0].secret.items[0].path",
        volume(projected={"sources": [{"secret": {"name": "c", "items": items("../x")}}]}),
    ),
    "path of a downward item": (
        "volumes[0].downwardAPI.items[0].path",
        volume(
            downwardAPI={"items": [{"path": "../x", "fieldRef": {"fieldPath": "metadata.name"}}]}
        ),
    ),
    "path of a token": (
        "volumes[0].projected.sources[0].serviceAccountToken.path",
        volume(projected={"sources": [{"serviceAccountToken": {"path": "../x"}}]}),
    ),
    "sub path": ("containers[0].volumeMounts[0].subPath", mounted(subPath="../../x")),
    "absolute sub path": ("containers[0].volumeMounts[0].subPath", mounted(subPath="/etc")),
    "sub path expression": (
        "containers[0].volumeMounts[0].subPathExpr",
        mounted(subPathExpr="$(X)/../.."),
    ),
    "both sub paths": (
        "containers[0].volumeMounts[0].subPathExpr",
        mounted(subPath="a", subPathExpr="b"),
    ),
    "mount path with a null": (
        "containers[0].volumeMounts[0].mountPath",
        mounted(mountPath="/a\0"),
    ),
    "empty mount path": ("containers[0].volumeMounts[0].mountPath", mounted(mountPath="")),
    "container name": (
        "containers[0].name",
        {"containers": [{"name": "../x", "image": "x", "command": ["true"]}]},
    ),
    "user": ("securityContext.runAsUser", {"securityContext": {"runAsUser": 2**32}}),
    "negative user": ("securityContext.runAsUser", {"securityContext": {"runAsUser": -1}}),
    "group": (
        "securityContext.supplementalGroups[0]",
        {"securityContext": {"supplementalGroups": [-1]}},
    ),
    "ephemeral container": (
        "ephemeralContainers",
        {"ephemeralContainers": [{"name": "e", "image": "x"}]},
    ),
}


def faulty_fields(api: Local, path: str, body: Json) -> set[str]:
    status = api.refusal("POST", path, body, user=ANN)
    assert 422 == status["code"], status
    return {cause["field"] for cause in status["details"]["causes"]}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_pod_that_names_files_outside_of_its_volumes_is_rejected(api: Local, attack: str) -> None:
    field, spec = ATTACKS[attack]
    one = pod("a", **copy.deepcopy(spec))
    assert f"spec.{field}" in faulty_fields(api, PODS, one)


@pytest.mark.parametrize("attack", ATTACKS)
def test_templates_follow_the_same_rules_as_pods(api: Local, attack: str) -> None:
    field, spec = ATTACKS[attack]
    one = job("a")
    one["spec"]["template"]["spec"] |= copy.deepcopy(spec)
    assert f"spec.template.spec.{field}" in faulty_fields(api, JOBS, copy.deepcopy(one))
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "a"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": one["spec"]}},
    }
    below = f"spec.jobTemplate.spec.template.spec.{field}"
    assert below in faulty_fields(api, CRON_JOBS, cron)


@pytest.mark.parametrize(
    "key", ["../x", "/etc/x", ".", "..", "..data", "a/b", "", "a\0", "k" * 254]
)
def test_keys_of_config_maps_and_secrets_are_names_of_files(api: Local, key: str) -> None:
    assert f"data[{key}]" in faulty_fields(api, MAPS, config_map("c", **{key: "x"}))
    binary = config_map("c") | {"binaryData": {key: "eA=="}}
    assert f"binaryData[{key}]" in faulty_fields(api, MAPS, binary)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    coded = secret | {"stringData": {key: "x"}}
    assert f"data[{key}]" in faulty_fields(api, SECRETS, coded)


def test_ordinary_volumes_are_accepted(api: Local) -> None:
    mounts = [
        {"name": "scratch", "mountPath": "/scratch", "subPath": "a..b/c"},
        {"name": "settings", "mountPath": "/etc/settings", "readOnly": True},
    ]
    api.ask("POST", MAPS, config_map("settings", **{"a.yaml": "x", "UPPER_case-1": "y"}), user=ANN)
    one = pod(
        "fine",
        containers=[{"name": "main", "image": "x", "volumeMounts": mounts}],
        volumes=[
            {"name": "scratch"},
            {"name": "settings", "configMap": {"name": "settings", "defaultMode": 0o777}},
        ],
    )
    assert {} == api.ask("POST", PODS, one, user=ANN)["spec"]["volumes"][0]["emptyDir"]
