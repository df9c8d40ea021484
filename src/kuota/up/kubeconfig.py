# SPDX-License-Identifier: Apache-2.0
"""The kubeconfig with which kubectl and others reach an installation, for its owner alone."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import yaml

NAME = "kuota"


def write(path: Path, server: str, token: str, authority: bytes) -> None:
    """Write a kubeconfig with one context, trusting the certificate `authority` (PEM).

    Replaces what was there, at once and whole.
    """
    cluster = {
        "server": server,
        "certificate-authority-data": base64.b64encode(authority).decode(),
    }
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
    }
    temporary = path.with_suffix(".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        yaml.safe_dump(content, file, sort_keys=False)
    temporary.replace(path)
