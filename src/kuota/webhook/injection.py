# SPDX-License-Identifier: Apache-2.0
"""Publishes the CA bundle: writes it into the objects that reference our webhooks.

Only that field is changed, and only if it differs. Objects are replaced instead of patched, because
Kueue's roles allow only that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kuota.api.base import Json, Key
from kuota.api.crds import GROUP, KINDS
from kuota.kube.client import Client
from kuota.kube.errors import Conflict, NotFound
from kuota.kube.resources import CRDS, Resource

from .manifests import MUTATING_NAME, VALIDATING_NAME


def _of_cluster(group: str, plural: str, kind: str) -> Resource:
    return Resource(group, "v1", plural, kind, namespaced=False)


_ADMISSION = "admissionregistration.k8s.io"
MUTATING = _of_cluster(_ADMISSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration")
VALIDATING = _of_cluster(
    _ADMISSION, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"
)
API_SERVICES = _of_cluster("apiregistration.k8s.io", "apiservices", "APIService")


class CaBundleTarget(msgspec.Struct, frozen=True):
    """An object with a CA bundle."""

    resource: Resource
    name: str


def ca_bundle_targets(api_services: tuple[str, ...] = ()) -> Iterator[CaBundleTarget]:
    """Yield the named APIServices or, without any, the webhook configurations and CRDs."""
    if api_services:
        yield from (CaBundleTarget(API_SERVICES, each) for each in api_services)
        return
    yield CaBundleTarget(MUTATING, MUTATING_NAME)
    yield CaBundleTarget(VALIDATING, VALIDATING_NAME)
    for kind in KINDS:
        if kind.converted:
            yield CaBundleTarget(CRDS, f"{kind.plural}.{GROUP}")


def trusting(obj: Json, bundle: str) -> Json:
    """Return the object with the CA bundle (base64) at every webhook; unchanged if it has it.

    A CRD without a conversion webhook is left as it is, and so is an APIService with
    insecureSkipTLSVerify, which must not have a CA bundle.
    """
    if obj.get("kind") == API_SERVICES.kind:
        return obj if _trusts_anybody(obj) else _within(obj, ("spec",), bundle)
    if obj.get("kind") == CRDS.kind:
        converted: Json = _within(obj, ("spec", "conversion", "webhook", "clientConfig"), bundle)
        return converted
    webhooks = obj.get("webhooks") or []
    trusted = [_within(each, ("clientConfig",), bundle) for each in webhooks]
    unchanged = all(new is old for new, old in zip(trusted, webhooks, strict=True))
    return obj if unchanged else obj | {"webhooks": trusted}


def trusts(obj: Json, bundle: str) -> bool:
    """Whether the object has the CA bundle, or no field for it."""
    return trusting(obj, bundle) is obj


def essence(obj: Json) -> Json:
    """Return the part of the object that `trusts` reads."""
    if obj.get("kind") == CRDS.kind:
        conversion = (obj.get("spec") or {}).get("conversion")
        return {"kind": CRDS.kind, "spec": {"conversion": conversion}}
    if obj.get("kind") == API_SERVICES.kind:
        return {"kind": API_SERVICES.kind, "spec": obj.get("spec")}
    webhooks = obj.get("webhooks") or []
    return {"webhooks": [{"clientConfig": each.get("clientConfig")} for each in webhooks]}


def _trusts_anybody(service: Json) -> bool:
    return bool((service.get("spec") or {}).get("insecureSkipTLSVerify"))


def _within(obj: Any, path: tuple[str, ...], bundle: str) -> Any:
    if not isinstance(obj, dict):
        return obj
    if not path:
        return obj if obj.get("caBundle") == bundle else obj | {"caBundle": bundle}
    inner = _within(obj.get(path[0]), path[1:], bundle)
    return obj if inner is obj.get(path[0]) else obj | {path[0]: inner}


async def inject(client: Client, place: CaBundleTarget, bundle: str) -> bool:
    """Write the CA bundle. Returns whether that was needed. A missing object is not an error."""
    while True:
        try:
            found = await client.get(place.resource, Key("", place.name))
            wanted = trusting(found, bundle)
            if wanted is found:
                return False
            await client.replace(place.resource, wanted)
            return True
        except NotFound:
            return False
        except Conflict:
            # Another writer changed it, perhaps another replica with the same bundle.
            continue
