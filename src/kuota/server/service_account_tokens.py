# SPDX-License-Identifier: Apache-2.0
"""Tokens of service accounts (`kubectl create token`). Only their digests are stored.

A token gives its bearer the role of a member in the namespace of the service account, and nothing
elsewhere, so nobody gains anything by creating one. It is valid as long as the user who created it
could create it again: revoking that user's own token, or moving the namespace to another team, ends
it. It also ends with its lifetime and with the service account. It cannot create further tokens.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

import msgspec

from kuota.api.base import Json, Key
from kuota.api.status import StatusError

from .auth import SERVICE_ACCOUNTS, AccessAttributes, Roles
from .columns import mapped
from .metadata import timestamp
from .requests import User
from .store import Store
from .tokens import EVERYBODY

PREFIX = "kuota-sa."
SHORTEST_S, DEFAULT_S, LONGEST_S = 600, 3600, 24 * 3600
MOST_PER_NAMESPACE = 200
_RESOURCE = "serviceaccount-tokens"
"""Not the name of a served kind, and never that of a custom one, which contains a dot."""


class Issued(msgspec.Struct, frozen=True):
    """A new token, which is not stored, and its end."""

    token: str
    expires: datetime


class TokenRecord(msgspec.Struct, frozen=True):
    """What is stored about a token."""

    account: str
    account_uid: str
    issuer: str
    issuer_uid: str
    expires: float


class ServiceAccountTokens:
    """Issues and checks tokens. `current` returns the present users of a name and uid."""

    def __init__(
        self,
        store: Store,
        roles: Roles,
        clock: Callable[[], datetime],
        current: Callable[[str, str], Iterable[User]],
    ) -> None:
        self._store = store
        self._roles = roles
        self._clock = clock
        self._current = current

    def issue(
        self, account: Json, issuer: User, wanted_s: int | None, *, dry_run: bool = False
    ) -> Issued:
        """Create a token. The caller is authorized. Raises StatusError for too many tokens.

        A dry run stores nothing and returns an empty token.
        """
        now = self._clock()
        place = account["metadata"]["namespace"]
        expires = now + timedelta(seconds=min(wanted_s or DEFAULT_S, LONGEST_S))
        if dry_run:
            return Issued("", expires)
        self._make_room(place)
        # The namespace, which has no dots, tells where to look the token up.
        token = f"{PREFIX}{place}.{secrets.token_urlsafe(32)}"
        record = TokenRecord(
            account=account["metadata"]["name"],
            account_uid=account["metadata"]["uid"],
            issuer=issuer.name,
            issuer_uid=issuer.uid,
            expires=expires.timestamp(),
        )
        named = {"name": _digest(token), "namespace": place}
        self._store.create(_RESOURCE, {"metadata": named, "spec": msgspec.to_builtins(record)})
        return Issued(token, expires)

    def user(self, token: str) -> User | None:
        """The service account with this token; None if the token is not valid any more."""
        if not token.isascii():
            return None
        place = token.removeprefix(PREFIX).partition(".")[0]
        found = self._store.get(_RESOURCE, Key(place, _digest(token)))
        if found is None:
            return None
        record = msgspec.convert(found["spec"], TokenRecord)
        if not self._lives(place, record) or not self._may_issue(place, record):
            return None
        name = f"system:serviceaccount:{place}:{record.account}"
        # Its jobs run as the user who created the token, but never as root.
        uid = record.issuer_uid if record.issuer_uid != "0" else ""
        groups = (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{place}", EVERYBODY)
        return User(name, groups, uid, record.issuer)

    def _lives(self, namespace: str, record: TokenRecord) -> bool:
        """Whether the token has not expired and its account still exists."""
        account = self._store.get("serviceaccounts", Key(namespace, record.account))
        exists = account is not None and account["metadata"]["uid"] == record.account_uid
        return exists and self._clock().timestamp() < record.expires

    def _may_issue(self, namespace: str, record: TokenRecord) -> bool:
        """Whether the issuer could create the token now."""
        access = AccessAttributes(
            verb="create",
            resource="serviceaccounts",
            subresource="token",
            namespace=namespace,
            name=record.account,
        )
        issuers = self._current(record.issuer, record.issuer_uid)
        return any(self._roles.allows(each, access) for each in issuers)

    def _make_room(self, namespace: str) -> None:
        """Delete tokens that have ended. Raises StatusError if there are too many others."""
        valid = 0
        for each in self._store.list(_RESOURCE, namespace).items:
            record = msgspec.convert(each["spec"], TokenRecord)
            if self._lives(namespace, record):
                valid += 1
            else:
                self._store.delete(_RESOURCE, Key(namespace, each["metadata"]["name"]))
        if valid >= MOST_PER_NAMESPACE:
            message = (
                f'the service accounts of namespace "{namespace}" have {valid} valid tokens, which '
                "is the limit; wait for one to expire, or delete a service account"
            )
            raise StatusError(429, "TooManyRequests", message)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def token_request(account: Json, body: Json) -> int | None:
    """The lifetime that a TokenRequest asks for. Raises StatusError if it cannot be served."""
    spec = mapped(body.get("spec"))
    faults = []
    if spec.get("audiences"):
        faults.append("spec.audiences: tokens are for this server only; leave it out")
    if spec.get("boundObjectRef"):
        faults.append("spec.boundObjectRef: tokens cannot be bound to objects; leave it out")
    wanted_s = spec.get("expirationSeconds")
    if wanted_s is not None and (isinstance(wanted_s, bool) or not isinstance(wanted_s, int)):
        faults.append("spec.expirationSeconds: must be a number of seconds")
    elif wanted_s is not None and wanted_s < SHORTEST_S:
        faults.append(f"spec.expirationSeconds: must be {SHORTEST_S} (10 minutes) or more")
    if faults:
        name = account["metadata"]["name"]
        message = f'TokenRequest of service account "{name}" is invalid: ' + "; ".join(faults)
        raise StatusError(422, "Invalid", message)
    return wanted_s


def token_response(account: Json, issued: Issued, now: datetime) -> Json:
    """The TokenRequest with its token."""
    left_s = int((issued.expires - now).total_seconds())
    shown = {name: account["metadata"][name] for name in ("name", "namespace")}
    return {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": shown | {"creationTimestamp": timestamp(now)},
        "spec": {"audiences": [], "expirationSeconds": left_s, "boundObjectRef": None},
        "status": {"token": issued.token, "expirationTimestamp": timestamp(issued.expires)},
    }
