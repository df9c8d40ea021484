# SPDX-License-Identifier: Apache-2.0
"""Which MultiKueue objects refer to which, and which changes concern others. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kuota.api.kueue import (
    GROUP,
    MULTIKUEUE,
    AdmissionCheck,
    ClusterQueue,
    MultiKueueCluster,
    MultiKueueConfig,
)
from kuota.api.workload import AdmissionCheckState, Workload

SECRET, PATH = "Secret", "Path"
"""The location types of a kubeconfig."""
CONFIG_KIND = "MultiKueueConfig"


class BadReference(Exception):
    """An AdmissionCheck names no usable MultiKueueConfig; the message says why."""


class ConfigMissing(BadReference):
    """The named MultiKueueConfig does not exist."""


def secret_name(cluster: MultiKueueCluster) -> str:
    """Return the name of the Secret with the kubeconfig; "" if it is not in a Secret."""
    found = cluster.spec.cluster_source.kube_config
    return found.location if found is not None and found.location_type != PATH else ""


def path_name(cluster: MultiKueueCluster) -> str:
    """Return the path of the kubeconfig; "" if it is not in a file."""
    found = cluster.spec.cluster_source.kube_config
    return found.location if found is not None and found.location_type == PATH else ""


def profile_name(cluster: MultiKueueCluster) -> str:
    """Return the name of the ClusterProfile; "" for none."""
    found = cluster.spec.cluster_source.cluster_profile_ref
    return found.name if found is not None else ""


def is_multikueue(check: AdmissionCheck) -> bool:
    return check.spec.controller_name == MULTIKUEUE


def config_name(check: AdmissionCheck) -> str:
    """Return the MultiKueueConfig that the parameters of a check name; "" for none."""
    found = check.spec.parameters
    if found is None or found.api_group != GROUP or found.kind != CONFIG_KIND:
        return ""
    return found.name


def config_of(check: AdmissionCheck, configs: Mapping[str, MultiKueueConfig]) -> MultiKueueConfig:
    """Return the configuration of a check. Raises BadReference."""
    found = check.spec.parameters
    if found is None:
        raise BadReference("spec.parameters is missing; name a MultiKueueConfig")
    if found.api_group != GROUP or found.kind != CONFIG_KIND:
        raise BadReference(
            f"spec.parameters names {found.kind!r} in group {found.api_group!r}; "
            f"name a {CONFIG_KIND} in group {GROUP}"
        )
    if not found.name:
        raise BadReference("spec.parameters.name is empty; name a MultiKueueConfig")
    if found.name not in configs:
        raise ConfigMissing(f"MultiKueueConfig {found.name!r} not found; create it")
    return configs[found.name]


def worker_names(check: AdmissionCheck, configs: Mapping[str, MultiKueueConfig]) -> list[str]:
    """Return the worker clusters of a check in the configured order. Raises BadReference."""
    config = config_of(check, configs)
    if not config.spec.clusters:
        raise BadReference(f"MultiKueueConfig {config.metadata.name!r} lists no clusters")
    return list(config.spec.clusters)


def multikueue_state(
    states: Iterable[AdmissionCheckState], checks: Mapping[str, AdmissionCheck]
) -> AdmissionCheckState | None:
    """Return the state of the first check of MultiKueue; None if there is none."""
    for each in states:
        check = checks.get(each.name)
        if check is not None and is_multikueue(check):
            return each
    return None


def queue_check(queue: ClusterQueue, checks: Iterable[AdmissionCheck]) -> AdmissionCheck | None:
    """Return the MultiKueue check of a ClusterQueue; None if it has none."""
    strategy = queue.spec.admission_checks_strategy
    named = {each.name for each in (strategy.admission_checks if strategy else None) or ()}
    return next((c for c in checks if c.metadata.name in named and is_multikueue(c)), None)


def check_names(workload: Workload) -> list[str]:
    """Return the names of the checks that a Workload lists."""
    return [each.name for each in workload.status.admission_checks or ()]


def refers_elsewhere(old: AdmissionCheck, new: AdmissionCheck) -> bool:
    """Whether a change of a check concerns its Workloads: it names another configuration."""
    if not (is_multikueue(old) and is_multikueue(new)):
        return False
    return config_name(old) != config_name(new)


def lists_others(old: MultiKueueConfig, new: MultiKueueConfig) -> bool:
    """Whether a change of a configuration concerns the Workloads of its checks."""
    return (old.spec.clusters or []) != (new.spec.clusters or [])
