# SPDX-License-Identifier: Apache-2.0
"""Validates ConfigMaps and Secrets as Kubernetes does: their keys and the size of their data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .. import names
from ..base import Json
from ..faults import FieldError, invalid, too_long
from .report import mapping

MAX_DATA_BYTES = 1 << 20


def config_map_faults(obj: Json) -> Iterator[FieldError]:
    """Yield the faults of a ConfigMap: of its keys, which become names of files, and its size."""
    yield from _key_faults(obj)
    plain, binary = mapping(obj.get("data")), mapping(obj.get("binaryData"))
    # Kubernetes names no field, because both together are too long.
    yield from _size_faults("[]", _text_bytes(plain) + _decoded_bytes(binary))


def secret_faults(obj: Json) -> Iterator[FieldError]:
    """Yield the faults of a Secret: of its keys, which become names of files, and its size."""
    yield from _key_faults(obj)
    yield from _size_faults("data", _decoded_bytes(mapping(obj.get("data"))))


def _size_faults(path: str, size_bytes: int) -> Iterator[FieldError]:
    if size_bytes > MAX_DATA_BYTES:
        yield too_long(path, f"may not be more than {MAX_DATA_BYTES} bytes")


def _text_bytes(entries: Mapping[str, Any]) -> int:
    return sum(len(str(each).encode(errors="surrogatepass")) for each in entries.values())


def _decoded_bytes(entries: Mapping[str, Any]) -> int:
    """The number of bytes that the base64 texts encode. Line breaks in them have no meaning."""
    total = 0
    for each in entries.values():
        text = str(each).replace("\n", "").replace("\r", "")
        total += len(text) // 4 * 3 - text[-2:].count("=")
    return total


def _key_faults(obj: Json) -> Iterator[FieldError]:
    plain, binary = mapping(obj.get("data")), mapping(obj.get("binaryData"))
    for field, entries in (("data", plain), ("binaryData", binary)):
        for key in entries:
            for each in names.config_key(key):
                yield invalid(f"{field}[{key}]", key, each)
    for key in binary.keys() & plain.keys():
        yield invalid(f"binaryData[{key}]", key, "duplicate of key present in data")
