# SPDX-License-Identifier: Apache-2.0
"""Client credentials: authenticates to an API server, verifies it, and renews credentials.

Token files are read again every minute, because tokens are rotated while a controller runs.
Certificates on disk are reloaded when they change. An exec plugin runs again when its credential
expires or the server rejects it.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import msgspec

from kuota.api.base import Json, Struct

from .clock import Clock
from .config import Connection, ExecPlugin, KubeconfigUser, Pem, Secret, file_text
from .errors import ConfigError

_GROUP = "client.authentication.k8s.io"
_VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
PLUGIN_TIMEOUT_S = 60.0


class PluginCredential(msgspec.Struct, frozen=True, kw_only=True):
    """The credential of an exec plugin. Without expiry it is valid until the server rejects it."""

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


async def exec_credential(plugin: ExecPlugin, connection: Connection) -> PluginCredential:
    """Run the plugin; raises ConfigError. Its stderr is passed through."""
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
        raise ConfigError(
            f"exec plugin {plugin.command} returned neither a token nor a certificate"
        )
    return PluginCredential(
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
        async with asyncio.timeout(None if interactive else PLUGIN_TIMEOUT_S):
            output, _ = await process.communicate()
    except TimeoutError:
        raise ConfigError(f"exec plugin {plugin.command} did not respond in time") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ConfigError(f"exec plugin {plugin.command} failed with exit {process.returncode}")
    return output


def question(plugin: ExecPlugin, connection: Connection, interactive: bool) -> Json:
    """Return the ExecCredential for $KUBERNETES_EXEC_INFO."""
    spec: Json = {"interactive": interactive}
    if plugin.wants_cluster:
        trusts = connection.authority and not connection.insecure
        authority = connection.authority.read() if trusts else ""
        cluster = {
            "server": connection.server,
            "insecure-skip-tls-verify": connection.insecure,
            "certificate-authority-data": base64.b64encode(authority.encode()).decode(),
            "tls-server-name": connection.tls_server_name,
            "proxy-url": connection.proxy,
        }
        spec["cluster"] = {name: value for name, value in cluster.items() if value}
    return {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}


FRESH_S = 60.0
_EARLY = timedelta(seconds=30)

Headers = list[tuple[str, str]]


class Credentials:
    """The headers and the TLS context for one connection."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._token = Secret()
        self._token_at: float | None = None
        self._credential: PluginCredential | None = None
        self._asking = asyncio.Lock()
        self._shown: tuple[object, ...] = ()
        self._trusted: tuple[object, ...] = ()
        self._trusted_at = clock.monotonic()
        self.generation = 0
        """Increases when the client certificate changes. Older connections use the old one."""
        self.context: ssl.SSLContext | None = None
        if connection.server.startswith("https://"):
            self.context = trusting(connection)
            self._trusted = _stamp(connection.authority.file)

    async def headers(self) -> Headers:
        """Return the headers for a request, and load the current client certificate."""
        await self._refresh_grant()
        self._trust_authority()
        self._show_certificate()
        proof = self._authorization()
        own = [("Authorization", proof)] if proof else []
        return own + list(self._user.impersonate)

    def doubt(self, rejected: Headers) -> bool:
        """Renew the credentials after a 401.

        Returns False if there are no newer credentials, so that a retry is pointless.
        """
        if dict(rejected).get("Authorization", "") != self._authorization():
            return True
        self._token_at = None
        had_grant, self._credential = self._credential is not None, None
        return had_grant or bool(self._user.token_file)

    @property
    def _user(self) -> KubeconfigUser:
        return self._connection.user

    def _authorization(self) -> str:
        if self._credential and self._credential.token:
            return f"Bearer {self._credential.token.reveal()}"
        token = self._bearer_token()
        if token:
            return f"Bearer {token.reveal()}"
        if self._user.username:
            pair = f"{self._user.username}:{self._user.password.reveal()}"
            return f"Basic {base64.b64encode(pair.encode()).decode()}"
        return ""

    def _bearer_token(self) -> Secret:
        """Return the token of the file, at most one minute old, or the inline token.

        If the file cannot be read, the last token is kept: it is probably being replaced.
        """
        if not self._user.token_file:
            return self._user.token
        now = self._clock.monotonic()
        if self._token_at is None or now - self._token_at >= FRESH_S:
            try:
                self._token = Secret(file_text(self._user.token_file).strip())
            except ConfigError:
                self._token = self._token or self._user.token
                if not self._token:
                    raise
            self._token_at = now
        return self._token

    async def _refresh_grant(self) -> None:
        plugin = self._user.plugin
        if plugin is None or self._valid(self._credential):
            return
        async with self._asking:
            if not self._valid(self._credential):
                self._credential = await exec_credential(plugin, self._connection)

    def _valid(self, grant: PluginCredential | None) -> bool:
        if grant is None:
            return False
        return grant.expires is None or self._clock.now() + _EARLY < grant.expires

    def _trust_authority(self) -> None:
        """Trust a new authority in addition to earlier ones, because servers rotate one by one."""
        now = self._clock.monotonic()
        if self.context is None or now - self._trusted_at < FRESH_S:
            return
        self._trusted_at = now
        try:
            stamp = _stamp(self._connection.authority.file)
            if stamp != self._trusted:
                trust(self.context, self._connection.authority)
                self._trusted = stamp
        except ConfigError:
            # It is probably being replaced, so try again at the next check.
            return

    def _show_certificate(self) -> None:
        """Load the certificate if it changed.

        If it is unusable, keep the old one: certificate and key are rarely replaced at the same
        instant.
        """
        if self.context is None:
            return
        try:
            certificate, key = self._user.certificate, self._user.key
            if self._credential and self._credential.certificate:
                certificate, key = Pem(self._credential.certificate), Pem(self._credential.key)
            if not certificate:
                return
            stamp = (certificate, _stamp(certificate.file), key, _stamp(key.file))
            if stamp != self._shown:
                show_certificate(self.context, certificate.read(), key.read())
                self.generation += bool(self._shown)
                self._shown = stamp
        except ConfigError:
            if not self._shown:
                raise


def _stamp(path: str) -> tuple[int, int]:
    """Return a value that changes with the file; constant for inline text."""
    try:
        found = os.stat(path) if path else None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error}") from None
    return (found.st_mtime_ns, found.st_ino) if found else (0, 0)


def trusting(connection: Connection) -> ssl.SSLContext:
    """Return a context that trusts the connection's authority, or the system's authorities."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if connection.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif connection.authority:
        trust(context, connection.authority)
    else:
        context.load_default_certs()
    return context


def trust(context: ssl.SSLContext, authority: Pem) -> None:
    """Trust this authority as well for new connections; raises ConfigError."""
    try:
        context.load_verify_locations(cadata=authority.read())
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"the certificate authority is unusable: {error}") from None


def show_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Use this client certificate for new connections; raises ConfigError."""
    try:
        with _file(f"{certificate.rstrip()}\n{key}") as path:
            context.load_cert_chain(path)
    except (ssl.SSLError, ValueError, OSError) as error:
        raise ConfigError(f"the client certificate is unusable: {error}") from None


@contextmanager
def _file(text: str) -> Iterator[str]:
    """Provide the text as a temporary file, because Python loads keys only from files."""
    if hasattr(os, "memfd_create"):
        # In memory: keys do not belong on disk, and a container's file system may be read-only.
        descriptor = os.memfd_create("kuota-tls", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
        return
    with tempfile.NamedTemporaryFile(prefix="kuota-") as file:
        file.write(text.encode())
        file.flush()
        yield file.name
