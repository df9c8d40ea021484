# SPDX-License-Identifier: Apache-2.0
"""No job kind fails on malformed jobs: API servers without a schema store anything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.jobs.kinds import BY_NAME, EXAMPLES, FIELDS, RUNTIME
from kuota.api.gates import Gates
from kuota.api.podset import Injection, MergeConflict
from kuota.bridge.jobs.kind import (
    JobKind,
    JobWithReclaimablePods,
    JobWithReferences,
    PodSetsUnknown,
    resolved,
)
from kuota.bridge.jobs.topology_request import TopologyRequestError

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "1", "True"])
METADATA = {"metadata": {"name": "j", "namespace": "ml"}}
"""The API server always validates metadata."""
SELECTOR = Injection(name="a", count=1, node_selector={"zone": "east"})


def values(keys: tuple[str, ...]) -> st.SearchStrategy[Any]:
    """Arbitrary JSON whose objects have these keys."""
    return st.recursive(
        SCALARS,
        lambda inside: (
            st.lists(inside, max_size=3)
            | st.dictionaries(st.sampled_from(keys), inside, max_size=6)
        ),
        max_leaves=25,
    )


@pytest.mark.parametrize("name", BY_NAME)
@given(data=st.data())
def test_no_method_of_a_kind_fails_on_arbitrary_json(name: str, data: st.DataObject) -> None:
    kind = BY_NAME[name]
    anything = values(FIELDS)
    job = METADATA | data.draw(st.fixed_dictionaries({"spec": anything, "status": anything}))
    runtime = data.draw(st.none() | st.fixed_dictionaries({"spec": anything}))
    exercise(kind, job, runtime)


@pytest.mark.parametrize("name", BY_NAME)
@given(data=st.data())
def test_no_method_of_a_kind_fails_if_one_field_of_a_job_is_malformed(
    name: str, data: st.DataObject
) -> None:
    kind = BY_NAME[name]
    job = EXAMPLES[name]
    path = data.draw(
        st.sampled_from([each for each in paths(job) if each[0] in ("spec", "status")])
    )
    exercise(kind, replaced(job, path, data.draw(values(FIELDS))), RUNTIME)


def paths(value: Any, above: tuple[str | int, ...] = ()) -> Any:
    if above:
        yield above
    if isinstance(value, dict):
        for key, each in value.items():
            yield from paths(each, (*above, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from paths(each, (*above, index))


def replaced(value: Any, path: tuple[str | int, ...], by: Any) -> Any:
    if not path:
        return by
    if isinstance(value, list):
        return [replaced(e, path[1:], by) if i == path[0] else e for i, e in enumerate(value)]
    return {k: replaced(e, path[1:], by) if k == path[0] else e for k, e in value.items()}


def exercise(kind: JobKind, job: Any, runtime: Any) -> None:
    """Call every method. Only the exceptions of the interface may be raised."""
    gates = Gates()
    if isinstance(kind, JobWithReferences):
        kind.references(job)
    job = resolved(kind, job, lambda _kind, _key: runtime)
    kind.suspended(job), kind.end(job), kind.active(job), kind.pods_ready(job)
    assert kind.suspended(kind.suspend(job))
    list(kind.faults(job, None, gates, managed=True, default_queue=True))
    list(kind.faults(job, job, gates, managed=False, default_queue=False))
    kind.defaulted(job, gates, managed=True)
    kind.stop(job, None)
    try:
        pod_sets = kind.pod_sets(job, gates)
        kind.pod_priority_class(job)
        if isinstance(kind, JobWithReclaimablePods):
            kind.reclaimable(job, exact=True), kind.reclaimable(job, exact=False)
        kind.stop(job, pod_sets)
        kind.start(job, [SELECTOR] * len(pod_sets), gates)
    except (PodSetsUnknown, TopologyRequestError, MergeConflict):
        return
