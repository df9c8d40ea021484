# SPDX-License-Identifier: Apache-2.0
"""Reads and checks the kubeconfig of a worker cluster. No message contains a part of it. Pure.

Whoever may write a MultiKueueCluster or its Secret must not gain the rights of the manager's
process. So a kubeconfig may neither name files, which would be read with these rights, nor programs
to run. It must also not make the connection insecure.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from kuota.api import names
from kuota.api.base import Json
from kuota.api.manifest_yaml import scanned
from kuota.api.rules.report import elements, mapping, text
from kuota.kube.config import Connection, from_text
from kuota.kube.errors import ConfigError
from kuota.loopback import is_loopback


class ClusterUnusable(Exception):
    """A MultiKueueCluster cannot be used. `reason` is that of its condition Active."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


BAD, INSECURE = "BadKubeConfig", "InsecureKubeConfig"


def accepted(content: str) -> Connection:
    """Return the connection of a kubeconfig. Raises ClusterUnusable with all faults."""
    root = _root(content)
    faults = [*_cluster_faults(root), *_user_faults(root)]
    if faults:
        raise ClusterUnusable(INSECURE, "the kubeconfig is not allowed: " + "; ".join(faults))
    try:
        found = from_text(content, "kubeconfig")
    except (ConfigError, TypeError, ValueError, AttributeError, KeyError):
        raise ClusterUnusable(BAD, _incomplete(root)) from None
    if not trusted(found.server):
        raise ClusterUnusable(
            INSECURE, "the kubeconfig is not allowed: the server is no https:// URL of a host"
        )
    return found


def _root(content: str) -> Json:
    found = scanned(content)
    if len(found) != 1 or found[0].errors or not isinstance(found[0].value, dict):
        # The parser's message may quote the text.
        raise ClusterUnusable(
            BAD, "the kubeconfig is not one YAML document with fields; replace it"
        )
    root: Json = found[0].value
    return root


def _incomplete(root: Json) -> str:
    if not text(root.get("current-context")):
        return "the kubeconfig has no current-context; set it"
    return (
        "the kubeconfig is incomplete: its current-context must name a context, whose cluster has "
        "a server and whose user exists, and certificates must be base64-encoded PEM"
    )


def _entries(root: Json, kind: str) -> Iterator[tuple[int, Json]]:
    for index, each in enumerate(elements(root.get(f"{kind}s"))):
        yield index, mapping(mapping(each).get(kind))


def _cluster_faults(root: Json) -> Iterator[str]:
    for index, cluster in _entries(root, "cluster"):
        at = f"clusters[{index}]"
        if _set(cluster.get("insecure-skip-tls-verify")):
            yield f"{at} skips TLS verification; use certificate-authority-data"
        if _set(cluster.get("certificate-authority")):
            yield f"{at} names a CA file; use certificate-authority-data"
        if not _set(cluster.get("server")):
            yield f"{at} has no server"


_USER_FAULTS = {
    "tokenFile": "names a token file; use token",
    "client-certificate": "names a certificate file; use client-certificate-data",
    "client-key": "names a key file; use client-key-data",
    "username": "uses basic authentication; use token or a client certificate",
    "password": "uses basic authentication; use token or a client certificate",
    "exec": "runs a program; use token or a client certificate",
    "auth-provider": "uses an auth provider; use token or a client certificate",
}


def _user_faults(root: Json) -> Iterator[str]:
    for index, user in _entries(root, "user"):
        found = [why for name, why in _USER_FAULTS.items() if _set(user.get(name))]
        yield from (f"users[{index}] {why}" for why in dict.fromkeys(found))


def _set(value: Any) -> bool:
    return value not in (None, "", False)


def trusted(server: str) -> bool:
    """Whether the server has a valid host, and credentials are not sent in clear text."""
    try:
        parts = urlsplit(server.lower())
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        return False
    if parts.username or parts.password:
        return False
    return _is_address(host) or (bool(host) and not names.dns_subdomain(host))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
