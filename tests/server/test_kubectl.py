# SPDX-License-Identifier: Apache-2.0
"""Stock kubectl against a real server: reading, creating, changing, deleting."""

from __future__ import annotations

import pytest
import yaml

from hang import HANG_S
from server.served import Served, config_map, job, pod


def test_it_is_discovered(cluster: Served) -> None:
    resources = [line.split() for line in cluster.kubectl("api-resources").splitlines()]
    assert ["jobs", "batch/v1", "true", "Job"] in resources
    assert ["clusterqueues", "cq", "kueue.x-k8s.io/v1beta2", "false", "ClusterQueue"] in resources
    assert {"v1", "batch/v1", "kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"} <= set(
        cluster.kubectl("api-versions").split()
    )
    assert "Server Version: v1." in cluster.kubectl("version")
    assert "control plane" in cluster.kubectl("cluster-info")


def test_objects_are_shown_as_tables(cluster: Served) -> None:
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump(job("shown", suspend=True)))
    narrow = cluster.kubectl("get", "jobs", "shown").splitlines()
    assert ["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE"] == narrow[0].split()
    assert ["shown", "Running", "0/1"] == narrow[1].split()[:3]
    wide = cluster.kubectl("get", "jobs", "shown", "-o", "wide").splitlines()
    assert ["CONTAINERS", "IMAGES", "SELECTOR"] == wide[0].split()[-3:]
    assert "job.batch/shown\n" == cluster.kubectl("get", "job", "shown", "-o", "name")
    assert "shown" in cluster.kubectl("get", "all")
    assert cluster.kubectl("get", "jobs", "-A").startswith("NAMESPACE")
    assert "shown" in cluster.kubectl("get", "jobs", "--sort-by=.metadata.name")


def test_priority_classes_are_shown(cluster: Served) -> None:
    cluster.kubectl("create", "priorityclass", "high", "--value=7")
    header, row = cluster.kubectl("get", "priorityclass", "high").splitlines()
    assert ["NAME", "VALUE", "GLOBAL-DEFAULT", "AGE", "PREEMPTIONPOLICY"] == header.split()
    assert ["high", "7", "false"] == row.split()[:3]
    assert "PreemptLowerPriority" == row.split()[-1]


def test_selectors_narrow_what_is_shown(cluster: Served) -> None:
    for name in ("red", "blue"):
        cluster.kubectl("create", "configmap", name, "--from-literal=a=b")
        cluster.kubectl("label", "configmap", name, f"colour={name}")
    by_label = cluster.kubectl("get", "cm", "-l", "colour in (red, green)", "-o", "name")
    assert "configmap/red\n" == by_label
    by_field = cluster.kubectl("get", "cm", "--field-selector=metadata.name=blue", "-o", "name")
    assert "configmap/blue\n" == by_field
    assert "not supported" in cluster.kubectl("get", "cm", "--field-selector=data.a=b", code=1)


def test_a_manifest_applied_twice_is_created_then_unchanged(cluster: Served) -> None:
    manifest = yaml.safe_dump(config_map("twice", a="1"))
    assert "created" in cluster.kubectl("apply", "-f", "-", stdin=manifest)
    assert "unchanged" in cluster.kubectl("apply", "-f", "-", stdin=manifest)


@pytest.mark.parametrize("how", [("create",), ("apply",), ("apply", "--server-side")])
def test_a_list_is_taken_item_by_item(cluster: Served, how: tuple[str, ...]) -> None:
    names = [f"{how[-1].strip('-')}-{number}" for number in (1, 2)]
    items = [config_map(names[0], a="1"), job(names[1], suspend=True)]
    listed = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items})
    cluster.kubectl(*how, "-f", "-", stdin=listed)
    found = cluster.kubectl("get", f"cm/{names[0]}", f"job/{names[1]}", "-o", "yaml")
    cluster.kubectl("replace", "-f", "-", stdin=found)
    items[1]["spec"]["paralelism"] = 3
    listed = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items})
    said = cluster.kubectl("apply", "-f", "-", stdin=listed, code=1)
    assert 'unknown field "spec.paralelism"' in said


def test_apply_changes_what_changed_and_drops_what_was_dropped(cluster: Served) -> None:
    before = job("applied", parallelism=2, suspend=True)
    before["metadata"]["labels"] = {"a": "1", "b": "2"}
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(before))
    cluster.kubectl("annotate", "job", "applied", "mine=kept")
    after = job("applied", parallelism=3, suspend=True)
    after["metadata"]["labels"] = {"a": "1"}
    assert "configured" in cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(after))
    found = cluster.json("get", "job", "applied")
    assert 3 == found["spec"]["parallelism"]
    assert {"a": "1"} == found["metadata"]["labels"]
    assert "kept" == found["metadata"]["annotations"]["mine"]
    assert 2 == found["metadata"]["generation"]


def test_a_list_item_that_is_no_longer_applied_goes(cluster: Served) -> None:
    before = job("items", suspend=True)
    containers = before["spec"]["template"]["spec"]["containers"]
    containers[0]["env"] = [{"name": "A", "value": "1"}]
    before["spec"]["template"]["spec"]["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(before))
    del before["spec"]["template"]["spec"]["tolerations"]
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(before))
    spec = cluster.json("get", "job", "items")["spec"]["template"]["spec"]
    assert "tolerations" not in spec
    assert [{"name": "A", "value": "1"}] == spec["containers"][0]["env"]


def test_fields_that_do_not_exist_are_refused(cluster: Served) -> None:
    wrong = job("typo", paralelism=2)
    said = cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(wrong), code=1)
    assert 'unknown field "spec.paralelism"' in said
    assert "not found" in cluster.kubectl("get", "job", "typo", code=1)


def test_server_side_apply_owns_fields_and_reports_conflicts(cluster: Served) -> None:
    manifest = yaml.safe_dump(job("owned", parallelism=1, suspend=True))
    apply = ("apply", "--server-side", "-f", "-")
    assert "serverside-applied" in cluster.kubectl(*apply, stdin=manifest)
    other = yaml.safe_dump(job("owned", parallelism=5, suspend=True))
    said = cluster.kubectl(*apply, "--field-manager=other", stdin=other, code=1)
    assert 'conflict with "kubectl": .spec.parallelism' in said
    cluster.kubectl(*apply, "--field-manager=other", "--force-conflicts", stdin=other)
    found = cluster.json("get", "job", "owned", "--show-managed-fields")
    managers = {each["manager"]: each for each in found["metadata"]["managedFields"]}
    assert {"kubectl", "other"} == set(managers)
    assert "f:parallelism" in managers["other"]["fieldsV1"]["f:spec"]
    assert "f:parallelism" not in managers["kubectl"]["fieldsV1"]["f:spec"]


def test_server_side_apply_takes_over_from_client_side(cluster: Served) -> None:
    manifest = yaml.safe_dump(job("moved", parallelism=1, suspend=True))
    cluster.kubectl("apply", "-f", "-", stdin=manifest)
    assert "" == cluster.warned("apply", "--server-side", "-f", "-", stdin=manifest)
    assert "" == cluster.warned("apply", "--server-side", "-f", "-", stdin=manifest)


def test_diff_shows_what_apply_would_change_and_changes_nothing(cluster: Served) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(config_map("differs", a="1")))
    manifest = yaml.safe_dump(config_map("differs", a="2"))
    said = cluster.kubectl("diff", "-f", "-", stdin=manifest, code=1)
    assert '-  a: "1"' in said
    assert '+  a: "2"' in said
    assert "resourceVersion" not in said
    assert "1" == cluster.kubectl("get", "cm", "differs", "-o", "jsonpath={.data.a}")


def test_describe_shows_the_object_and_its_events(cluster: Served) -> None:
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump(job("described", suspend=True)))
    uid = cluster.kubectl("get", "job", "described", "-o", "jsonpath={.metadata.uid}")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "described.1", "namespace": "default"},
        "involvedObject": {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "described",
            "namespace": "default",
            "uid": uid,
        },
        "reason": "Waiting",
        "message": "no quota yet",
        "type": "Normal",
        "count": 1,
        "source": {"component": "kuota"},
    }
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump(event))
    said = cluster.kubectl("describe", "job", "described")
    assert "Parallelism:      1" in said
    assert "no quota yet" in said
    assert "no quota yet" in cluster.kubectl("events", "--for=job/described")


def test_edit_changes_the_object(cluster: Served) -> None:
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump(job("edited", suspend=True)))
    editor = "sed -i 's/parallelism: 1/parallelism: 4/'"
    cluster.kubectl("edit", "job", "edited", KUBE_EDITOR=editor)
    assert "4" == cluster.kubectl("get", "job", "edited", "-o", "jsonpath={.spec.parallelism}")


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("strategic", '{"spec":{"parallelism":7}}'),
        ("merge", '{"spec":{"parallelism":7}}'),
        ("json", '[{"op":"replace","path":"/spec/parallelism","value":7}]'),
    ],
)
def test_patches_of_three_types_are_taken(cluster: Served, kind: str, patch: str) -> None:
    name = f"patched-{kind}"
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump(job(name, suspend=True)))
    cluster.kubectl("patch", "job", name, f"--type={kind}", "-p", patch)
    assert "7" == cluster.kubectl("get", "job", name, "-o", "jsonpath={.spec.parallelism}")


def test_what_is_immutable_stays(cluster: Served) -> None:
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump(job("fixed")))
    said = cluster.kubectl("patch", "job", "fixed", "-p", '{"spec":{"completions":3}}', code=1)
    assert "spec.completions: Invalid value: 3: field is immutable" in said


def test_labels_and_annotations_come_and_go(cluster: Served) -> None:
    cluster.kubectl("create", "configmap", "tagged")
    cluster.kubectl("label", "cm", "tagged", "a=b")
    cluster.kubectl("annotate", "cm", "tagged", "c=d")
    metadata = cluster.json("get", "cm", "tagged")["metadata"]
    assert ({"a": "b"}, {"c": "d"}) == (metadata["labels"], metadata["annotations"])
    cluster.kubectl("label", "cm", "tagged", "a-")
    assert "labels" not in cluster.json("get", "cm", "tagged")["metadata"]


def test_generators_send_protobuf_and_are_understood(cluster: Served) -> None:
    cluster.kubectl("create", "namespace", "made")
    cluster.kubectl("create", "job", "made", "--image=busybox", "-n", "made", "--", "echo", "hi")
    cluster.kubectl("create", "secret", "generic", "made", "--from-literal=a=b", "-n", "made")
    spec = cluster.json("get", "job", "made", "-n", "made")["spec"]
    assert ["echo", "hi"] == spec["template"]["spec"]["containers"][0]["command"]
    data = cluster.kubectl("get", "secret", "made", "-n", "made", "-o", "jsonpath={.data.a}")
    assert "Yg==" == data
    cluster.kubectl("delete", "namespace", "made")
    assert "not found" in cluster.kubectl("get", "namespace", "made", code=1)
    assert "No resources found" in cluster.warned("get", "jobs", "-n", "made")


def test_wait_ends_when_the_condition_holds(cluster: Served) -> None:
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump(job("awaited")))
    waiting = cluster.start(
        "wait", "--for=condition=Complete", "job/awaited", f"--timeout={HANG_S}s"
    )
    done = '{"status":{"conditions":[{"type":"Complete","status":"True"}],"succeeded":1}}'
    cluster.kubectl("patch", "job", "awaited", "--subresource=status", "--type=merge", "-p", done)
    with waiting:
        out, err = waiting.communicate(timeout=HANG_S)
    assert "job.batch/awaited condition met\n" == out, err
    assert ["awaited", "Complete", "1/1"] == cluster.kubectl(
        "get", "job", "awaited", "--no-headers"
    ).split()[:3]


def test_watch_prints_a_row_for_every_change(cluster: Served) -> None:
    watching = cluster.start("get", "cm", "-w", "-l", "watched=yes", "--no-headers")
    with watching:
        for name in ("w1", "w2"):
            cluster.kubectl("create", "configmap", name)
            cluster.kubectl("label", "cm", name, "watched=yes")
        assert watching.stdout is not None
        names = [watching.stdout.readline().split()[0] for _ in range(2)]
        watching.terminate()
        watching.communicate(timeout=HANG_S)
    assert ["w1", "w2"] == names


def test_deletion_waits_for_finalizers(cluster: Served) -> None:
    held = config_map("held")
    held["metadata"]["finalizers"] = ["example.com/held"]
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump(held))
    deleting = cluster.start("delete", "cm", "held")
    cluster.kubectl("wait", "--for=jsonpath={.metadata.deletionTimestamp}", "cm/held")
    cluster.kubectl("patch", "cm", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    with deleting:
        out, err = deleting.communicate(timeout=HANG_S)
    assert out.startswith('configmap "held" deleted'), err
    assert "not found" in cluster.kubectl("get", "cm", "held", code=1)


def test_many_are_deleted_at_once(cluster: Served) -> None:
    for name in ("m1", "m2"):
        cluster.kubectl("create", "configmap", name)
        cluster.kubectl("label", "cm", name, "many=yes")
    said = cluster.kubectl("delete", "cm", "-l", "many=yes")
    assert 2 == said.count("deleted")
    assert "" == cluster.kubectl("get", "cm", "-l", "many=yes", "-o", "name")


def test_dry_run_stores_nothing(cluster: Served) -> None:
    said = cluster.kubectl("create", "configmap", "dry", "--dry-run=server")
    assert "configmap/dry created (server dry run)\n" == said
    assert "not found" in cluster.kubectl("get", "cm", "dry", code=1)


def test_replace_takes_the_place_of_what_is_there(cluster: Served) -> None:
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump(config_map("replaced", a="1")))
    manifest = yaml.safe_dump(config_map("replaced", b="2"))
    cluster.kubectl("replace", "-f", "-", stdin=manifest)
    assert {"b": "2"} == cluster.json("get", "cm", "replaced")["data"]


def test_explain_knows_the_fields(cluster: Served) -> None:
    said = cluster.kubectl("explain", "job.spec.template.spec.containers")
    assert "workingDir\t<string>" in said
    assert "cohortName\t<string>" in cluster.kubectl("explain", "clusterqueue.spec")


_EXPLAINED = (
    *("cq", "clusterqueue.spec.resourceGroups", "workload.status.admission"),
    *("job", "job.spec", "pod.spec.containers", "deployment.spec.strategy", "cm", "node.status"),
)


@pytest.mark.parametrize("what", _EXPLAINED)
def test_explain_describes_every_field(cluster: Served, what: str) -> None:
    description, _, fields = cluster.kubectl("explain", what).partition("FIELDS:")
    assert "<empty>" not in description
    assert [] == [each for each in fields.split("\n\n") if "<no description>" in each]


def test_logs_come_from_the_runner(cluster: Served) -> None:
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump(pod("logged")))
    status = '{"status":{"phase":"Running","containerStatuses":[{"name":"main","ready":true,\
"restartCount":0,"image":"busybox","imageID":"","state":{"running":{}}}]}}'
    cluster.kubectl("patch", "pod", "logged", "--subresource=status", "--type=merge", "-p", status)
    assert "logged/main tail=5\n" == cluster.kubectl("logs", "logged", "--tail=5")
    assert "logged/main tail=None\n" == cluster.kubectl("logs", "-f", "logged")
    assert "is not valid for pod" in cluster.kubectl("logs", "logged", "-c", "other", code=1)


def test_roles_hold_and_can_be_asked_for(cluster: Served) -> None:
    cluster.kubectl("create", "namespace", "team-a")
    cluster.kubectl("label", "namespace", "team-a", "kuota.dev/team=team-a")
    ann = ("--context=ann", "-n", "team-a")
    assert "yes\n" == cluster.kubectl("auth", "can-i", "create", "jobs", *ann)
    assert "no" in cluster.kubectl("auth", "can-i", "create", "localqueues", *ann, code=1)
    assert "Username    ann" in cluster.kubectl("auth", "whoami", "--context=ann")
    assert "jobs.batch" in cluster.kubectl("auth", "can-i", "--list", *ann)
    manifest = yaml.safe_dump(job("mine"))
    cluster.kubectl("create", *ann, "-f", "-", stdin=manifest)
    said = cluster.kubectl(
        "create", "--context=bob", "-n", "team-a", "-f", "-", stdin=manifest, code=1
    )
    assert 'User "bob" cannot create resource "jobs"' in said
    cluster.kubectl("get", "clusterqueues", "--context=bob")
    assert "no" in cluster.kubectl(
        "auth", "can-i", "create", "jobs", "-n", "team-a", "--as=bob", "--as-group=team-b", code=1
    )
