# SPDX-License-Identifier: Apache-2.0
"""Objects as few bytes, for those that are kept but hardly ever read.

Objects of one kind look alike. So the first one packed serves as the dictionary of all others, and
each of them takes little more than what is its own.
"""

from __future__ import annotations

import zlib

import msgspec

from kuota.api.base import Json

_LEVEL = 3
_RAW = -15
_MEMORY = 5
"""Of zlib: how hard to look, no header and the largest window, and a small working memory."""


class Packer:
    """Packs objects, and makes them anew. What one packer packed only that one can unpack."""

    def __init__(self) -> None:
        self._alike = b""

    def pack(self, obj: Json) -> bytes:
        plain = msgspec.json.encode(obj)
        self._alike = self._alike or plain
        packing = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW, _MEMORY, zdict=self._alike)
        return packing.compress(plain) + packing.flush()

    def unpack(self, packed: bytes) -> Json:
        plain = zlib.decompressobj(_RAW, zdict=self._alike).decompress(packed)
        obj: Json = msgspec.json.decode(plain)
        return obj
