# SPDX-License-Identifier: Apache-2.0
"""The members of composed jobs: updates, and what a pass over a group reads of its Pods."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridge.jobs.pods import CONFIG, GROUP, KEY, NOON, pod, stored
from kuota.api.base import Json, Key
from kuota.api.gates import Gates
from kuota.bridge.draft import PassResult, StoredWorkload
from kuota.bridge.effects import Effect, Patch, StatusPatch
from kuota.bridge.job_pass.steps import reconcile_job
from kuota.bridge.jobs.composable import composed
from kuota.bridge.jobs.members import Members, identity_of
from kuota.bridge.jobs.pod_group_members import PodTraits
from kuota.bridge.lifecycle_view import JobPassInput

SIZE = 50


class Group:
    """The Pods of a group as a cache keeps them, with the names of those that were read."""

    def __init__(self) -> None:
        self.pods: dict[Key, Json] = {}
        self.reads: list[str] = []
        self.members = Members[PodTraits](KEY.namespace, self._read)

    def _read(self, key: Key) -> Json | None:
        self.reads.append(key.name)
        return self.pods.get(key)

    def put(self, obj: Json) -> None:
        key = Key(KEY.namespace, obj["metadata"]["name"])
        self.drop(key)
        self.pods[key] = obj
        self.members.put(GROUP.described(obj))

    def drop(self, key: Key) -> None:
        before = self.pods.pop(key, None)
        if before is not None:
            self.members.drop(identity_of(before))


def passed(job: Json | None, workload: Json | None) -> PassResult:
    found = (StoredWorkload.of(workload),) if workload is not None else ()
    view = JobPassInput(key=KEY, kind=GROUP, job=job, workloads=found, namespace={}, config=CONFIG)
    return reconcile_job(view, NOON)


def test_a_pass_over_a_group_reads_only_pods_that_it_writes() -> None:
    group = Group()
    for number in range(SIZE):
        running = pod(f"p{number:02}", of=SIZE, gated=False, phase="Running", node=True)
        group.put(running)
    admitted = stored(*(pod(f"p{number:02}", of=SIZE) for number in range(SIZE)), admitted=True)
    group.put(pod("p07", of=SIZE, gated=False, phase="Succeeded", node=True))
    group.reads.clear()
    result = passed(GROUP.compose(KEY, group.members, Gates(), NOON), admitted)
    assert [True] == [isinstance(each, StatusPatch) for each in result.effects]
    assert {"p00"} == set(group.reads)
    group.put(pod("p50", of=SIZE, created="2026-01-01T11:30:00Z"))
    group.reads.clear()
    passed(GROUP.compose(KEY, group.members, Gates(), NOON), admitted)
    assert SIZE < len(group.reads)


def test_a_group_that_waits_for_pods_reads_only_its_first_one() -> None:
    group = Group()
    for number in range(SIZE):
        group.put(pod(f"p{number:02}", of=SIZE + 1))
    group.reads.clear()
    passed(GROUP.compose(KEY, group.members, Gates(), NOON), None)
    assert {"p00"} == set(group.reads)


PODS = st.builds(
    pod,
    st.sampled_from(["a", "b", "c", "d"]),
    of=st.sampled_from([1, 2, 3]),
    queue=st.sampled_from(["main", "main", "main", "other"]),
    cpu=st.sampled_from(["1", "1", "2"]),
    phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
    gated=st.booleans(),
    node=st.booleans(),
    uid=st.sampled_from(["u1", "u2"]),
    created=st.sampled_from(["2026-01-01T11:00:00Z", "2026-01-01T10:00:00Z"]),
    deleted=st.sampled_from([None, None, "2026-01-01T11:59:00Z"]),
)


@given(st.lists(PODS, max_size=12), st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=4))
def test_a_group_that_changed_step_by_step_is_the_group_of_its_pods(
    puts: list[Json], drops: list[str]
) -> None:
    group = Group()
    for number, each in enumerate(puts):
        group.put(each)
        if number < len(drops):
            group.drop(Key(KEY.namespace, drops[number]))
    objects = list(group.pods.values())
    for workload in (None, stored(pod("a"), pod("b"), admitted=True)):
        stepwise = GROUP.compose(KEY, group.members, Gates(), NOON) if objects else None
        whole = composed(GROUP, KEY, objects, Gates(), NOON) if objects else None
        assert passed(whole, workload) == passed(stepwise, workload)


def test_members_are_removed_completely() -> None:
    group = Group()
    for name in ("a", "b"):
        group.put(pod(name))
    for name in ("a", "b", "missing"):
        group.drop(Key(KEY.namespace, name))
    assert 0 == len(group.members)
    assert [] == list(group.members.tally())
    assert group.members.first() is None


def test_a_pod_that_was_created_again_takes_the_place_of_its_predecessor() -> None:
    group = Group()
    group.put(pod("a", uid="1"))
    group.put(pod("a", uid="2"))
    assert [("a", "2")] == list(group.members.identities())
    wanted = stored(pod("a", uid="1"), pod("b"))
    group.put(pod("b"))
    effects = passed(GROUP.compose(KEY, group.members, Gates(), NOON), wanted).effects
    assert [["uid-b", "2"]] == [_owners(each) for each in effects if isinstance(each, Patch)]


def _owners(effect: Effect) -> list[str]:
    assert isinstance(effect, Patch)
    return [each["uid"] for each in effect.body["metadata"]["ownerReferences"]]
