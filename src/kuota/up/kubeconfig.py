# SPDX-License-Identifier: Apache-2.0
"""Writes kubeconfig files for the control plane of this machine. Only their owner can read them."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from kuota.api.base import Json

NAME = "kuota"


def write(path: Path, server: str, token: str, authority: bytes) -> None:
    """Write a kubeconfig with one context, trusting the certificate `authority` (PEM)."""
    replace(path, content(cluster(server, authority), token))


def cluster(server: str, authority: bytes) -> Json:
    """A cluster entry. Without an authority, clients trust what the machine trusts."""
    found: Json = {"server": server}
    if authority:
        found["certificate-authority-data"] = base64.b64encode(authority).decode()
    return found


def cluster_of(path: Path) -> Json | None:
    """The cluster entry of a kubeconfig written by this module; None if there is no such file."""
    try:
        found: Json = yaml.safe_load(path.read_text(encoding="utf-8"))["clusters"][0]["cluster"]
    except (OSError, ValueError, LookupError, TypeError, yaml.YAMLError):
        return None
    return found


def token_of(path: Path) -> str:
    """The token in a kubeconfig written by this module; "" if there is none."""
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))["users"][0]["user"]["token"]
    except (OSError, ValueError, LookupError, TypeError, yaml.YAMLError):
        return ""
    return found if isinstance(found, str) else ""


def port_of(path: Path) -> int:
    """The port in a kubeconfig written by this module; 0 if there is none."""
    try:
        return urlsplit(str((cluster_of(path) or {}).get("server", ""))).port or 0
    except ValueError:
        return 0


def content(cluster: Json, token: str, namespace: str = "") -> str:
    """The text of a kubeconfig with one context."""
    context: Json = {"cluster": NAME, "user": NAME}
    if namespace:
        context["namespace"] = namespace
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": context}],
    }
    return yaml.safe_dump(whole, sort_keys=False)


def replace(path: Path, text: str) -> None:
    """Replace the file atomically; only the owner can read it."""
    temporary = path.with_suffix(".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    temporary.replace(path)
