# SPDX-License-Identifier: Apache-2.0
"""Fields that a schema does not have, and which field was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

import msgspec

from ..faults import FieldError, invalid, quoted

_DROPPED = "it would be dropped, and so have no effect"


class Unknown(msgspec.Struct, frozen=True):
    """A field that the schema does not have, and the names of those it has in that place."""

    path: str
    name: str
    known: Collection[str]

    def fault(self, why: str = _DROPPED) -> FieldError:
        message = f"unknown field {quoted(self.name)}: {why}"
        fix = suggestion(str(self.name), self.known) or self._siblings()
        return invalid(self.path, self.name, message, fix)

    def _siblings(self) -> str:
        names = ", ".join(sorted(self.known))
        parent = self.path.removesuffix(str(self.name)).removesuffix(".")
        return f"{parent or 'the object'} has: {names}" if len(names) <= 200 else "remove it"


def suggestion(name: str, known: Iterable[str]) -> str:
    """ "did you mean X?" for the closest known name, "" when none is close."""
    by_lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return f"did you mean {by_lower[close[0]]}?" if close else ""
