# SPDX-License-Identifier: Apache-2.0
"""Parses request bodies (JSON, YAML or protobuf) into one object, and finds duplicate fields."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from kuota.api.base import Json
from kuota.api.faults import Invalid
from kuota.api.manifest_yaml import load_all
from kuota.api.status import StatusError, bad_request, too_large, unsupported_media

from . import protobuf
from .kinds import Kind
from .requests import ADMINS, SYSTEM_USER, User

YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml")
MAX_DEPTH = 100
MOST_VALUES = 60_000
"""The number of fields and list items in an object of admins outside of namespaces.

Definitions of custom kinds have many. Processing them takes most of the time of a request.
"""
MOST_NAMESPACED_VALUES = 5_000
"""The same in a namespace, and for members everywhere."""
STORED_SHARE = 2
"""A stored object has at most this many times the values, with defaults and managedFields."""
LARGEST_OBJECT = 6 << 20
"""The size of a stored object in bytes."""
_JSON_TOKENS = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[{]\s*+[\]}]|[\[{,]', re.DOTALL
)
"""Strings, empty lists and objects, and the bytes before all other values of JSON."""
_BEGINS_A_VALUE = (b"[", b"{", b",")
_FEW_BYTES = 2 * STORED_SHARE * MOST_NAMESPACED_VALUES
"""An object of this size cannot have too many values, since each takes two bytes."""


def media_type(headers: dict[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def most_values(user: User, kind: Kind) -> int:
    """The number of values that an object of the kind may have in a request of the user.

    The controllers of this process are not limited further: they write what the objects of users
    require, such as the placement of many pods.
    """
    may_have_many = ADMINS in user.groups and not kind.namespaced
    return MOST_VALUES if may_have_many or user.name == SYSTEM_USER else MOST_NAMESPACED_VALUES


def check_size(obj: Json, user: User, kind: Kind, old: Json | None = None) -> None:
    """Reject an object that is too large to be stored, unless it replaces a larger one.

    Patches add to what is stored, and so do defaults and managedFields, so the size of requests
    does not limit that of objects. Raises StatusError.
    """
    size = _bytes_of(obj)
    if size > LARGEST_OBJECT and (old is None or size >= _bytes_of(_unversioned(old))):
        raise too_large(f"the object would have more than {LARGEST_OBJECT >> 20} MiB")
    if size <= _FEW_BYTES or most_values(user, kind) == MOST_VALUES:
        return
    most = STORED_SHARE * MOST_NAMESPACED_VALUES
    count = values_in(obj, LARGEST_OBJECT)
    if count > most and (old is None or count >= values_in(_unversioned(old), LARGEST_OBJECT)):
        raise too_large(
            f"the object would have more than {most} fields and list items, with its defaults and "
            "managedFields"
        )


def _bytes_of(obj: Json) -> int:
    return len(msgspec.json.encode(obj))


def _unversioned(old: Json) -> Json:
    """The stored object in the form of its replacement, which has no resourceVersion yet."""
    metadata = {key: value for key, value in old["metadata"].items() if key != "resourceVersion"}
    return old | {"metadata": metadata}


def read_object(body: bytes, media: str, most: int = MOST_VALUES) -> Json:
    """The object in the body. Raises StatusError if there is none or the media type is unknown.

    `most` is the number of values that it may have.
    """
    if media == protobuf.MEDIA_TYPE:
        return _protobuf(body, most)
    if media in YAML_TYPES:
        value = read_yaml(body, most)
    elif media in ("", "application/json", "*/*", "text/plain"):
        value = read_json(body, most)
    else:
        raise unsupported_media(f"the body of the request was in an unknown format: {media}")
    if not isinstance(value, dict):
        raise bad_request("the body must be one object")
    return value


def read_json(body: bytes, most: int = MOST_VALUES) -> Any:
    if not body.strip():
        raise bad_request("the request needs a body")
    check_json_values(body, most)
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise bad_request(f"the body is not JSON: {error}") from None
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and is_deep(value):
        raise _too_deep()
    return value


def check_json_values(body: bytes, most: int) -> None:
    """Raise StatusError if JSON has too many values. Reads little more than those.

    Decoding them first would take much longer than to reject them.
    """
    # Counting bytes is cheap and sufficient for almost every body.
    if body.count(b"{") + body.count(b"[") + body.count(b",") <= most:
        return
    found = 0
    for token in _JSON_TOKENS.finditer(body):
        found += token[0] in _BEGINS_A_VALUE
        if found > most:
            raise _too_many(most)


def _too_deep() -> StatusError:
    return bad_request(f"the body is nested more than {MAX_DEPTH} deep")


def _too_many(most: int) -> StatusError:
    return too_large(f"the body has more than {most} fields and list items")


def values_in(value: Any, most: int) -> int:
    """The number of fields and list items in a value. Counts little more than `most`."""
    found, waiting = 0, [value]
    while waiting and found <= most:
        each = waiting.pop()
        if isinstance(each, dict):
            found += len(each)
            waiting.extend(each.values())
        elif isinstance(each, list):
            found += len(each)
            waiting.extend(each)
    return found


def read_yaml(body: bytes, most: int = MOST_VALUES) -> Any:
    """The document in the body. JSON is parsed as YAML too."""
    if body.lstrip()[:1] in (b"{", b"["):
        return read_json(body, most)
    try:
        text = body.decode()
        _check_events(text, most)
        found = load_all(text, most_repeats=most)
    except (Invalid, RecursionError, UnicodeDecodeError, ValueError, yaml.YAMLError) as error:
        raise bad_request(f"the body is not YAML: {error}") from None
    if len(found) != 1:
        raise bad_request(f"the body must hold one document, not {len(found)}")
    # Aliases repeat values, so there may be more than events.
    if values_in(found[0], most) > most:
        raise _too_many(most)
    return found[0]


def _check_events(text: str, most: int) -> None:
    """Reject YAML that is too deep or too large to be composed, before that takes long."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=yaml.CSafeLoader)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise _too_deep()
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        # A field has two events: its key and its value.
        if count > 2 * most:
            raise _too_many(most)


def _protobuf(body: bytes, most: int) -> Json:
    try:
        found = protobuf.decoded(body)
        if is_deep(found):
            raise _too_deep()
        if values_in(found, most) > most:
            raise _too_many(most)
        return found
    except RecursionError:
        raise _too_deep() from None
    except protobuf.UnsupportedMedia as error:
        raise unsupported_media(str(error)) from None
    except protobuf.ProtobufError as error:
        raise bad_request(str(error)) from None


def is_deep(value: Any, depth: int = 0) -> bool:
    """Whether walking the value could exhaust the stack."""
    if depth > MAX_DEPTH:
        return True
    if isinstance(value, dict):
        return any(is_deep(each, depth + 1) for each in value.values())
    return isinstance(value, list) and any(is_deep(each, depth + 1) for each in value)


class _DuplicateFields(dict[str, Any]):
    """An object whose text contains some fields more than once."""

    names: tuple[str, ...] = ()


def duplicates(body: bytes, media: str) -> list[str]:
    """The paths of duplicate fields in a JSON body. The last value counts."""
    if media not in ("", "application/json"):
        return []
    try:
        value = json.loads(body, object_pairs_hook=_paired)
    except (ValueError, RecursionError):
        return []
    return list(_repeated(value, ""))


def _paired(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = _DuplicateFields(pairs)
    if len(found) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        found.names = tuple(name for name, count in counts.items() if count > 1)
    return found


def _repeated(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for at, each in enumerate(value):
            yield from _repeated(each, f"{path}[{at}]")
    elif isinstance(value, _DuplicateFields):
        for name in value.names:
            yield f"{path}.{name}" if path else name
        for name, each in value.items():
            yield from _repeated(each, f"{path}.{name}" if path else name)
