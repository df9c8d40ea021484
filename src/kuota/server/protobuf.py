# SPDX-License-Identifier: Apache-2.0
"""Decodes protobuf request bodies of kubectl and client-go into JSON objects.

Only decoding is needed, because these clients accept JSON responses. A body consists of four magic
bytes, an envelope with the kind, and the object, whose fields are identified by number
(`kuota.server.wire`). Go writes fields with zero values; they are dropped if Kubernetes' JSON would
omit them.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from kuota.api.base import Json

from . import wire

MAGIC = b"k8s\x00"
MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
MOST_FIELDS = 200_000
"""The number of fields in one body, including those of nested messages."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The exceptions that malformed input causes: wrong types, invalid UTF-8, missing bytes.
_MALFORMED = (AttributeError, TypeError, ValueError, IndexError, OverflowError, struct.error)


# How many more fields may be decoded. Decoding does not await, so there is one body at a time.
_left = [MOST_FIELDS]


class ProtobufError(ValueError):
    """A malformed body. The message states what and where."""


class UnsupportedMedia(ProtobufError):
    """A kind without a known protobuf format: the client must send JSON."""


def decoded(body: bytes) -> Json:
    """The object in a request body, with apiVersion and kind.

    Raises UnsupportedMedia for kinds outside the tables, ProtobufError for a malformed body.
    """
    if not body.startswith(MAGIC):
        raise ProtobufError("the body does not begin with the magic bytes of Kubernetes protobuf")
    _left[0] = MOST_FIELDS
    try:
        return _enveloped(body[len(MAGIC) :])
    except ProtobufError:
        raise
    except _MALFORMED as error:
        raise ProtobufError(f"the protobuf body is malformed: {error}") from error


def _enveloped(body: bytes) -> Json:
    envelope = _parts(body)
    names = {number: value.decode() for number, value in _parts(envelope.get(1, b"")).items()}
    api_version, kind = names.get(1, ""), names.get(2, "")
    raw = envelope.get(2, b"")
    if envelope.get(4, b"") == b"application/json":
        return msgspec.convert(_json(raw), Json)
    message = wire.message_of(api_version, kind)
    if message is None:
        raise UnsupportedMedia(
            f"{api_version} {kind}: this server does not read the kind as protobuf;"
            " send application/json"
        )
    return {"apiVersion": api_version, "kind": kind, **_message(raw, message)}


def _message(raw: bytes, message: wire.Message) -> Json:
    out: Json = {}
    for number, kind, value in _fields(raw):
        field = message.by_number.get(number)
        if field is None:
            continue
        if not field.name:
            out.update(_message(value, wire.message(field.type)))
        elif field.many == wire.MAP:
            key, item = _entry(value, field.type)
            out.setdefault(field.name, {})[key] = item
        elif field.many == wire.LIST:
            out.setdefault(field.name, []).extend(_items(kind, value, field.type))
        else:
            _put(out, field, _value(value, field.type))
    return out


def _put(out: Json, field: wire.Field, value: Any) -> None:
    if value is not None and (value or field.pointer or field.required):
        out[field.name] = value


def _entry(raw: bytes, kind: str) -> tuple[str, Any]:
    parts = _parts(raw)
    value = parts.get(2, 0 if kind in ("i", "b") else b"")
    return parts.get(1, b"").decode(), _value(value, kind)


def _items(wire_type: int, value: Any, kind: str) -> list[Any]:
    if kind == "i" and wire_type == _BYTES:
        packed, at, numbers = value, 0, []
        while at < len(packed):
            number, at = _varint(packed, at)
            numbers.append(_signed(number))
        return numbers
    return [_value(value, kind)]


def _value(value: Any, kind: str) -> Any:
    reader = _READERS.get(kind)
    if reader is not None:
        if isinstance(value, bytes) is (kind in ("i", "b")):
            raise ProtobufError(f"a value of type {kind} has the wrong wire type")
        return reader(value)
    if not isinstance(value, bytes):
        raise ProtobufError(f"a {kind} has the wrong wire type")
    return _message(value, wire.message(kind))


def _fields(raw: bytes) -> Iterator[tuple[int, int, Any]]:
    """The number, wire type and value of each field; values are int or bytes."""
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        kind = tag & 7
        value: int | bytes
        if kind == _VARINT:
            value, at = _varint(raw, at)
        else:
            length, at = _length(raw, at, kind)
            value = raw[at : at + length]
            if len(value) < length:
                raise ProtobufError("the protobuf body ends within a field")
            at += length
        _left[0] -= 1
        if _left[0] < 0:
            raise ProtobufError(f"the protobuf body has more than {MOST_FIELDS} fields")
        yield tag >> 3, kind, value


def _length(raw: bytes, at: int, kind: int) -> tuple[int, int]:
    if kind == _BYTES:
        return _varint(raw, at)
    if kind in (_FIXED64, _FIXED32):
        return (8 if kind == _FIXED64 else 4), at
    raise ProtobufError(f"wire type {kind} is not used by Kubernetes")


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ProtobufError("a number of the protobuf body is longer than 64 bits")


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _parts(raw: bytes) -> dict[int, Any]:
    return {number: value for number, _, value in _fields(raw)}


def _time(form: str) -> Callable[[bytes], str | None]:
    """Decode a time to RFC 3339; None for the zero time."""

    def read(raw: bytes) -> str | None:
        parts = _parts(raw)
        seconds, micros = _signed(parts.get(1, 0)), _signed(parts.get(2, 0)) // 1000
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=micros)
        return moment.strftime(form) if raw else None

    return read


def _int_or_string(raw: bytes) -> int | str:
    parts = _parts(raw)
    if parts.get(1, 0):
        return str(parts.get(3, b"").decode())
    return _signed(parts.get(2, 0))


def _wrapped_json(raw: bytes) -> Any:
    inner = _parts(raw).get(1, b"")
    return _json(inner) if inner else None


def _json(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtobufError(f"the JSON inside the protobuf body is malformed: {error}") from error


_READERS: dict[str, Callable[[Any], Any]] = {
    "s": lambda value: value.decode(),
    "i": _signed,
    "b": bool,
    "d": lambda value: struct.unpack("<d", value)[0],
    "y": lambda value: base64.b64encode(value).decode(),
    "Time": _time("%Y-%m-%dT%H:%M:%SZ"),
    "MicroTime": _time("%Y-%m-%dT%H:%M:%S.%fZ"),
    "Quantity": lambda value: _parts(value).get(1, b"").decode() or "0",
    "IntOrString": _int_or_string,
    "RawExtension": _wrapped_json,
    "FieldsV1": _wrapped_json,
    "Items": lambda value: [item.decode() for number, _, item in _fields(value) if number == 1],
}
