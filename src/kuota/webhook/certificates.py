# SPDX-License-Identifier: Apache-2.0
"""The serving certificate: a self-managed one, or one provided in a directory.

A self-managed certificate is kept in a Secret, renewed, and published to the API server. All
replicas share the Secret: a replica that finds the certificate missing, invalid or about to expire
creates a new one, and a replica that loses the race uses the winner's.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import logging
import ssl
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import msgspec

from kuota.api.backoff import Backoff
from kuota.api.base import Json, Key
from kuota.failures import report
from kuota.kube.client import Client
from kuota.kube.clock import Clock, SystemClock, within
from kuota.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kuota.kube.informer import Informer
from kuota.kube.resources import SECRETS, Resource
from kuota.pki.serving import BadCertificate, Chain, Pair, show, trusted_until, unexpired

from .injection import CaBundleTarget, ca_bundle_targets, essence, inject, trusts
from .manifests import NAMESPACE, SERVICE

SECRET = "kueue-webhook-server-cert"
AUTHORITY = "kueue-ca"
LIFETIME = timedelta(days=365)
RENEWED_BEFORE = timedelta(days=90)
LOOKED_AT_EVERY_S = 12 * 3600.0
FILES_LOOKED_AT_EVERY_S = 1.0
SETTLING_S = 2.0
"""How long an API server may take to notice a new CA bundle."""
_PAUSE = Backoff(base=250, cap=30_000)
_log = logging.getLogger(__name__)


class CertificateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The location of the certificate and its names: `hosts` are names besides the service's.

    `api_services` is set if the service serves an aggregated API instead of webhooks. `entry` is
    the prefix of the keys in the Secret, so that several certificates fit into one.
    """

    namespace: str = NAMESPACE
    secret: str = SECRET
    service: str = SERVICE
    hosts: tuple[str, ...] = ()
    api_services: tuple[str, ...] = ()
    entry: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the server; API servers use the first."""
        name = f"{self.service}.{self.namespace}"
        return (f"{name}.svc", name, f"{name}.svc.cluster.local", *self.hosts)


class ManagedCertificate:
    """A certificate that is created, stored in a Secret, renewed, and published.

    `client` must be able to write at any time, because every replica serves, not only the leader.
    `ready` is set once there is a certificate.
    """

    def __init__(
        self,
        client: Client,
        context: ssl.SSLContext,
        settings: CertificateSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.ready = asyncio.Event()
        self._client = client
        self._context = context
        self._settings = settings or CertificateSettings()
        self._clock = clock or SystemClock()
        self._shown: Chain | None = None
        self._changed = asyncio.Event()
        self._places = {
            each: self._informer(each.resource, each.name, essence)
            for each in ca_bundle_targets(self._settings.api_services)
        }
        # Only changes of the Secret matter, so its content is not cached.
        self._secret = self._informer(
            SECRETS, self._settings.secret, lambda secret: {}, self._settings.namespace
        )

    def _informer(
        self,
        resource: Resource,
        name: str,
        decode: Callable[[Json], Json],
        namespace: str | None = None,
    ) -> Informer[Json]:
        """Watch one object."""
        return Informer(
            self._client,
            resource,
            namespace,
            field_selector=f"metadata.name={name}",
            decode=decode,
            clock=self._clock,
        )

    @property
    def authority(self) -> bytes:
        """Return the CA certificates that clients should trust, in PEM; empty before ready."""
        return self._shown.authority if self._shown is not None else b""

    async def run(self) -> None:
        """Manage the certificate until cancelled."""
        async with asyncio.TaskGroup() as group:
            for each in (self._secret, *self._places.values()):
                each.observe(lambda old, new: self._changed.set())
                group.create_task(each.run())
            failures = 0
            while True:
                self._changed.clear()
                try:
                    await self.refresh()
                    failures, wait_s = 0, LOOKED_AT_EVERY_S
                except Exception as error:
                    failures += 1
                    wait_s = _PAUSE.wait(failures) / 1000
                    _explain(error)
                with contextlib.suppress(TimeoutError):
                    await within(self._clock, wait_s, self._changed.wait())

    async def refresh(self) -> None:
        """Reconcile Secret, CA bundles and TLS context; raises KubeError."""
        kept = await self._kept()
        serving = self._shown is not None and self.ready.is_set()
        if not serving:
            self._show(kept)
        bundle = base64.b64encode(kept.authority).decode()
        for place, follower in self._places.items():
            if not _trusted(follower, place, bundle):
                await inject(self._client, place, bundle)
        if serving and kept != self._shown:
            # Clients that do not trust the new CA yet would reject the new certificate.
            await self._clock.sleep(SETTLING_S)
            self._show(kept)

    def _show(self, kept: Chain) -> None:
        show(self._context, kept.pair)
        self._shown = kept
        self.ready.set()

    async def _kept(self) -> Chain:
        """Return the certificate in the Secret, creating it if there is no valid one."""
        settings = self._settings
        while True:
            try:
                secret = await self._client.get(SECRETS, Key(settings.namespace, settings.secret))
            except NotFound:
                secret = None
            kept = _stored(secret, settings.entry)
            if kept is not None and self._good(kept):
                return kept
            made = self._renewed(kept or self._shown)
            try:
                await self._store(secret, made)
            except (Conflict, AlreadyExists):
                # Another replica was faster, and its certificate is just as good.
                continue
            _log.info("created a certificate for %s", settings.names[0])
            return made

    def _good(self, kept: Chain) -> bool:
        due = self._clock.now() + RENEWED_BEFORE
        host = self._settings.names[0]
        ends = (
            trusted_until(kept.pair, each, host)
            for each in unexpired(kept.authority, self._clock.now())
        )
        return any(end is not None and end > due for end in ends)

    def _renewed(self, kept: Chain | None) -> Chain:
        """Return a new certificate. Its CA bundle includes the earlier authorities."""
        from kuota.pki.certificate import chain

        now = self._clock.now()
        made = chain(AUTHORITY, self._settings.names, now, LIFETIME)
        before = unexpired(kept.authority, now)[:1] if kept is not None else []
        return Chain(authority=b"".join([made.authority, *before]), pair=made.pair)

    async def _store(self, secret: Json | None, made: Chain) -> None:
        settings = self._settings
        data = {
            "ca.crt": made.authority,
            "tls.crt": made.pair.certificate,
            "tls.key": made.pair.key,
        }
        coded = {
            f"{settings.entry}{name}": base64.b64encode(value).decode()
            for name, value in data.items()
        }
        if secret is None:
            metadata = {"name": settings.secret, "namespace": settings.namespace}
            new = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": coded}
            await self._client.create(SECRETS, new)
            return
        # The key of another replica's authority is no longer needed.
        useless = f"{settings.entry}ca.key"
        others = {k: v for k, v in (secret.get("data") or {}).items() if k != useless}
        await self._client.replace(SECRETS, secret | {"data": others | coded})


def _explain(error: Exception) -> None:
    if isinstance(error, KubeError):
        _log.warning("cannot manage the certificate of the webhooks: %s", error)
    else:
        report("certificate", error, "managing the certificate of the webhooks failed")


def _trusted(follower: Informer[Json], place: CaBundleTarget, bundle: str) -> bool:
    """Whether the object trusts the bundle or does not exist."""
    if not follower.synced.is_set():
        return False
    found = follower.get(Key("", place.name))
    return found is None or trusts(found, bundle)


def _stored(secret: Json | None, entry: str) -> Chain | None:
    """Return the certificate in a Secret; None if it is incomplete."""
    data = (secret or {}).get("data") or {}
    try:
        authority, certificate, key = (
            base64.b64decode(data[f"{entry}{name}"], validate=True)
            for name in ("ca.crt", "tls.crt", "tls.key")
        )
    except (KeyError, TypeError, binascii.Error):
        return None
    return Chain(authority=authority, pair=Pair(certificate, key))


class CertificateDirectory:
    """Keeps a TLS context up to date with `tls.crt` and `tls.key` in a directory.

    `ready` is set once there is a certificate. Changed files are read again, both or neither.
    """

    def __init__(
        self, directory: str | Path, context: ssl.SSLContext, clock: Clock | None = None
    ) -> None:
        self.ready = asyncio.Event()
        self._files = (Path(directory) / "tls.crt", Path(directory) / "tls.key")
        self._context = context
        self._clock = clock or SystemClock()
        self._seen: tuple[object, ...] = ()
        self._reported = ""

    async def run(self) -> NoReturn:
        """Watch the files until cancelled."""
        while True:
            self.look()
            await self._clock.sleep(FILES_LOOKED_AT_EVERY_S)

    def look(self) -> None:
        """Load the current certificate if it changed and is valid."""
        try:
            stats = [each.stat() for each in self._files]
            seen = tuple((each.st_mtime_ns, each.st_ino, each.st_size) for each in stats)
            if seen == self._seen:
                return
            certificate, key = (each.read_bytes() for each in self._files)
            show(self._context, Pair(certificate, key))
        except (OSError, BadCertificate) as error:
            # A pair does not match while it is being replaced, so it is read again later.
            self._tell(f"no usable certificate in {self._files[0].parent}: {error}")
            return
        self._seen, self._reported = seen, ""
        self.ready.set()

    def _tell(self, message: str) -> None:
        if message != self._reported:
            _log.warning("%s", message)
            self._reported = message
