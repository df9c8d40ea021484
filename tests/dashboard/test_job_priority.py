# SPDX-License-Identifier: Apache-2.0
"""All pods of a group get a priority class, or none of them does."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

import pytest

from kuota.api.base import Json, Key
from kuota.dashboard.job_priority import JobRef, set_class
from kuota.kube.errors import ApiError, Forbidden, NotFound
from kuota.kube.resources import PODS, Resource

DENIED = Forbidden(403, "Forbidden", "denied by a policy")
GONE = NotFound(404, "NotFound", "gone")


class Group:
    """A client for three pods, of which some refuse a change, or several one after another."""

    def __init__(self, **refusals: list[ApiError | None]) -> None:
        self._refusals = refusals
        self.labels: dict[str, str | None] = dict.fromkeys("abc", "low")

    async def patch(self, resource: Resource, key: Key, body: Json) -> Json:
        refusals = self._refusals.get(key.name) or [None]
        refusal = refusals.pop(0)
        if refusal is not None:
            raise refusal
        assert key.name == body["metadata"]["uid"]
        self.labels[key.name] = body["metadata"]["labels"]["kueue.x-k8s.io/priority-class"]
        return {}


@pytest.mark.parametrize(
    ("group", "labels", "words"),
    [
        (Group(), "high high high", ""),
        (Group(b=[GONE]), "high low high", ""),
        (Group(a=[GONE], b=[GONE], c=[GONE]), "low low low", "gone"),
        (Group(c=[DENIED]), "low low low", "Pod c: denied by a policy; no priority was changed"),
        (Group(a=[None, DENIED], c=[DENIED]), "high low low", "Pod a got the class already"),
        (Group(a=[None, GONE], c=[DENIED]), "high low low", "no priority was changed"),
    ],
)
def test_all_pods_of_a_group_get_a_class_or_none(group: Group, labels: str, words: str) -> None:
    jobs = [JobRef(PODS, Key("team", each), each) for each in "abc"]
    with pytest.raises(ApiError, match=words) if words else nullcontext():
        asyncio.run(set_class(group, jobs, "low", "high"))
    assert labels.split() == list(group.labels.values())


def test_pods_that_had_no_class_lose_the_new_one() -> None:
    group = Group(b=[DENIED])
    with pytest.raises(ApiError, match="no priority was changed"):
        asyncio.run(
            set_class(group, [JobRef(PODS, Key("team", each), each) for each in "ab"], "", "high")
        )
    assert None is group.labels["a"]
