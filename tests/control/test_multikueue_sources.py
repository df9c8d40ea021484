# SPDX-License-Identifier: Apache-2.0
"""Secrets and ClusterProfiles that cannot be read: the condition of the cluster says why."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from control.test_multikueue_clusters import cluster, run
from kuota.api.base import Json
from kuota.control.checks.multikueue.objects import CLUSTER_PROFILES
from kuota.kube.errors import Forbidden, NotFound
from kuota.kube.resources import MULTI_KUEUE_CLUSTERS, SECRETS, Resource


@pytest.mark.parametrize(
    ("resource", "reason"), [(SECRETS, "BadKubeConfig"), (CLUSTER_PROFILES, "BadClusterProfile")]
)
def test_a_manager_that_may_not_read_the_source_of_a_cluster_says_so_until_it_may(
    resource: Resource, reason: str
) -> None:
    async def story(fleet: Any) -> None:
        await fleet.stop()
        pages, denied = fleet.api.pages, [resource]

        async def forbidden(
            listed: Resource, *which: Any, **options: Any
        ) -> AsyncGenerator[Any, None]:
            if listed in denied:
                await asyncio.sleep(2)
                raise Forbidden(403, "Forbidden", "not allowed")
            async for page in pages(listed, *which, **options):
                yield page

        async def fetch(*_: Any) -> Json:
            return {"resources": [{"name": resource.plural}]}

        fleet.api.pages, fleet.api.fetch = forbidden, fetch
        source = {"clusterProfileRef": {"name": "profile"}} if resource != SECRETS else None
        await fleet.api.apply(cluster("near", source))
        fleet.start()
        await fleet.rest(5)
        assert ("False", reason) == fleet.activity(MULTI_KUEUE_CLUSTERS, "near")
        assert f"not allowed to read {resource.kind}s" in fleet.message("near")
        assert "grant get, list and watch" in fleet.message("near")
        denied.clear()
        await fleet.rest(60)
        assert "not found" in fleet.message("near")

    run(story, {"MultiKueueClusterProfile": True})


def test_a_cluster_profile_without_its_definition_is_reported() -> None:
    async def story(fleet: Any) -> None:
        await fleet.stop()
        pages = fleet.api.pages

        async def lacking(
            listed: Resource, *which: Any, **options: Any
        ) -> AsyncGenerator[Any, None]:
            if listed == CLUSTER_PROFILES:
                raise NotFound(404, "NotFound", "the server could not find the requested resource")
            async for page in pages(listed, *which, **options):
                yield page

        async def fetch(*_: Any) -> Json:
            raise NotFound(404, "NotFound", "the server could not find the requested resource")

        fleet.api.pages, fleet.api.fetch = lacking, fetch
        await fleet.api.apply(cluster("near", {"clusterProfileRef": {"name": "profile"}}))
        fleet.start()
        await fleet.rest(10)
        assert ("False", "BadClusterProfile") == fleet.activity(MULTI_KUEUE_CLUSTERS, "near")
        assert "CustomResourceDefinition" in fleet.message("near")

    run(story, {"MultiKueueClusterProfile": True})


def test_a_missing_cluster_profile_is_reported_after_a_slow_list() -> None:
    async def story(fleet: Any) -> None:
        await fleet.stop()
        pages = fleet.api.pages

        async def slow(
            resource: Resource, *which: Any, **options: Any
        ) -> AsyncGenerator[Any, None]:
            if resource == CLUSTER_PROFILES:
                await asyncio.sleep(3)
            async for page in pages(resource, *which, **options):
                yield page

        fleet.api.pages = slow
        await fleet.api.apply(cluster("near", {"clusterProfileRef": {"name": "profile"}}))
        fleet.start()
        await fleet.rest(10)
        assert ("False", "BadClusterProfile") == fleet.activity(MULTI_KUEUE_CLUSTERS, "near")

    run(story, {"MultiKueueClusterProfile": True})
