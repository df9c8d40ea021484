# SPDX-License-Identifier: Apache-2.0
"""Log output: one line per message, as JSON or plain text, without secrets.

Field names are Kueue's, so that tools can read the logs of both.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

CHATTY = 4
"""The verbosity at which everything is logged. Kueue's default is 2.

A message of lower verbosity v has the level INFO - v.
"""
HIDDEN = "[hidden]"
_SHORTEST = 6
"""Shorter secrets could be ordinary words; redacting them would garble the text."""

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "error": logging.ERROR}
_LEVELS |= {"warn": logging.WARNING, "panic": logging.CRITICAL}
_NAMES = {"WARNING": "warn", "CRITICAL": "error"}
_PATTERNS = (
    # A word after "basic" is ordinary text; a digit or a capital letter makes it a credential.
    re.compile(r"\b(?:[Bb]earer|[Bb]asic)\s+(?=\S*[0-9A-Z=])[A-Za-z0-9._~+/=-]{6,}"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"),
    re.compile(
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S
    ),
    re.compile(r"(?i)(?<=token=)[^&\s\"']+"),
    re.compile(r"(?i)(?<=password=)[^&\s\"']+"),
    re.compile(r"(?i)\"(?:token|password|client-key-data|clientKeyData)\"\s*:\s*\"[^\"]*\""),
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
)


class LogError(ValueError):
    """An invalid log flag."""


class LogStyle(msgspec.Struct, frozen=True):
    """The log format. `level` is a level of the standard library."""

    level: int = logging.INFO
    json: bool = True


def style(level: str = "", devel: bool = False, encoder: str = "", verbosity: int = 0) -> LogStyle:
    """The format that Kueue's flags select. Raises LogError.

    A level is a word, or a number that sets the verbosity. Development mode prints plain lines and,
    unless a level is given, every detail.
    """
    if encoder not in ("", "json", "console"):
        raise LogError(f"--zap-encoder: {encoder!r} is neither json nor console")
    chosen = logging.DEBUG if devel else logging.INFO
    if level.isascii() and level.isdigit():
        verbosity = max(verbosity, int(level))
    elif level.lower() in _LEVELS:
        chosen = _LEVELS[level.lower()]
    elif level:
        words = ", ".join(_LEVELS)
        raise LogError(f"--zap-log-level: {level!r} is neither a number nor one of {words}")
    if verbosity >= CHATTY:
        chosen = min(chosen, logging.DEBUG)
    elif chosen == logging.INFO:
        chosen -= verbosity
    return LogStyle(chosen, encoder == "json" if encoder else not devel)


def begin(chosen: LogStyle, secrets: Iterable[str] = (), stream: TextIO | None = None) -> None:
    """Use this format from now on, by default on stderr."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter((JsonLines if chosen.json else PlainLines)(secrets))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(chosen.level)
    # These log every connection; relevant failures are reported as our own errors.
    for name in ("asyncio", "aiohttp"):
        logging.getLogger(name).setLevel(max(chosen.level, logging.WARNING))


class _Lines(logging.Formatter):
    """Redacts known secrets and text that looks like one."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        known = sorted({each for each in secrets if len(each) >= _SHORTEST}, key=len, reverse=True)
        words = [re.compile("|".join(map(re.escape, known)))] if known else []
        self._patterns = (*words, *_PATTERNS)

    def hide(self, text: str) -> str:
        for pattern in self._patterns:
            text = pattern.sub(HIDDEN, text)
        return text

    def trace(self, record: logging.LogRecord) -> str:
        if not record.exc_info or record.exc_info[1] is None:
            return ""
        return self.hide("".join(traceback.format_exception(record.exc_info[1])).rstrip())


class JsonLines(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "level": _level(record),
            "ts": _moment(record),
            "logger": record.name,
            "caller": f"{record.filename}:{record.lineno}",
            "msg": self.hide(record.getMessage()),
            **_fields(record),
        }
        trace = self.trace(record)
        if trace:
            error = record.exc_info[1] if record.exc_info else None
            line |= {"error": self.hide(f"{error}"), "stacktrace": trace}
        return msgspec.json.encode(line).decode()


class PlainLines(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        said = self.hide(record.getMessage())
        trace = self.trace(record)
        said += "".join(f" {name}={_value(value)}" for name, value in _fields(record).items())
        line = f"{_moment(record)} {_level(record).upper():<7} {record.name}: {said}"
        return f"{line}\n{trace}" if trace else line


def _level(record: logging.LogRecord) -> str:
    if logging.DEBUG < record.levelno < logging.INFO:
        return "info"
    return _NAMES.get(record.levelname, record.levelname.lower())


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """The structured fields of a message, passed as `extra={"fields": ...}`."""
    found: dict[str, Any] = getattr(record, "fields", {})
    return found


def _value(value: object) -> str:
    """A field in a plain line: bare if it is one word, otherwise as JSON."""
    if isinstance(value, str) and value.isprintable() and value.split() == [value]:
        return value
    return msgspec.json.encode(value).decode()


def _moment(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
