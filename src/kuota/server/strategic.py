# SPDX-License-Identifier: Apache-2.0
"""Strategic merge patches: like merge patches, but lists of named items are merged by item.

A patch may contain directives: `$patch` (replace, delete, merge) in an object, `$retainKeys`, and
next to a list `$setElementOrder/LIST` and `$deleteFromPrimitiveList/LIST`. A merged list has the
items of the patch in the order of the patch or of `$setElementOrder`; items that only the document
has stay before their successors.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from kuota.api.base import Json

from .wire import Message

_PATCH, _RETAIN = "$patch", "$retainKeys"
_ORDER, _DELETE = "$setElementOrder/", "$deleteFromPrimitiveList/"

Key = Callable[[Any], Any]


class PatchError(ValueError):
    """An invalid patch. `path` is the place in the document, "" for the whole."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path


def strategic_merge(doc: Json, patch: Json, type_: Message) -> Json:
    """The document, of this type, after the patch. Arguments are not changed."""
    return _merged(doc, patch, type_, "")


def _merged(doc: Json, patch: Json, type_: Message, path: str) -> Json:
    match patch.get(_PATCH, "merge"):
        case "replace":
            return {key: value for key, value in patch.items() if key != _PATCH}
        case "delete":
            return {}
        case "merge":
            out = _retained(doc, patch, path)
        case other:
            raise PatchError(
                path, f"{other!r} is not a $patch directive; use replace, delete or merge"
            )
    for name in _touched(patch):
        where = f"{path}.{name}" if path else name
        if name in patch and patch[name] is None:
            out.pop(name, None)
        elif isinstance(out.get(name), list) and _is_list(patch, name):
            out[name] = _merged_list(out[name], patch, name, type_, where)
        elif name in patch:
            out[name] = _merged_value(out.get(name), patch[name], type_.below(name), where)
            if out[name] is None:
                del out[name]
    return out


def _merged_value(old: Any, new: Any, type_: Message, path: str) -> Any:
    if not isinstance(new, dict):
        return _clean(new)
    if isinstance(old, dict):
        return _merged(old, new, type_, path)
    return None if new.get(_PATCH) == "delete" else _clean(new)


def _touched(patch: Json) -> Iterable[str]:
    """The distinct fields that the patch mentions."""
    names = dict.fromkeys(name for name in patch if not name.startswith("$"))
    for name in patch:
        if name.startswith((_ORDER, _DELETE)):
            names[name.partition("/")[2]] = None
    return names


def _is_list(patch: Json, name: str) -> bool:
    return isinstance(patch.get(name, []), list)


def _retained(doc: Json, patch: Json, path: str) -> Json:
    if _RETAIN not in patch:
        return dict(doc)
    kept = patch[_RETAIN]
    if not isinstance(kept, list) or not all(isinstance(each, str) for each in kept):
        raise PatchError(path, "$retainKeys needs a list of field names")
    stray = sorted(set(_touched(patch)) - set(kept))
    if stray:
        raise PatchError(path, f"{stray[0]} is patched but missing from $retainKeys")
    return {key: value for key, value in doc.items() if key in kept}


def _clean(value: Any) -> Any:
    """The patch value without directives and nulls, for a field that the document lacks."""
    if isinstance(value, dict):
        return {
            key: _clean(item)
            for key, item in value.items()
            if item is not None and not key.startswith("$")
        }
    if isinstance(value, list):
        plain = (item for item in value if not (isinstance(item, dict) and _PATCH in item))
        return [_clean(item) for item in plain]
    return value


def _merged_list(doc: list[Any], patch: Json, name: str, type_: Message, path: str) -> list[Any]:
    key, items = type_.merge_key(name), _list(patch.get(name, []), path)
    order, doomed = patch.get(_ORDER + name), _list(patch.get(_DELETE + name, []), path)
    if any(isinstance(item, dict) and item.get(_PATCH) == "replace" for item in items):
        merged = [_clean(item) for item in items if not (isinstance(item, dict) and _PATCH in item)]
    elif key is None:
        if order is not None:
            raise PatchError(path, "$setElementOrder is only for lists that merge")
        merged = items if name in patch else doc
    elif key == "":
        both = list(dict.fromkeys([*_scalars(doc, path), *_scalars(items, path)]))
        merged = _ordered(both, doc, _order(items, order, _itself, path), _itself)
    else:
        key_of = _by(key, path)
        both = _merged_items(doc, items, type_.below(name), key_of, path)
        plain = [item for item in items if item.get(_PATCH) != "delete"]
        merged = _ordered(both, doc, _order(plain, order, key_of, path), key_of)
    if not doomed:
        return merged
    scalars = {each for each in doomed if not isinstance(each, dict | list)}
    return [item for item in merged if isinstance(item, dict | list) or item not in scalars]


def _merged_items(
    doc: list[Any], items: list[Any], type_: Message, key_of: Key, path: str
) -> list[Any]:
    # Several items of the stored list may have one key: the first is merged, all are deleted.
    out = list(doc)
    places: dict[Any, int] = {}
    for at, old in enumerate(out):
        places.setdefault(key_of(old), at)
    deleted = set()
    for item in items:
        key = key_of(item)
        match item.get(_PATCH, "merge"):
            case "delete":
                deleted.add(key)
                places.pop(key, None)
            case "merge" if key not in places:
                if key in deleted:
                    out = [old for old in out if key_of(old) not in deleted]
                    places = {key_of(old): at for at, old in reversed(list(enumerate(out)))}
                    deleted.clear()
                places[key] = len(out)
                out.append(_clean(item))
            case "merge":
                at = places[key]
                out[at] = _merged(out[at], item, type_, f"{path}[{key}]")
            case other:
                raise PatchError(path, f"{other!r} is not a $patch directive of a list item")
    return [old for old in out if key_of(old) not in deleted] if deleted else out


def _order(items: list[Any], order: Any, key_of: Key, path: str) -> list[Any]:
    """The keys in the order that the patch requires."""
    own = [key_of(item) for item in items]
    if order is None:
        return own
    wanted = [key_of(item) for item in _list(order, path)]
    known = set(own)
    if [key for key in wanted if key in known] != own:
        raise PatchError(path, "the list and its $setElementOrder disagree")
    return wanted


def _ordered(merged: list[Any], doc: list[Any], wanted: list[Any], key_of: Key) -> list[Any]:
    rank = {key: at for at, key in enumerate(wanted)}
    place = {key_of(item): at for at, item in reversed(list(enumerate(doc)))}
    first = sorted((item for item in merged if key_of(item) in rank), key=lambda i: rank[key_of(i)])
    others = deque(item for item in merged if key_of(item) not in rank)
    out: list[Any] = []
    for item in first:
        here = place.get(key_of(item), -1)
        while others and place[key_of(others[0])] < here:
            out.append(others.popleft())
        out.append(item)
    return [*out, *others]


def _itself(item: Any) -> Any:
    return item


def _by(key: str, path: str) -> Key:
    def key_of(item: Any) -> Any:
        if not isinstance(item, dict):
            raise PatchError(path, "the list mixes objects and other values")
        value = item.get(key)
        if value is None or isinstance(value, dict | list):
            raise PatchError(path, f"an item lacks its merge key {key}")
        return value

    return key_of


def _list(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise PatchError(path, "a list is needed here")
    return value


def _scalars(items: list[Any], path: str) -> list[Any]:
    if any(isinstance(item, dict | list) for item in items):
        raise PatchError(path, "the list holds values that have parts")
    return items
