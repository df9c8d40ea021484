# SPDX-License-Identifier: Apache-2.0
"""How a container becomes a process, and its user."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from kuota.api.base import Json
from kuota.runner.cgroups import Cgroups, delegated, settings
from kuota.runner.container_env import LaunchError, Sources, expanded
from kuota.runner.launch import PodEnvironment, container_plan, grace_period_s, mount_notes
from kuota.runner.pod_files import prepare
from kuota.runner.pod_home import PodHome
from kuota.runner.run_as import RunAs, RunAsPolicy, run_as
from kuota.runner.volumes import check_spec, files_plan, references, volume_paths

PLACE = PodEnvironment(root="/pods/1/root", volumes={"data": "/pods/1/volumes/data"})


def pod(*containers: Json, **spec: Any) -> Json:
    meta = {"name": "p", "namespace": "team", "uid": "1", "labels": {"a": "b"}, "annotations": {}}
    return {"metadata": meta, "spec": {"containers": list(containers), **spec}}


def container(**fields: Any) -> Json:
    return {"name": "main", "image": "x", "command": ["run"], **fields}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(A)", "x1y1"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(NONE)", "$(NONE)"),
        ("$(A", "$(A"),
        ("$A cost $5", "$A cost $5"),
    ],
)
def test_words_are_expanded_as_in_a_cluster(text: str, expected: str) -> None:
    assert expected == expanded(text, {"A": "1"})


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"env": [{"name": "A=B", "value": "x"}]}, "env[0].name"),
        ({"args": ["a\0b"]}, "args[0]"),
        ({"workingDir": "/\0"}, "workingDir"),
    ],
)
def test_what_no_process_can_receive_is_reported_by_its_place(fields: Json, place: str) -> None:
    """Older versions stored such pods."""
    with pytest.raises(LaunchError, match=re.escape(place)) as raised:
        check_spec(pod(container(**fields))["spec"])
    assert raised.value.permanent


def test_null_characters_of_annotations_do_not_reach_the_environment() -> None:
    ref = {"fieldRef": {"fieldPath": "metadata.annotations['note']"}}
    one = container(env=[{"name": "NOTE", "valueFrom": ref}])
    whole = pod(one)
    whole["metadata"]["annotations"]["note"] = "a\0b"
    assert "ab" == container_plan(whole, one, PLACE, Sources()).env["NOTE"]


def test_processes_start_in_the_pods_root_by_default() -> None:
    def cwd(**fields: Any) -> str:
        one = container(**fields)
        return container_plan(pod(one), one, PLACE, Sources()).cwd

    assert ["/pods/1/root", "/srv", "/pods/1/root/sub"] == [
        cwd(),
        cwd(workingDir="/srv"),
        cwd(workingDir="sub"),
    ]


def test_a_pod_cannot_make_unassigned_devices_visible() -> None:
    one = container(env=[{"name": "CUDA_VISIBLE_DEVICES", "value": "0,1,2"}])
    plan = container_plan(pod(one), one, PLACE, Sources())
    assert "" == plan.env["CUDA_VISIBLE_DEVICES"]


def test_a_mount_is_reported_by_its_real_place() -> None:
    one = container(volumeMounts=[{"name": "data", "mountPath": "/data", "subPath": "in"}])
    plan = container_plan(pod(one), one, PLACE, Sources())
    assert "/pods/1/volumes/data" == plan.env["KUOTA_VOLUME_DATA"]
    (mount,) = plan.mounts
    assert ("/pods/1/volumes/data/in", "/data") == (mount.source, mount.path)
    assert "not at /data" in mount_notes(plan.mounts)[0]


@pytest.mark.parametrize("path", ["/etc", "../x", "a/../../b"])
def test_a_sub_path_cannot_lead_out_of_its_volume(path: str) -> None:
    one = container(volumeMounts=[{"name": "data", "mountPath": "/data", "subPath": path}])
    with pytest.raises(LaunchError, match="leads outside"):
        container_plan(pod(one), one, PLACE, Sources())


def test_the_grace_of_a_deletion_wins_over_that_of_the_pod() -> None:
    one = pod(container(), terminationGracePeriodSeconds=5)
    assert (30, 5) == (grace_period_s(pod(container())), grace_period_s(one))
    one["metadata"]["deletionGracePeriodSeconds"] = 0
    assert 0 == grace_period_s(one)


def named(uid: str | None, **spec: Any) -> Json:
    one = pod(container(), **spec)
    if uid is not None:
        one["metadata"]["annotations"] = {"kuota.dev/run-as-uid": uid}
    return one


def test_a_runner_that_is_not_root_can_only_be_itself() -> None:
    one = named("1000", securityContext={"runAsUser": 7})
    answer = run_as(one, container(), RunAsPolicy(uid=500))
    assert (None, "runs as user 500; runAsUser 7 is ignored") == (answer.uid, answer.note)


def test_root_becomes_the_user_who_asked() -> None:
    assert RunAs(1000) == run_as(named("1000"), container(), RunAsPolicy(uid=0))
    policy = RunAsPolicy(uid=0, fallback_uid=65534)
    assert RunAs(65534) == run_as(named(None), container(), policy)


@pytest.mark.parametrize("uid", [None, "0", "root", "-1", "4294967295", "4294967296"])
def test_running_as_root_requires_permission(uid: str | None) -> None:
    with pytest.raises(LaunchError):
        run_as(named(uid), container(), RunAsPolicy(uid=0))


def trusted(one: Json) -> Json:
    one["metadata"]["annotations"] = {
        **one["metadata"]["annotations"],
        "kuota.dev/author-role": "admin",
    }
    return one


def test_pods_of_admins_may_become_anyone_and_root_where_allowed() -> None:
    policy = RunAsPolicy(uid=0, allow_root=True)
    seven = trusted(named("1000", securityContext={"runAsUser": 7}))
    assert RunAs(7) == run_as(seven, container(), RunAsPolicy(uid=0))
    assert RunAs(0) == run_as(trusted(named("0")), container(), policy)
    with pytest.raises(LaunchError, match="not allowed"):
        run_as(trusted(named("0")), container(), RunAsPolicy(uid=0))
    both = trusted(named("0", securityContext={"runAsNonRoot": True}))
    with pytest.raises(LaunchError, match="runAsNonRoot"):
        run_as(both, container(), policy)


def test_pods_of_members_never_run_as_root() -> None:
    policy = RunAsPolicy(uid=0, allow_root=True, fallback_uid=0)
    for one in (named(None), named("0"), named("1000", securityContext={"runAsUser": 0})):
        with pytest.raises(LaunchError):
            run_as(one, container(), policy, allowed=frozenset({0}))


def test_pods_of_members_may_choose_their_own_user_and_those_that_an_admin_lists() -> None:
    policy = RunAsPolicy(uid=0)
    own = named("1000", securityContext={"runAsUser": 1000})
    assert RunAs(1000) == run_as(own, container(), policy)
    other = named("1000", securityContext={"runAsUser": 7})
    assert RunAs(7) == run_as(other, container(), policy, allowed=frozenset({7}))
    with pytest.raises(LaunchError, match="runAsUser 7"):
        run_as(other, container(), policy)
    with pytest.raises(LaunchError, match="runAsUser 7"):
        run_as(named("1000"), container(securityContext={"runAsUser": 7}), policy)


def created(one: Json, home: PodHome, sources: Sources, **plan: Any) -> PodEnvironment:
    """Create the files of the pod in this process."""
    place = PodEnvironment(root=home.root, volumes=volume_paths(one, home))
    found = [container_plan(one, each, place, sources) for each in one["spec"]["containers"]]
    mounts = [mount for each in found for mount in each.mounts]
    allowed = {"state_dir": "/nonexistent", "allowed": None}
    prepare(files_plan(one, home, sources, mounts) | allowed | plan)
    return place


def test_volumes_are_directories_of_the_pod(tmp_path: Path) -> None:
    home = PodHome(str(tmp_path), "1")
    mounts = [
        {"name": "scratch", "mountPath": "/scratch"},
        {"name": "settings", "mountPath": "/etc/settings"},
    ]
    one = pod(
        container(volumeMounts=mounts),
        volumes=[
            {"name": "scratch", "emptyDir": {}},
            {"name": "settings", "secret": {"secretName": "s", "defaultMode": 0o400}},
            {"name": "info", "downwardAPI": {"items": [_labels_item()]}},
            {"name": "host", "hostPath": {"path": "/srv"}},
        ],
    )
    assert (set(), {"s"}) == references(one)
    home.create(one)
    sources = Sources(secrets={"s": {"data": {"key": "dmFsdWU="}}})
    for _ in range(2):  # A runner that was killed in between does it again.
        place = created(one, home, sources)
    secret = Path(home.root, "etc/settings/key")
    assert ("value", 0o400) == (secret.read_text(), stat.S_IMODE(secret.stat().st_mode))
    assert 'a="b"' == Path(home.volume("info"), "labels").read_text()
    assert "/srv" == place.volumes["host"]
    assert os.path.islink(home.root + "/scratch")


def _labels_item() -> Json:
    return {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}


def test_a_volume_of_a_kind_that_is_not_offered_says_so(tmp_path: Path) -> None:
    home = PodHome(str(tmp_path), "1")
    one = pod(container(), volumes=[{"name": "v", "nfs": {"server": "x"}}])
    home.create(one)
    with pytest.raises(LaunchError, match="nfs"):
        files_plan(one, home, Sources(), [])


def test_limits_become_settings_of_a_group() -> None:
    assert {"cpu.max": "150000 100000", "memory.max": "1048576"} == settings(
        {"cpu": "1500m", "memory": "1Mi"}
    )


def hierarchy(folder: Path, controllers: str, *, place: str = "v2", root: str = "/") -> Cgroups:
    """The cgroups of a process in the group /mine of a hierarchy that is mounted at `place`."""
    own, mounts, group = folder / "own", folder / "mounts", folder / place / "mine"
    own.write_text("1:cpu,cpuacct:/\n0::/mine\n")
    mounts.write_text(f"30 24 0:26 {root} {folder / place} rw - cgroup2 cgroup2 rw\n")
    group.mkdir(parents=True, exist_ok=True)
    (group / "cgroup.controllers").write_text(controllers)
    return delegated(str(own), str(mounts))


def test_groups_enforce_what_is_delegated_and_explain_what_is_not(tmp_path: Path) -> None:
    groups = hierarchy(tmp_path, "cpu memory pids")
    assert ("", []) == (groups.refusal, groups.missing)
    path = groups.create("uid", "main", {"memory": "1Mi", "cpu": "2"}, pids=100)
    assert "1048576" == Path(path, "memory.max").read_text()
    assert "200000 100000" == Path(path, "cpu.max").read_text()
    assert "100" == Path(path, "../pids.max").read_text()
    some = hierarchy(tmp_path, "memory pids")
    assert ["cpu"] == some.missing
    path = some.create("other", "main", {"memory": "1Mi", "cpu": "2"})
    assert Path(path, "memory.max").exists()
    assert not Path(path, "cpu.max").exists()
    assert "" == Cgroups(refusal="none").create("uid", "main", {})


def test_a_hierarchy_at_another_mount_point_is_found_and_named(tmp_path: Path) -> None:
    groups = hierarchy(tmp_path, "cpu memory pids", place="sys/fs/cgroup/unified")
    assert groups.root.startswith(str(tmp_path / "sys/fs/cgroup/unified"))
    empty = hierarchy(tmp_path, "", place="elsewhere")
    assert str(tmp_path / "elsewhere") in empty.refusal
    assert "cgroup v1 uses the controllers" in empty.refusal
    assert "systemd.unified_cgroup_hierarchy=1" in empty.refusal
    (tmp_path / "mounts").write_text("30 24 0:26 / /proc rw - proc proc rw\n")
    absent = delegated(str(tmp_path / "own"), str(tmp_path / "mounts"))
    assert "not mounted" in absent.refusal
    (tmp_path / "own").write_text("1:cpu:/\n")
    assert "no cgroup v2" in delegated(str(tmp_path / "own"), str(tmp_path / "mounts")).refusal


def test_an_unused_cgroup_controller_is_not_delegated(tmp_path: Path) -> None:
    own = hierarchy(tmp_path, "memory")
    assert ["cpu", "pids"] == own.missing
    (tmp_path / "own").write_text("0::/mine\n")
    found = delegated(str(tmp_path / "own"), str(tmp_path / "mounts"))
    assert "cpu, pids are not delegated" in found.refusal
    assert "Delegate=yes" in found.refusal
