# SPDX-License-Identifier: Apache-2.0
"""Finds out how to connect to the cluster that a ClusterProfile describes. Pure.

The profile says where the cluster is; the manager's configuration says by which program credentials
for its access provider are obtained. This is the feature MultiKueueClusterProfile.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from kuota.api.base import Json
from kuota.api.config.shapes import AccessProvider, ExecConfig, MultiKueue
from kuota.api.rules.report import elements, mapping, text
from kuota.kube.config import Connection, ExecPlugin, KubeconfigUser, Pem, Secret

from .kubeconfig import ClusterUnusable, trusted

BAD_PROFILE, BAD_REST = "BadClusterProfile", "BadRestConfig"

Providers = Sequence[AccessProvider]


def configured(multi: MultiKueue | None) -> Providers:
    """Return the access providers of the manager's configuration."""
    profile = multi.cluster_profile if multi is not None else None
    if profile is None:
        return ()
    return profile.access_providers or profile.credentials_providers or ()


def profile_connection(profile: Json, name: str, providers: Providers) -> Connection:
    """Return how to connect to the cluster of a profile. Raises ClusterUnusable."""
    known = {each.name: each.exec_config for each in providers}
    if not known:
        raise ClusterUnusable(
            BAD_PROFILE,
            "no access provider is configured; set multiKueue.clusterProfile.accessProviders",
        )
    status = mapping(profile.get("status"))
    offered = elements(status.get("accessProviders")) or elements(status.get("credentialProviders"))
    for each in offered:
        found = mapping(each)
        if text(found.get("name")) in known:
            return _connection(mapping(found.get("cluster")), known[text(found.get("name"))])
    raise ClusterUnusable(
        BAD_PROFILE,
        f"ClusterProfile {name!r} offers none of the configured access providers "
        f"({', '.join(sorted(known))})",
    )


def _connection(cluster: Json, program: ExecConfig) -> Connection:
    server = text(cluster.get("server"))
    if not trusted(server) or cluster.get("insecure-skip-tls-verify"):
        raise ClusterUnusable(
            BAD_REST, "the profile's server is no https:// URL of a verified host"
        )
    if cluster.get("certificate-authority"):
        raise ClusterUnusable(
            BAD_REST, "the profile names a CA file; use certificate-authority-data"
        )
    return Connection(
        server=server.rstrip("/"),
        authority=Pem(text=Secret(_authority(cluster.get("certificate-authority-data")))),
        tls_server_name=text(cluster.get("tls-server-name")),
        proxy=text(cluster.get("proxy-url")),
        user=KubeconfigUser(plugin=_plugin(program)),
    )


def _authority(coded: object) -> str:
    try:
        return base64.b64decode(str(coded or ""), validate=True).decode()
    except (binascii.Error, ValueError):
        raise ClusterUnusable(BAD_REST, "the profile's certificate authority is not PEM") from None


def _plugin(program: ExecConfig) -> ExecPlugin:
    return ExecPlugin(
        api_version=program.api_version,
        command=program.command,
        args=tuple(program.args or ()),
        env=tuple((each.name, each.value) for each in program.env or ()),
        install_hint=program.install_hint,
        wants_cluster=program.provide_cluster_info,
    )
