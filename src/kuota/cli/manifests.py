# SPDX-License-Identifier: Apache-2.0
"""Reads manifests from files, folders and standard input, with the line of each field.

Nothing here raises. Unreadable files, invalid YAML and duplicate keys are faults of a Manifest, so
that one bad file does not hide the faults of others.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from kuota.api.base import Json
from kuota.api.faults import ErrorType, FieldError
from kuota.api.manifest_yaml import Document, scanned

STDIN = "-"
MOST_ENTRIES = 10_000
"""The most files and directories below a directory that is searched for manifests."""
_TOO_MANY = (
    f"contains more than {MOST_ENTRIES:,} files and directories. "
    "Fix: name the directory that contains only manifests, or the files."
)
_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_KEY = re.compile(r"\[([^\]]*[^\]\d][^\]]*)\]")
_DOTTED_INDEX = re.compile(r"\.(\d+)(?=$|\.|\[)")
_LINE = re.compile(r"line (\d+): ")


class Manifest(msgspec.Struct, frozen=True):
    """One object of a manifest file. `object` is empty if it cannot be parsed.

    `within` is the path of the object in its document, for the items of a List. `unreadable` means
    that the file cannot be opened or decoded. `found` means that the file was found in a folder,
    and not named by the user.
    """

    source: str
    object: Json
    lines: dict[str, int] = {}
    within: str = ""
    faults: tuple[FieldError, ...] = ()
    unreadable: bool = False
    found: bool = False

    def line_of(self, path: str) -> int:
        """Return the line of the field, or of the closest enclosing field in the file."""
        place = _spelling(path)
        while place:
            full = _joined(self.within, place)
            if full in self.lines:
                return self.lines[full]
            place = _parent(place)
        return self.lines.get(self.within) or self.lines.get("", 1)


def load(paths: Iterable[str]) -> list[Manifest]:
    """Return all objects in the files and folders, in the given order; "-" is standard input."""
    return [manifest for path in paths for manifest in _load(path)]


def _load(path: str) -> Iterator[Manifest]:
    if path == STDIN or not Path(path).is_dir():
        yield from _read(path, found=False)
        return
    faults: list[Manifest] = []
    files = _manifest_files(path, faults)
    yield from faults
    if not files and not faults:
        yield _unreadable(path, "the directory contains no *.yaml, *.yml or *.json files")
    for each in files:
        yield from _read(each, found=True)


def _manifest_files(folder: str, faults: list[Manifest]) -> list[str]:
    """Return the manifests in the directory and below it, in order; none if it contains too much.

    Hidden files and directories are ignored, and links to directories are not followed.
    """

    def unread(error: OSError) -> None:
        faults.append(_unreadable(str(error.filename), f"cannot be read: {error.strerror}"))

    found, seen = [], 0
    for place, folders, files in os.walk(folder, onerror=unread):
        folders[:] = [each for each in folders if not each.startswith(".")]
        seen += len(folders) + len(files)
        if seen > MOST_ENTRIES:
            faults[:] = [_unreadable(folder, _TOO_MANY)]
            return []
        found += [os.path.join(place, each) for each in files if _is_manifest(each)]
    return sorted(filter(os.path.isfile, found), key=lambda each: each.split(os.sep))


def _is_manifest(name: str) -> bool:
    return Path(name).suffix.lower() in _SUFFIXES and not name.startswith(".")


def _read(path: str, *, found: bool) -> Iterator[Manifest]:
    try:
        raw = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
        text = raw.decode("utf-8-sig")
    except OSError as error:
        yield _unreadable(path, f"cannot be read: {error.strerror or error}")
        return
    except UnicodeDecodeError:
        yield _unreadable(path, "is not UTF-8 text")
        return
    yield from written(text, _name(path), found=found)


def written(text: str, source: str, *, found: bool = False) -> Iterator[Manifest]:
    """Yield all objects in the text. `source` is the name of the file for messages."""
    for document in _documents(text):
        yield from _manifests(document, source, found)


def _unreadable(path: str, why: str) -> Manifest:
    return Manifest(_name(path), {}, faults=(_fault(why),), unreadable=True)


def _name(path: str) -> str:
    return "<stdin>" if path == STDIN else path


def _documents(text: str) -> list[Document]:
    found = scanned(text)
    if any(each.value is None for each in found) and text.lstrip().startswith("{"):
        # Surrogate pairs in escapes are the only JSON syntax that YAML does not support.
        try:
            return [Document(json.loads(text), {}, _repeated(text))]
        except (ValueError, RecursionError):
            pass
    return found


def _repeated(text: str) -> tuple[FieldError, ...]:
    """Return a fault for each duplicate key in JSON."""
    from kuota.server.bodies import duplicates

    repeated = duplicates(text.encode(errors="surrogatepass"), "")
    return tuple(
        FieldError(path=path, type=ErrorType.INVALID, message="is set twice") for path in repeated
    )


def _manifests(document: Document, source: str, found: bool) -> Iterator[Manifest]:
    lines = document.lines or _line_in_words(document.errors)
    faults = tuple(map(_without_line, document.errors))
    value = document.value
    if value is None:
        yield Manifest(source, {}, lines, faults=faults, found=found)
    elif not isinstance(value, dict):
        wrong = _fault("is not an object with fields such as apiVersion and kind")
        yield Manifest(source, {}, lines, faults=(*faults, wrong), found=found)
    elif isinstance(value.get("items"), list) and str(value.get("kind", "")).endswith("List"):
        yield from _items(value["items"], source, lines, faults, found)
    else:
        yield Manifest(source, value, lines, faults=faults, found=found)


def _items(
    items: list[object],
    source: str,
    lines: dict[str, int],
    faults: tuple[FieldError, ...],
    found: bool,
) -> Iterator[Manifest]:
    """Yield the objects of a List, as printed by `kubectl get -o yaml`."""
    if faults:
        yield Manifest(source, {}, lines, faults=faults, found=found)
    for index, each in enumerate(items):
        within = f"items[{index}]"
        if isinstance(each, dict):
            yield Manifest(source, each, lines, within, found=found)
        else:
            wrong = (_fault("is not an object"),)
            yield Manifest(source, {}, lines, within, faults=wrong, found=found)


def _line_in_words(faults: tuple[FieldError, ...]) -> dict[str, int]:
    """Return the line of a syntax error, taken from the parser's message."""
    spoken = _LINE.match(faults[0].message) if faults else None
    return {"": int(spoken[1])} if spoken else {}


def _without_line(fault: FieldError) -> FieldError:
    return msgspec.structs.replace(fault, message=_LINE.sub("", fault.message, count=1))


def _fault(message: str) -> FieldError:
    return FieldError(path="", type=ErrorType.INVALID, message=message)


def _spelling(path: str) -> str:
    """Return the path in the YAML reader's syntax: `.key` for maps, `[index]` for lists."""
    return _DOTTED_INDEX.sub(r"[\1]", _KEY.sub(r".\1", path))


def _parent(path: str) -> str:
    """Return the path without its last step. Keys may contain dots, so it may not exist."""
    return path[: max(path.rfind("."), path.rfind("["), 0)]


def _joined(prefix: str, path: str) -> str:
    return f"{prefix}.{path}" if prefix else path
