# SPDX-License-Identifier: Apache-2.0
"""Writes the kubeconfig of a worker cluster: one context, and no references to files."""

from __future__ import annotations

import base64

import yaml

from kuota.api.base import Json
from kuota.kube.config import Connection, Pem, file_text

from .kubeconfig import INSECURE, ClusterUnusable


def kubeconfig_text(connection: Connection) -> str:
    """Return a kubeconfig with the content of all files. Raises ClusterUnusable and ConfigError."""
    user = connection.user
    if user.plugin is not None or user.username or user.password:
        raise ClusterUnusable(
            INSECURE,
            "it runs a program or uses a password for authentication; create a kubeconfig with a "
            "token or a client certificate",
        )
    if connection.insecure:
        raise ClusterUnusable(INSECURE, "it skips TLS verification; add certificate-authority-data")
    token = user.token.reveal() or (file_text(user.token_file) if user.token_file else "")
    entry: Json = {"token": token.strip()} if token else {}
    entry |= _coded("client-certificate-data", user.certificate)
    entry |= _coded("client-key-data", user.key)
    cluster: Json = {"server": connection.server}
    cluster |= _coded("certificate-authority-data", connection.authority)
    for name, value in (
        ("tls-server-name", connection.tls_server_name),
        ("proxy-url", connection.proxy),
    ):
        if value:
            cluster[name] = value
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "worker",
            "contexts": [{"name": "worker", "context": {"cluster": "worker", "user": "manager"}}],
            "clusters": [{"name": "worker", "cluster": cluster}],
            "users": [{"name": "manager", "user": entry}],
        },
        sort_keys=False,
    )


def _coded(name: str, pem: Pem) -> Json:
    return {name: base64.b64encode(pem.read().encode()).decode()} if pem else {}
