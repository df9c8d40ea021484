# SPDX-License-Identifier: Apache-2.0
"""Converts between seconds since 1970 and the time format of Kubernetes. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


def instant(text: str | None) -> float | None:
    """The time in the text; None if there is none."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else moment.replace(tzinfo=UTC).timestamp()


def time_text(moment: float) -> str:
    """The time as `metav1.Time`: whole seconds, in UTC."""
    return _text(int(moment))


@lru_cache(256)
def _text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19] + "Z"
