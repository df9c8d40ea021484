# SPDX-License-Identifier: Apache-2.0
"""The objects of the manager's cluster that only MultiKueue needs, kept up to date by watches."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping

from kuota.api.base import Json, Key
from kuota.api.kueue import MultiKueueCluster, MultiKueueConfig
from kuota.control.cached_object import CachedObject, decoder_for
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import Forbidden
from kuota.kube.informer import Informer
from kuota.kube.resources import (
    MULTI_KUEUE_CLUSTERS,
    MULTI_KUEUE_CONFIGS,
    SECRETS,
    Resource,
)

from .kubeconfig import BAD, ClusterUnusable
from .profile import BAD_PROFILE
from .references import secret_name

SECRET_KEY = "kubeconfig"
"""The key of the kubeconfig in a Secret."""
CLUSTER_PROFILES = Resource(
    "multicluster.x-k8s.io", "v1alpha1", "clusterprofiles", "ClusterProfile"
)


class MultiKueueObjects:
    """MultiKueueClusters, MultiKueueConfigs, and the Secrets of one namespace.

    Of Secrets only the kubeconfig is kept, and they are not read before a MultiKueueCluster names
    one. ClusterProfiles are read only with `profiles`.
    """

    def __init__(
        self, client: Client, clock: Clock, namespace: str, *, profiles: bool = False
    ) -> None:
        self.namespace = namespace
        self.clusters: Informer[CachedObject[MultiKueueCluster]] = Informer(
            client, MULTI_KUEUE_CLUSTERS, decode=decoder_for(MultiKueueCluster), clock=clock
        )
        self.configs: Informer[CachedObject[MultiKueueConfig]] = Informer(
            client, MULTI_KUEUE_CONFIGS, decode=decoder_for(MultiKueueConfig), clock=clock
        )
        self.secrets: Informer[Json] = Informer(
            client, SECRETS, namespace, decode=_kubeconfig_only, clock=clock
        )
        self.profiles: Informer[Json] | None = None
        if profiles:
            self.profiles = Informer(client, CLUSTER_PROFILES, namespace, clock=clock)
        self._secrets_needed = asyncio.Event()
        self.clusters.observe(self._noticed)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.clusters.run())
            group.create_task(self.configs.run())
            if self.profiles is not None:
                group.create_task(self.profiles.run())
            await self._secrets_needed.wait()
            group.create_task(self.secrets.run())

    async def ready(self) -> None:
        """Return when clusters and configurations are known, or known not to be served."""
        await self.clusters.settled.wait()
        await self.configs.settled.wait()

    def config_map(self) -> Mapping[str, MultiKueueConfig]:
        """Return the readable configurations by name."""
        return {each.key.name: each.value for each in self.configs.values() if each.value}

    def cluster_map(self) -> Mapping[str, MultiKueueCluster]:
        """Return the readable clusters by name."""
        return {each.key.name: each.value for each in self.clusters.values() if each.value}

    def share_config(self, one: str, other: str) -> bool:
        """Whether a configuration names both clusters."""
        return any(
            {one, other} <= set(each.spec.clusters or ()) for each in self.config_map().values()
        )

    def kubeconfig(self, secret: str) -> str | None:
        """Return the kubeconfig in a Secret; None if Secrets are not known yet.

        Raises ClusterUnusable.
        """
        found = self.secrets.get(Key(self.namespace, secret))
        if found is None:
            self._refuse_absent(secret)
            return None
        content = found["kubeconfig"]
        if content is None:
            raise ClusterUnusable(
                BAD,
                f"Secret {secret!r} in namespace {self.namespace!r} has no UTF-8 text under the "
                f"key {SECRET_KEY!r}; store the kubeconfig there",
            )
        return str(content)

    def profile(self, name: str) -> Json | None:
        """Return a ClusterProfile; None if they are not known yet. Raises ClusterUnusable."""
        assert self.profiles is not None, "ClusterProfiles are not read"
        found = self.profiles.get(Key(self.namespace, name))
        if found is not None:
            return found
        if isinstance(self.profiles.error, Forbidden):
            raise ClusterUnusable(BAD_PROFILE, self._not_allowed("ClusterProfiles"))
        if self.profiles.lacking:
            raise ClusterUnusable(
                BAD_PROFILE,
                f"the API server does not serve {CLUSTER_PROFILES.plural}.{CLUSTER_PROFILES.group} "
                f"in version {CLUSTER_PROFILES.version}; install its CustomResourceDefinition",
            )
        if self.profiles.settled.is_set():
            where = f"in namespace {self.namespace!r}"
            raise ClusterUnusable(
                BAD_PROFILE, f"ClusterProfile {name!r} not found {where}; create it"
            )
        return None

    @property
    def forbidden(self) -> bool:
        """Whether a source of clusters may not be read. Nothing reports that it may be later."""
        sources = (self.secrets, self.profiles)
        return any(each is not None and isinstance(each.error, Forbidden) for each in sources)

    def _not_allowed(self, kinds: str) -> str:
        where = f"in namespace {self.namespace!r}"
        return f"not allowed to read {kinds} {where}; grant get, list and watch there"

    def _refuse_absent(self, secret: str) -> None:
        if isinstance(self.secrets.error, Forbidden):
            raise ClusterUnusable(BAD, self._not_allowed("Secrets"))
        if self.secrets.synced.is_set():
            raise ClusterUnusable(
                BAD, f"Secret {secret!r} not found in namespace {self.namespace!r}; create it"
            )

    def _noticed(
        self,
        old: CachedObject[MultiKueueCluster] | None,
        new: CachedObject[MultiKueueCluster] | None,
    ) -> None:
        if new is not None and new.value is not None and secret_name(new.value):
            self._secrets_needed.set()


def _kubeconfig_only(secret: Json) -> Json:
    meta = secret["metadata"]
    kept = {name: meta.get(name) for name in ("namespace", "name", "uid", "resourceVersion")}
    return {"metadata": kept, "kubeconfig": _decoded((secret.get("data") or {}).get(SECRET_KEY))}


def _decoded(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        return None
