# SPDX-License-Identifier: Apache-2.0
"""Strategic merge patches, as kubectl apply, edit and patch send them for built-in kinds."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from kuota.server.strategic import PatchError, strategic_merge
from kuota.server.wire import message, message_of

RECORDED = Path(__file__).with_name("recorded_strategic.json")
POD = message("Pod")


def _pod(**spec: Any) -> dict[str, Any]:
    return {"spec": spec}


def _merged(doc: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    before = copy.deepcopy((doc, patch))
    result = strategic_merge(doc, patch, POD)
    assert before == (doc, patch)
    return result


@pytest.mark.parametrize("case", json.loads(RECORDED.read_text()))
def test_answers_of_kubernetes_are_reproduced(case: Any) -> None:
    """Recorded from Kubernetes 1.36; directives that it left in new items were taken out."""
    assert case["result"] == _merged(case["object"], case["patch"])


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("spec.containers", "name"),
        ("spec.containers.env", "name"),
        ("spec.containers.ports", "containerPort"),
        ("spec.containers.volumeMounts", "mountPath"),
        ("spec.initContainers", "name"),
        ("spec.volumes", "name"),
        ("spec.imagePullSecrets", "name"),
        ("spec.hostAliases", "ip"),
        ("spec.schedulingGates", "name"),
        ("spec.topologySpreadConstraints", "topologyKey"),
        ("spec.tolerations", None),
        ("spec.containers.args", None),
        ("spec.containers.envFrom", None),
        ("metadata.finalizers", ""),
        ("metadata.ownerReferences", "uid"),
        ("metadata.labels", None),
        ("status.conditions", "type"),
        ("no.such.field", None),
    ],
)
def test_lists_of_a_pod_merge_by_the_keys_of_kubernetes(path: str, key: str | None) -> None:
    *above, last = path.split(".")
    keys = POD
    for name in above:
        keys = keys.below(name)

    assert key == keys.merge_key(last)


def test_pod_specs_inside_jobs_merge_like_those_of_pods() -> None:
    keys = message("CronJob")
    for name in ("spec", "jobTemplate", "spec", "template", "spec"):
        keys = keys.below(name)

    assert "name" == keys.merge_key("containers")
    assert "mountPath" == keys.below("containers").merge_key("volumeMounts")


def test_custom_kinds_have_no_merge_keys() -> None:
    assert message_of("kueue.x-k8s.io/v1beta2", "ClusterQueue") is None


def test_kubectl_set_image_changes_one_container() -> None:
    doc = _pod(containers=[{"name": "a", "image": "1"}, {"name": "b", "image": "1"}])
    patch = _pod(containers=[{"name": "b", "image": "2"}])
    patch["spec"]["$setElementOrder/containers"] = [{"name": "a"}, {"name": "b"}]
    expected = _pod(containers=[{"name": "a", "image": "1"}, {"name": "b", "image": "2"}])

    assert expected == _merged(doc, patch)


def test_kubectl_edit_deletes_one_environment_variable() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    doc = _pod(containers=[{"name": "a", "env": env}])
    item = {
        "name": "a",
        "$setElementOrder/env": [{"name": "B"}],
        "env": [{"name": "A", "$patch": "delete"}],
    }
    expected = _pod(containers=[{"name": "a", "env": [{"name": "B", "value": "2"}]}])

    assert expected == _merged(doc, _pod(containers=[item]))


def test_kubectl_changes_the_type_of_a_volume_with_retain_keys() -> None:
    doc = _pod(volumes=[{"name": "v", "emptyDir": {}}])
    item = {"name": "v", "hostPath": {"path": "/x"}, "$retainKeys": ["hostPath", "name"]}
    expected = _pod(volumes=[{"name": "v", "hostPath": {"path": "/x"}}])

    assert expected == _merged(doc, _pod(volumes=[item]))


def test_kubectl_removes_a_finalizer_by_value() -> None:
    doc = {"metadata": {"finalizers": ["a", "b", "c"]}}
    patch = {
        "metadata": {
            "$deleteFromPrimitiveList/finalizers": ["b"],
            "$setElementOrder/finalizers": ["c", "a"],
        }
    }

    assert {"metadata": {"finalizers": ["c", "a"]}} == _merged(doc, patch)


def test_finalizers_of_document_and_patch_are_united() -> None:
    doc, patch = {"metadata": {"finalizers": ["a"]}}, {"metadata": {"finalizers": ["b", "a"]}}

    assert {"metadata": {"finalizers": ["b", "a"]}} == _merged(doc, patch)


def test_tolerations_are_replaced_whole() -> None:
    doc, patch = _pod(tolerations=[{"key": "a"}]), _pod(tolerations=[{"key": "b"}])

    assert patch == _merged(doc, patch)


def test_object_directives_replace_and_delete() -> None:
    doc = _pod(nodeSelector={"a": "1", "b": "2"}, securityContext={"runAsUser": 1})
    patch = _pod(nodeSelector={"$patch": "replace", "c": "3"}, securityContext={"$patch": "delete"})

    assert _pod(nodeSelector={"c": "3"}, securityContext={}) == _merged(doc, patch)


def test_list_directive_replaces_the_list() -> None:
    doc = _pod(containers=[{"name": "a"}, {"name": "b"}])
    patch = _pod(containers=[{"name": "c"}, {"$patch": "replace"}])

    assert _pod(containers=[{"name": "c"}]) == _merged(doc, patch)


def test_new_parts_of_a_patch_carry_neither_nulls_nor_directives() -> None:
    patch = _pod(
        affinity={"nodeAffinity": None, "podAffinity": {}},
        containers=[{"name": "a", "image": None, "$setElementOrder/env": []}],
    )

    assert _pod(affinity={"podAffinity": {}}, containers=[{"name": "a"}]) == _merged({}, patch)


@pytest.mark.parametrize(
    ("patch", "path", "words"),
    [
        ({"spec": {"containers": [{"image": "1"}]}}, "spec.containers", "merge key name"),
        ({"spec": {"$patch": "drop"}}, "spec", "not a \\$patch"),
        ({"spec": {"$retainKeys": ["a"], "b": 1}}, "spec", "missing from"),
        ({"spec": {"$retainKeys": "a"}}, "spec", "list of field names"),
        (
            {"spec": {"$setElementOrder/containers": [], "containers": [{"name": "b"}]}},
            "spec.containers",
            "disagree",
        ),
        ({"spec": {"$setElementOrder/tolerations": []}}, "spec.tolerations", "lists that merge"),
        ({"spec": {"containers": ["b"]}}, "spec.containers", "mixes objects"),
        ({"metadata": {"finalizers": [{}]}}, "metadata.finalizers", "have parts"),
    ],
)
def test_patches_that_cannot_be_applied_name_the_place(patch: Any, path: str, words: str) -> None:
    doc = _pod(containers=[{"name": "a"}], tolerations=[]) | {"metadata": {"finalizers": ["f"]}}

    with pytest.raises(PatchError, match=words) as caught:
        strategic_merge(doc, patch, POD)

    assert path == caught.value.path
