# SPDX-License-Identifier: Apache-2.0
"""Self-managed certificates: creation, sharing among replicas, renewal, CA bundles."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from control.fake_api import FakeApi
from kube.virtual_time import VirtualClock, run, settled
from kuota.api.base import Json, Key
from kuota.api.crds import crds
from kuota.kube.errors import Conflict, Forbidden
from kuota.kube.resources import CRDS, SECRETS, Resource, key_of
from kuota.pki.certificate import chain
from kuota.pki.serving import Chain, Pair, serving_context, trusted_until
from kuota.webhook.certificates import (
    LIFETIME,
    RENEWED_BEFORE,
    CertificateSettings,
    ManagedCertificate,
)
from kuota.webhook.injection import API_SERVICES, MUTATING, VALIDATING, trusting
from kuota.webhook.manifests import configurations

SECRET = Key("kueue-system", "kueue-webhook-server-cert")
HOST = "kueue-webhook-service.kueue-system.svc"
DAY = timedelta(days=1)


class Api(FakeApi):
    """With replacement, and what is looked at here."""

    async def replace(self, resource: Resource, obj: Json) -> Json:
        await asyncio.sleep(0)
        self._may_fail("replace", resource)
        before = self._existing(resource, key_of(obj))
        if obj["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "it has changed")
        return self._changed(resource, key_of(obj), obj)

    def managed(self) -> ManagedCertificate:
        return ManagedCertificate(self, serving_context(), clock=self.clock)

    async def install(self) -> None:
        mutating, validating = configurations()
        await self.create(MUTATING, mutating)
        await self.create(VALIDATING, validating)
        for each in crds():
            await self.create(CRDS, each)

    def stored(self) -> Chain:
        data = self._existing(SECRETS, SECRET)["data"]
        ca, crt, key = (base64.b64decode(data[each]) for each in ("ca.crt", "tls.crt", "tls.key"))
        return Chain(authority=ca, pair=Pair(crt, key))

    def bundles(self) -> set[str | None]:
        """Whom the API server trusts, wherever it is told."""
        found = [
            webhook["clientConfig"].get("caBundle")
            for each in (*self.all(MUTATING), *self.all(VALIDATING))
            for webhook in each["webhooks"]
        ]
        conversions = [each["spec"]["conversion"] for each in self.all(CRDS)]
        webhooks = [each["webhook"] for each in conversions if each["strategy"] == "Webhook"]
        return {*found, *(each["clientConfig"].get("caBundle") for each in webhooks)}


def played(story: Callable[[Api], Coroutine[Any, Any, None]]) -> None:
    """Tell a story of an API server that knows our webhooks and kinds."""
    clock = VirtualClock(datetime.now(UTC).replace(microsecond=0))

    async def whole() -> None:
        api = Api(clock)
        await api.install()
        await story(api)

    run(clock, whole())


@asynccontextmanager
async def running(managed: ManagedCertificate) -> AsyncIterator[None]:
    task = asyncio.create_task(managed.run())
    try:
        await managed.ready.wait()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def coded(given: Chain) -> str:
    return base64.b64encode(given.authority).decode()


def test_the_first_replica_creates_a_certificate_and_publishes_it() -> None:
    async def story(api: Api) -> None:
        managed = api.managed()
        await managed.refresh()
        assert managed.ready.is_set()
        kept = api.stored()
        in_a_year = api.clock.now() + timedelta(days=365)
        assert in_a_year == trusted_until(kept.pair, kept.authority, HOST)
        assert {coded(kept)} == api.bundles()
        assert managed.authority == kept.authority
        # The key of the authority is nowhere.
        secret = api.find(SECRETS, SECRET.name, SECRET.namespace) or {}
        assert {"ca.crt", "tls.crt", "tls.key"} == set(secret["data"])

    played(story)


def test_a_second_look_writes_nothing() -> None:
    async def story(api: Api) -> None:
        managed = api.managed()
        await managed.refresh()
        writes = api.writes
        await managed.refresh()
        await api.managed().refresh()
        assert writes == api.writes

    played(story)


def test_replicas_that_start_together_end_with_one_certificate() -> None:
    async def story(api: Api) -> None:
        replicas = [api.managed() for _ in range(3)]
        await asyncio.gather(*(each.refresh() for each in replicas))
        kept = api.stored()
        assert {kept.authority} == {each.authority for each in replicas}
        assert {coded(kept)} == api.bundles()
        assert 1 == api.versions(SECRETS, SECRET.name)

    played(story)


def test_an_empty_secret_as_kueue_ships_it_is_filled() -> None:
    async def story(api: Api) -> None:
        metadata = {"name": SECRET.name, "namespace": SECRET.namespace, "labels": {"a": "b"}}
        await api.create(SECRETS, {"metadata": metadata})
        replicas = [api.managed() for _ in range(2)]
        await asyncio.gather(*(each.refresh() for each in replicas))
        assert {api.stored().authority} == {each.authority for each in replicas}
        secret = api.find(SECRETS, SECRET.name, SECRET.namespace) or {}
        assert {"a": "b"} == secret["metadata"]["labels"]

    played(story)


def test_a_good_certificate_of_somebody_else_is_used() -> None:
    async def story(api: Api) -> None:
        other = chain("kueue-ca", [HOST], api.clock.now(), LIFETIME)
        await api.create(SECRETS, secret_of(other, **{"ca.key": b"k"}))
        managed = api.managed()
        await managed.refresh()
        assert other == api.stored()

    played(story)


def test_the_certificate_of_version_0_1_0_stays_in_use() -> None:
    earlier = Path(__file__).parents[1] / "pki" / "made_by_0_1_0"
    authority, certificate, key = (
        (earlier / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key")
    )

    async def story(api: Api) -> None:
        found = Chain(authority=authority, pair=Pair(certificate, key))
        await api.create(SECRETS, secret_of(found))
        managed = api.managed()
        await managed.refresh()
        assert found == api.stored()
        assert managed.authority == found.authority
        assert {coded(found)} == api.bundles()

    played(story)


def secret_of(given: Chain, **more: bytes) -> Json:
    data = {
        "ca.crt": given.authority,
        "tls.crt": given.pair.certificate,
        "tls.key": given.pair.key,
    } | more
    coded = {name: base64.b64encode(value).decode() for name, value in data.items()}
    return {"metadata": {"name": SECRET.name, "namespace": SECRET.namespace}, "data": coded}


def test_a_certificate_for_another_name_or_of_junk_is_replaced() -> None:
    async def story(api: Api) -> None:
        sound = chain("ca", [HOST], api.clock.now(), LIFETIME)
        for bad in (
            chain("ca", ["other.svc"], api.clock.now(), LIFETIME),
            Chain(authority=b"junk", pair=sound.pair),
            Chain(authority=sound.authority, pair=Pair(b"junk", b"junk")),
        ):
            await api.create(SECRETS, secret_of(bad))
            await api.managed().refresh()
            kept = api.stored()
            assert trusted_until(kept.pair, kept.authority, HOST) is not None
            await api.delete(SECRETS, SECRET)

    played(story)


def test_a_certificate_is_renewed_in_time_and_the_old_one_stays_trusted() -> None:
    async def story(api: Api) -> None:
        old = chain("ca", [HOST], api.clock.now(), RENEWED_BEFORE - DAY)
        await api.create(SECRETS, secret_of(old, **{"ca.key": b"k", "other": b"o"}))
        managed = api.managed()
        await managed.refresh()
        kept = api.stored()
        assert kept.pair != old.pair
        for pair in (kept.pair, old.pair):
            assert trusted_until(pair, kept.authority, HOST) is not None
        assert {coded(kept)} == api.bundles()
        secret = api.find(SECRETS, SECRET.name, SECRET.namespace) or {}
        assert {"ca.crt", "tls.crt", "tls.key", "other"} == set(secret["data"])

    played(story)


def test_a_running_replica_shows_what_another_one_renewed_once_that_is_trusted() -> None:
    async def story(api: Api) -> None:
        context = serving_context()
        managed = ManagedCertificate(api, context, clock=api.clock)
        async with running(managed):
            await settled()
            first = api.stored()
            assert shown(context, first)
            second = chain("kueue-ca", [HOST], api.clock.now(), LIFETIME)
            both = Chain(authority=second.authority + first.authority, pair=second.pair)
            secret = await api.get(SECRETS, SECRET)
            await api.replace(SECRETS, secret | {"data": secret_of(both)["data"]})
            await api.clock.sleep(60)
            assert {coded(both)} == api.bundles()
            assert shown(context, second)

    played(story)


def test_a_deleted_secret_is_recreated_without_interrupting_clients() -> None:
    async def story(api: Api) -> None:
        async with running(api.managed()):
            await api.clock.sleep(60)
            first = api.stored()
            await api.delete(SECRETS, SECRET)
            await api.clock.sleep(60)
            second = api.stored()
            assert first.pair != second.pair
            assert {coded(second)} == api.bundles()
            assert trusted_until(first.pair, second.authority, HOST) is not None

    played(story)


def shown(context: ssl.SSLContext, given: Chain) -> bool:
    """Whether a client that trusts this authority alone is content with what it is shown."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context(cadata=given.authority.decode())
    asking = client.wrap_bio(back, there, server_hostname=HOST)
    answering = context.wrap_bio(there, back, server_side=True)
    try:
        for side in (asking, answering, asking, answering):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    except ssl.SSLCertVerificationError:
        return False
    return True


def test_trust_that_somebody_takes_away_is_given_back() -> None:
    async def story(api: Api) -> None:
        async with running(api.managed()):
            await api.clock.sleep(60)
            wanted = {coded(api.stored())}
            assert wanted == api.bundles()
            mutating = await api.get(MUTATING, Key("", "kueue-mutating-webhook-configuration"))
            await api.replace(MUTATING, mutating | {"webhooks": configurations()[0]["webhooks"]})
            assert wanted != api.bundles()
            await api.clock.sleep(60)
            assert wanted == api.bundles()

    played(story)


def test_what_cannot_be_written_is_tried_again() -> None:
    async def story(api: Api) -> None:
        api.refuse["create", "Secret"] = [Forbidden(403, "Forbidden", "no")] * 3
        async with running(api.managed()):
            assert {coded(api.stored())} != {None}

    played(story)


def test_names_in_a_certificate_are_those_of_the_service() -> None:
    settings = CertificateSettings(namespace="ns", service="svc", hosts=("127.0.0.1",))
    assert ("svc.ns.svc", "svc.ns", "svc.ns.svc.cluster.local", "127.0.0.1") == settings.names


def test_only_what_names_a_webhook_gets_a_ca_bundle() -> None:
    plain = next(each for each in crds() if each["spec"]["conversion"]["strategy"] == "None")
    assert plain is trusting(plain, "b")
    for each in configurations():
        updated = trusting(each, "b")
        assert {"b"} == {webhook["clientConfig"]["caBundle"] for webhook in updated["webhooks"]}
        assert updated is trusting(updated, "b")


def test_an_aggregated_api_has_a_certificate_of_its_own_in_the_same_secret() -> None:
    name = "v1beta2.visibility.kueue.x-k8s.io"
    spec = {"group": "visibility.kueue.x-k8s.io", "version": "v1beta2"}
    service = {"kind": API_SERVICES.kind, "metadata": {"name": name}, "spec": spec}

    async def story(api: Api) -> None:
        await api.create(API_SERVICES, service)
        context = serving_context()
        hooks = api.managed()
        wanted = CertificateSettings(service="lines", api_services=(name,), entry="visibility-")
        lines = ManagedCertificate(api, context, wanted, api.clock)
        await hooks.refresh()
        before = api.stored()
        await lines.refresh()
        assert before == api.stored()
        data = api._existing(SECRETS, SECRET)["data"]
        coded = data["visibility-ca.crt"]
        assert coded == api._existing(API_SERVICES, Key("", name))["spec"]["caBundle"]
        kept = Pair(*(base64.b64decode(data[f"visibility-tls.{each}"]) for each in ("crt", "key")))
        assert trusted_until(kept, base64.b64decode(coded), "lines.kueue-system.svc") is not None

    played(story)


def test_an_api_service_that_trusts_anybody_is_left_alone() -> None:
    trusting_all = {"kind": "APIService", "spec": {"insecureSkipTLSVerify": True}}
    assert trusting_all is trusting(trusting_all, "bundle")
