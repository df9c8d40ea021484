# SPDX-License-Identifier: Apache-2.0
"""JSON Patch (RFC 6902).

Arguments are never modified; unchanged parts are shared with the result. Merge patches are in
`kuota.api.merge_patch`, and strategic ones, which depend on the kind, in `strategic`.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from kuota.api.merge_patch import equal
from kuota.api.status import too_large

from .strategic import PatchError

_MISSING = object()
# Repeated copies double the document each time, so the copied size is limited.
_COPIED_LIMIT = 100_000
MOST_OPERATIONS = 10_000
"""The limit of Kubernetes."""
# An operation copies the objects and lists on its path, so the number of their items is limited.
_WORK_LIMIT = 20_000_000


def json_patch(doc: Any, ops: Any) -> Any:
    """The document after every operation, in order. Raises PatchError for the first that fails."""
    if not isinstance(ops, list):
        raise PatchError("", "a JSON patch is a list of operations")
    if len(ops) > MOST_OPERATIONS:
        raise too_large(
            f"a JSON patch may have {MOST_OPERATIONS} operations, but this one has {len(ops)}"
        )
    copied = work = 0
    for op in ops:
        if not isinstance(op, dict) or not isinstance(op.get("path"), str):
            raise PatchError("", "every operation of a JSON patch needs op and path")
        if op.get("op") == "copy":
            copied += _weight(_found(doc, _source(op)))
            if copied > _COPIED_LIMIT:
                raise PatchError(op["path"], "the patch copies more than this server allows")
        work += _work(doc, op["path"])
        if work > _WORK_LIMIT:
            raise PatchError(op["path"], "the patch changes more than this server allows")
        doc = _operated(doc, op)
    return doc


def _work(doc: Any, path: str) -> int:
    """The number of items in the objects and lists on the path, as far as it exists."""
    work = 0
    for token in _tokens(path):
        if not isinstance(doc, dict | list):
            break
        work += len(doc)
        if isinstance(doc, dict):
            doc = doc.get(token)
        else:
            short = token.isascii() and token.isdigit() and len(token) < 10
            doc = doc[int(token)] if short and int(token) < len(doc) else None
    return work


def _weight(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_weight, value.values()))
    return 1 + sum(map(_weight, value)) if isinstance(value, list) else 1


def _operated(doc: Any, op: dict[str, Any]) -> Any:
    path = op["path"]
    match op.get("op"):
        case "add":
            return _added(doc, path, _value(op))
        case "remove":
            return _removed(doc, path)
        case "replace":
            value = _value(op)
            _found(doc, path)
            return _placed(doc, path, _tokens(path), value)
        case "move":
            return _moved(doc, _source(op), path)
        case "copy":
            return _added(doc, path, deepcopy(_found(doc, _source(op))))
        case "test":
            if not equal(_found(doc, path), _value(op)):
                raise PatchError(path, "the value differs from the one tested for")
            return doc
    raise PatchError(path, f"{op.get('op')!r} is not a JSON patch operation")


def _moved(doc: Any, source: str, path: str) -> Any:
    value = _found(doc, source)
    if source == path:
        return doc
    if path.startswith(source + "/"):
        raise PatchError(path, f"{source} cannot be moved into itself")
    # Parts that are shared with the stored object are not validated again, but they are valid only
    # in their place.
    return _added(_removed(doc, source), path, deepcopy(value))


def _value(op: dict[str, Any]) -> Any:
    if "value" not in op:
        raise PatchError(op["path"], f"operation {op['op']} needs a value")
    return op["value"]


def _source(op: dict[str, Any]) -> str:
    source = op.get("from")
    if not isinstance(source, str):
        raise PatchError(op["path"], f"operation {op['op']} needs from")
    return source


def _tokens(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise PatchError(path, "a path begins with /")
    return [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]


def _found(doc: Any, path: str) -> Any:
    for token in _tokens(path):
        doc = _child(doc, token, path)
    return doc


def _child(doc: Any, token: str, path: str) -> Any:
    if isinstance(doc, dict):
        value = doc.get(token, _MISSING)
        if value is _MISSING:
            raise PatchError(path, f"there is no {token!r}")
        return value
    if isinstance(doc, list):
        return doc[_index(token, len(doc) - 1, path)]
    raise PatchError(path, f"{token!r} cannot be found in a scalar value")


def _index(token: str, last: int, path: str) -> int:
    if not (token.isascii() and token.isdigit()) or (token[0] == "0" and token != "0"):
        raise PatchError(path, f"{token!r} is not a list index")
    if len(token) > 10 or int(token) > last:
        raise PatchError(path, f"index {token[:20]} is beyond the end of the list")
    return int(token)


def _added(doc: Any, path: str, value: Any) -> Any:
    return _placed(doc, path, _tokens(path), value, insert=True)


def _placed(doc: Any, path: str, tokens: list[str], value: Any, insert: bool = False) -> Any:
    if not tokens:
        return value
    token, rest = tokens[0], tokens[1:]
    if rest:
        value = _placed(_child(doc, token, path), path, rest, value, insert)
    if isinstance(doc, dict):
        return {**doc, token: value}
    if not isinstance(doc, list):
        raise PatchError(path, f"{token!r} cannot be added to a scalar value")
    out = list(doc)
    if insert and not rest:
        out.insert(len(doc) if token == "-" else _index(token, len(doc), path), value)
    else:
        out[_index(token, len(doc) - 1, path)] = value
    return out


def _removed(doc: Any, path: str) -> Any:
    tokens = _tokens(path)
    if not tokens:
        raise PatchError(path, "the whole document cannot be removed")
    parent = doc
    for token in tokens[:-1]:
        parent = _child(parent, token, path)
    _child(parent, tokens[-1], path)
    if isinstance(parent, dict):
        rest: Any = {key: value for key, value in parent.items() if key != tokens[-1]}
    else:
        rest = [value for at, value in enumerate(parent) if at != int(tokens[-1])]
    return _placed(doc, path, tokens[:-1], rest)
