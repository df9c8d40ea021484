# SPDX-License-Identifier: Apache-2.0
"""The kinds that Kuota uses, and their locations on an API server."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kuota.api.base import Json, Key
from kuota.api.config.frameworks import GroupVersionKind


class Resource(msgspec.Struct, frozen=True, cache_hash=True):
    """One kind in one version, with what its URL needs. The core group is ""."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @classmethod
    def of(cls, gvk: GroupVersionKind, plural: str, *, namespaced: bool = True) -> Resource:
        """Return the resource of a kind."""
        return cls(gvk.group, gvk.version, plural, gvk.kind, namespaced)

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """The name without a version: `jobs.batch`, or `pods` in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def __str__(self) -> str:
        return self.name


def key_of(obj: Json) -> Key:
    """Return the key of an object."""
    metadata = obj["metadata"]
    return Key(metadata.get("namespace") or "", metadata["name"])


_KUEUE = "kueue.x-k8s.io"
_V = "v1beta2"

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
POD_TEMPLATES = Resource("", "v1", "podtemplates", "PodTemplate")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
SERVICES = Resource("", "v1", "services", "Service")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange")
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
CORE_EVENTS = Resource("", "v1", "events", "Event")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
JOBS = Resource("batch", "v1", "jobs", "Job")
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
CONTROLLER_REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False
)
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False)
RESOURCE_SLICES = Resource(
    "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False
)
RESOURCE_CLAIM_TEMPLATES = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate"
)
PROVISIONING_REQUESTS = Resource(
    "autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest"
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
CRDS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)

WORKLOADS = Resource(_KUEUE, _V, "workloads", "Workload")
LOCAL_QUEUES = Resource(_KUEUE, _V, "localqueues", "LocalQueue")
CLUSTER_QUEUES = Resource(_KUEUE, _V, "clusterqueues", "ClusterQueue", namespaced=False)
COHORTS = Resource(_KUEUE, _V, "cohorts", "Cohort", namespaced=False)
RESOURCE_FLAVORS = Resource(_KUEUE, _V, "resourceflavors", "ResourceFlavor", namespaced=False)
ADMISSION_CHECKS = Resource(_KUEUE, _V, "admissionchecks", "AdmissionCheck", namespaced=False)
TOPOLOGIES = Resource(_KUEUE, _V, "topologies", "Topology", namespaced=False)
WORKLOAD_PRIORITY_CLASSES = Resource(
    _KUEUE, _V, "workloadpriorityclasses", "WorkloadPriorityClass", namespaced=False
)
PROVISIONING_REQUEST_CONFIGS = Resource(
    _KUEUE, _V, "provisioningrequestconfigs", "ProvisioningRequestConfig", namespaced=False
)
MULTI_KUEUE_CONFIGS = Resource(
    _KUEUE, _V, "multikueueconfigs", "MultiKueueConfig", namespaced=False
)
MULTI_KUEUE_CLUSTERS = Resource(
    _KUEUE, _V, "multikueueclusters", "MultiKueueCluster", namespaced=False
)

HAS_SPEC_AND_STATUS = frozenset(
    {JOBS, PODS, NODES, NAMESPACES, WORKLOADS, LOCAL_QUEUES, CLUSTER_QUEUES, COHORTS}
)
"""Kinds whose objects have a spec and a status besides their metadata, and nothing else."""

ALL: tuple[Resource, ...] = tuple(
    each for each in list(globals().values()) if isinstance(each, Resource)
)
"""Every kind above. No two of them have the same name."""

ARCHIVED_PODS = Resource("logs.kuota.dev", "v1alpha1", "pods", "Pod")
"""Deleted pods whose logs `kuota up` still has: another view of the kind Pod."""


def by_kind(wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Resource]:
    """Return the resources by group and kind."""
    chosen = set(wanted)
    return {at: each for each in ALL if (at := (each.group, each.kind)) in chosen}
