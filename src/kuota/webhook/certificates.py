# SPDX-License-Identifier: Apache-2.0
"""A certificate of our own: made, kept in a Secret, renewed, and made known to the API server.

All replicas share the Secret: whoever finds what is in it missing, bad or about to expire makes a
new one, and whoever loses the race to store it takes the winner's. A certificate that others
provide in a directory is the business of `kuota.webhook.certificate_files`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import logging
import ssl
from datetime import timedelta

import msgspec

from kuota.api.backoff import Backoff
from kuota.api.base import Json, Key
from kuota.failures import report
from kuota.kube.client import Client
from kuota.kube.clock import Clock, SystemClock, within
from kuota.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kuota.kube.informer import Informer
from kuota.kube.resources import SECRETS
from kuota.pki.serving import Chain, Pair, show, trusted_until, unexpired

from .injection import Place, essence, inject, places, trusts
from .manifests import NAMESPACE, PREFIX, SERVICE

SECRET = "kueue-webhook-server-cert"
AUTHORITY = "kueue-ca"
LIFETIME = timedelta(days=365)
RENEWED_BEFORE = timedelta(days=90)
LOOKED_AT_EVERY_S = 12 * 3600.0
SETTLING_S = 2.0
"""How long an API server may take to notice whom to trust."""
_PAUSE = Backoff(base=250, cap=30_000)
_log = logging.getLogger(__name__)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the certificate lies, and for whom it is: `hosts` are names besides the service's.

    `prefix` is that of the names of the webhook configurations. `api_services` are given where the
    service is that of an aggregated API instead. `entry` begins the names under which the Secret
    holds it, so that several fit in one.
    """

    namespace: str = NAMESPACE
    secret: str = SECRET
    service: str = SERVICE
    hosts: tuple[str, ...] = ()
    prefix: str = PREFIX
    api_services: tuple[str, ...] = ()
    entry: str = ""
    lifetime: timedelta = LIFETIME
    renewed_before: timedelta = RENEWED_BEFORE

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the server; API servers use the first."""
        name = f"{self.service}.{self.namespace}"
        return (f"{name}.svc", name, f"{name}.svc.cluster.local", *self.hosts)


class Managed:
    """A certificate that is made, kept in a Secret, renewed, and made known to the API server.

    `client` must be one that may write at any time: every replica serves, not the leader alone.
    `ready` is set once there is a certificate.
    """

    def __init__(
        self,
        client: Client,
        context: ssl.SSLContext,
        settings: Settings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.ready = asyncio.Event()
        self._client = client
        self._context = context
        self._settings = settings or Settings()
        self._clock = clock or SystemClock()
        self._shown: Chain | None = None
        self._changed = asyncio.Event()
        named = places(self._settings.prefix, self._settings.api_services)
        self._places = {each: self._follower(each) for each in named}
        self._secret: Informer[Json] = Informer(
            client,
            SECRETS,
            self._settings.namespace,
            field_selector=f"metadata.name={self._settings.secret}",
            decode=_nameless,
            clock=self._clock,
        )

    def _follower(self, place: Place) -> Informer[Json]:
        selector = f"metadata.name={place.name}"
        return Informer(
            self._client,
            place.resource,
            field_selector=selector,
            decode=essence,
            clock=self._clock,
        )

    @property
    def authority(self) -> bytes:
        """The certificates that clients of this server should trust, in PEM; empty before ready."""
        return self._shown.authority if self._shown is not None else b""

    async def run(self) -> None:
        """Look after the certificate until cancelled."""
        async with asyncio.TaskGroup() as group:
            for each in (self._secret, *self._places.values()):
                each.observe(self._note)
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
        """Bring Secret, trust and context in line with each other; raises KubeError."""
        kept = await self._kept()
        serving = self._shown is not None and self.ready.is_set()
        if not serving:
            self._show(kept)
        bundle = base64.b64encode(kept.authority).decode()
        for place, follower in self._places.items():
            if not _trusted(follower, place, bundle):
                await inject(self._client, place, bundle)
        if serving and kept != self._shown:
            # Connections with the new certificate are refused by who does not trust it yet.
            await self._clock.sleep(SETTLING_S)
            self._show(kept)

    def _note(self, old: Json | None, new: Json | None) -> None:
        self._changed.set()

    def _show(self, kept: Chain) -> None:
        show(self._context, kept.pair)
        self._shown = kept
        self.ready.set()

    async def _kept(self) -> Chain:
        """The certificate in the Secret, which is put there first if there is no good one."""
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
                # Another replica was faster: what it made is just as good.
                continue
            _log.info("made a certificate for %s", settings.names[0])
            return made

    def _good(self, kept: Chain) -> bool:
        due = self._clock.now() + self._settings.renewed_before
        host = self._settings.names[0]
        ends = (
            trusted_until(kept.pair, each, host)
            for each in unexpired(kept.authority, self._clock.now())
        )
        return any(end is not None and end > due for end in ends)

    def _renewed(self, kept: Chain | None) -> Chain:
        """A new certificate; whoever trusts its authority trusts those of before as well."""
        from kuota.pki.certificate import chain

        now = self._clock.now()
        made = chain(AUTHORITY, self._settings.names, now, self._settings.lifetime)
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
        # The key of an authority that somebody else made has no use any more.
        useless = f"{settings.entry}ca.key"
        others = {k: v for k, v in (secret.get("data") or {}).items() if k != useless}
        await self._client.replace(SECRETS, secret | {"data": others | coded})


def _explain(error: Exception) -> None:
    if isinstance(error, KubeError):
        _log.warning("the webhooks' certificate cannot be looked after: %s", error)
    else:
        report("certificate", error, "looking after the webhooks' certificate failed")


def _trusted(follower: Informer[Json], place: Place, bundle: str) -> bool:
    """Whether the object is known to trust the bundle, or not to be there."""
    if not follower.synced.is_set():
        return False
    found = follower.get(Key("", place.name))
    return found is None or trusts(found, bundle)


def _nameless(secret: Json) -> Json:
    """Nothing of the Secret: only that it changed is of interest."""
    return {}


def _stored(secret: Json | None, entry: str) -> Chain | None:
    """What a Secret holds; None when it is incomplete."""
    data = (secret or {}).get("data") or {}
    try:
        authority, certificate, key = (
            base64.b64decode(data[f"{entry}{name}"], validate=True)
            for name in ("ca.crt", "tls.crt", "tls.key")
        )
    except (KeyError, TypeError, binascii.Error):
        return None
    return Chain(authority=authority, pair=Pair(certificate, key))
