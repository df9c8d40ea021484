# SPDX-License-Identifier: Apache-2.0
"""Runs the program that a kubeconfig names for credentials, and reads what it prints."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from datetime import datetime

import msgspec

from kuota.api.base import Json, Struct

from .config import Connection, ExecPlugin, Secret
from .errors import ConfigError

_GROUP = "client.authentication.k8s.io"
_VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
TIMEOUT_S = 60.0


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What a plugin gave. No expiry means until the server refuses it."""

    token: Secret = Secret()
    certificate: Secret = Secret()
    key: Secret = Secret()
    expires: datetime | None = None


class _Status(Struct):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(Struct):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


async def granted(plugin: ExecPlugin, connection: Connection) -> Grant:
    """Ask the plugin; raises ConfigError. What it prints to stderr goes to our user."""
    if plugin.api_version not in _VERSIONS:
        raise ConfigError(
            f"exec plugin {plugin.command}: apiVersion {plugin.api_version!r} is not one of "
            f"{', '.join(_VERSIONS)}"
        )
    output = await _output(plugin, connection)
    try:
        said = msgspec.json.decode(output, type=_ExecCredential)
    except msgspec.DecodeError as error:
        raise ConfigError(f"exec plugin {plugin.command} printed no credential: {error}") from None
    status = said.status or _Status()
    if said.api_version != plugin.api_version:
        raise ConfigError(
            f"exec plugin {plugin.command} answered in {said.api_version!r}, "
            f"was asked in {plugin.api_version}"
        )
    if not status.token and not (status.client_certificate_data and status.client_key_data):
        raise ConfigError(f"exec plugin {plugin.command} gave neither a token nor a certificate")
    return Grant(
        token=Secret(status.token),
        certificate=Secret(status.client_certificate_data),
        key=Secret(status.client_key_data),
        expires=status.expiration_timestamp,
    )


async def _output(plugin: ExecPlugin, connection: Connection) -> bytes:
    interactive = plugin.interactive and sys.stdin is not None and sys.stdin.isatty()
    environment = dict(os.environ) | dict(plugin.env)
    environment["KUBERNETES_EXEC_INFO"] = msgspec.json.encode(
        question(plugin, connection, interactive)
    ).decode()
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
        )
    except OSError as error:
        hint = f"; {plugin.install_hint.strip()}" if plugin.install_hint else ""
        raise ConfigError(f"cannot run exec plugin {plugin.command}: {error}{hint}") from None
    try:
        async with asyncio.timeout(None if interactive else TIMEOUT_S):
            output, _ = await process.communicate()
    except TimeoutError:
        raise ConfigError(f"exec plugin {plugin.command} gave no answer in time") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ConfigError(f"exec plugin {plugin.command} failed with exit {process.returncode}")
    return output


def question(plugin: ExecPlugin, connection: Connection, interactive: bool) -> Json:
    """The ExecCredential that a plugin finds in $KUBERNETES_EXEC_INFO."""
    spec: Json = {"interactive": interactive}
    if plugin.wants_cluster:
        cluster: Json = {"server": connection.server}
        if connection.insecure:
            cluster["insecure-skip-tls-verify"] = True
        elif connection.authority:
            coded = base64.b64encode(connection.authority.read().encode()).decode()
            cluster["certificate-authority-data"] = coded
        if connection.tls_server_name:
            cluster["tls-server-name"] = connection.tls_server_name
        if connection.proxy:
            cluster["proxy-url"] = connection.proxy
        spec["cluster"] = cluster
    return {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
