# SPDX-License-Identifier: Apache-2.0
"""Requests that the API server forwards: which user it names, and how it authenticates.

The API server presents a client certificate whose authority is published in the ConfigMap
`kube-system/extension-apiserver-authentication`, and names the user in headers. Headers of other
callers are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from kuota.api.base import Json, Key
from kuota.engine.model import Struct
from kuota.kube.access import UserInfo

CONFIG_MAP = Key("kube-system", "extension-apiserver-authentication")

KNOWN = "system:authenticated"
UNKNOWN = "system:unauthenticated"

Headers = Mapping[str, list[str]]
"""All values of each header, by lower-case name."""


class FrontProxy(Struct):
    """The front proxy settings. Without `names`, any certificate of the authority is accepted."""

    authority: str
    names: tuple[str, ...] = ()
    users: tuple[str, ...] = ("x-remote-user",)
    uids: tuple[str, ...] = ("x-remote-uid",)
    groups: tuple[str, ...] = ("x-remote-group",)
    extras: tuple[str, ...] = ("x-remote-extra-",)

    def trusts(self, certificate: Mapping[str, Any] | None) -> bool:
        """Whether a certificate signed by the authority is that of the API server."""
        return bool(certificate) and (not self.names or _common_name(certificate) in self.names)

    def user(self, headers: Headers) -> UserInfo | None:
        """Return the user that the headers name; None without one."""
        name = _first(headers, self.users)
        if not name:
            return None
        extra = {
            unquote(word.removeprefix(prefix)): tuple(values)
            for prefix in self.extras
            for word, values in headers.items()
            if word.startswith(prefix)
        }
        return UserInfo(
            name=name,
            uid=_first(headers, self.uids),
            groups=_with_known(tuple(g for word in self.groups for g in headers.get(word, ()))),
            extra=tuple(sorted(extra.items())),
        )


def front_proxy(config_map: Json) -> FrontProxy | None:
    """Return the settings in the ConfigMap; None if the API server forwards no requests."""
    said = config_map.get("data") or {}
    authority = said.get("requestheader-client-ca-file") or ""
    if not authority.strip():
        return None
    fields = {
        "names": _words(said, "requestheader-allowed-names", lower=False),
        "users": _words(said, "requestheader-username-headers"),
        "uids": _words(said, "requestheader-uid-headers"),
        "groups": _words(said, "requestheader-group-headers"),
        "extras": _words(said, "requestheader-extra-headers-prefix"),
    }
    given = {name: words for name, words in fields.items() if words}
    return FrontProxy(authority=authority, **given)


def _with_known(groups: tuple[str, ...]) -> tuple[str, ...]:
    """Add the group of authenticated users, which the API server does not always include."""
    return groups if {KNOWN, UNKNOWN} & set(groups) else (*groups, KNOWN)


def _words(said: Json, name: str, *, lower: bool = True) -> tuple[str, ...]:
    try:
        found = json.loads(said.get(name) or "[]")
    except ValueError:
        return ()
    words = found if isinstance(found, list) else []
    return tuple(str(each).lower() if lower else str(each) for each in words if each)


def _first(headers: Headers, words: tuple[str, ...]) -> str:
    return next((values[0] for word in words if (values := headers.get(word)) and values[0]), "")


def _common_name(certificate: Mapping[str, Any] | None) -> str:
    named = [pair for each in (certificate or {}).get("subject") or () for pair in each]
    return next((str(value) for name, value in named if name == "commonName"), "")
