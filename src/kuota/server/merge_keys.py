# SPDX-License-Identifier: Apache-2.0
"""By which key a strategic merge patch merges the lists of built-in kinds.

A place in a document is walked to from the kind downwards, so that one set of facts serves pod
specs wherever they stand. What is unknown merges as objects do and replaces lists whole.
"""

from __future__ import annotations

import msgspec

from . import wire


class MergeKeys(msgspec.Struct, frozen=True, gc=False):
    """How the fields of one object merge. `message` is its type in `kuota.server.wire`, or ""."""

    message: str = ""

    def key(self, field: str) -> str | None:
        """The key by which items of that list are matched.

        "" matches items by their value; None means that a patch replaces the list.
        """
        found = self._field(field)
        return None if found is None else found.merge_key

    def below(self, field: str) -> MergeKeys:
        """The same for the object in that field, or for the items of the list in it."""
        found = self._field(field)
        return MergeKeys(found.type) if found and found.is_message else _UNKNOWN

    def _field(self, field: str) -> wire.Field | None:
        if not self.message:
            return None
        return wire.message(self.message).by_name.get(field)


_UNKNOWN = MergeKeys()


def merge_keys(api_version: str, kind: str) -> MergeKeys | None:
    """Those of a built-in kind. None for other kinds, which take no strategic patches."""
    message = wire.message_of(api_version, kind)
    return None if message is None else MergeKeys(message.name)
