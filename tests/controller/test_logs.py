# SPDX-License-Identifier: Apache-2.0
"""Log formats: one JSON object or one plain line per entry, without secrets."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from kuota.controller.logs import HIDDEN, JsonLines, LogStyle, PlainLines, begin, style

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2lnbmF0dXJl-_x"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc=\n-----END RSA PRIVATE KEY-----"


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, put back as it was."""
    found = logging.getLogger()
    kept = found.handlers[:], found.level
    yield found
    found.handlers[:], level = kept
    found.setLevel(level)


def test_a_line_is_json_with_kueues_fields(root: logging.Logger) -> None:
    stream = io.StringIO()
    begin(LogStyle(), stream=stream)
    logging.getLogger("kuota.test").info("hello %s", "world")
    line = json.loads(stream.getvalue())
    assert ("info", "hello world", "kuota.test") == (line["level"], line["msg"], line["logger"])
    assert line["ts"].endswith("Z")


def test_details_are_left_out_unless_asked_for(root: logging.Logger) -> None:
    stream = io.StringIO()
    begin(LogStyle(json=False), stream=stream)
    logging.getLogger("kuota.test").debug("details")
    logging.getLogger("kuota.test").warning("changes")
    assert "details" not in stream.getvalue()
    assert "changes" in stream.getvalue()


def test_a_failure_comes_with_its_trace_on_one_line(root: logging.Logger) -> None:
    stream = io.StringIO()
    begin(LogStyle(), stream=stream)
    try:
        raise ValueError(f"bad header Bearer {JWT}")
    except ValueError:
        logging.getLogger("kuota.test").exception("it failed")
    (text,) = stream.getvalue().splitlines()
    line = json.loads(text)
    assert ("error", "it failed") == (line["level"], line["msg"])
    assert "ValueError" in line["stacktrace"]
    assert JWT not in text


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {JWT}",
        "authorization: bearer abcdef0123456789",
        "Basic YWRtaW46aHVudGVyMg==",
        f"the token {JWT} was refused",
        f"key is {KEY}",
        f"key is cut {KEY[:50]}",
        "GET /x?token=hunter2hunter2&b=1",
        'said {"token": "hunter2hunter2", "a": 1}',
        "proxy https://me:hunter2@proxy:8080 failed",
        "this very word: opensesame!",
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str) -> None:
    for lines in (JsonLines(["opensesame!"]), PlainLines(["opensesame!"])):
        said = lines.format(_record(text))
        assert HIDDEN in said
        for secret in (JWT, "abcdef0123456789", "YWRtaW4", "hunter2", "MIIEow", "opensesame"):
            assert secret not in said


def test_plain_talk_is_left_alone() -> None:
    text = "Secret kueue-system/kueue-webhook-server-cert is renewed; basic scheduling; tokens=3"
    assert text in PlainLines(["", "abc"]).format(_record(text))


def _record(text: str) -> logging.LogRecord:
    return logging.LogRecord("kuota.test", logging.INFO, __file__, 1, "%s", (text,), None)


def test_fields_of_a_message_are_structured_in_either_form(root: logging.Logger) -> None:
    fields = {"workload": "team/a", "flavors": {"main": {"cpu": "x"}}, "detail": "two words"}
    stream = io.StringIO()
    begin(LogStyle(), stream=stream)
    logging.getLogger("kuota.test").info("admitted", extra={"fields": fields})
    line = json.loads(stream.getvalue())
    assert fields == {name: line[name] for name in fields}
    stream = io.StringIO()
    begin(LogStyle(json=False), stream=stream)
    logging.getLogger("kuota.test").info("admitted", extra={"fields": fields})
    said = 'admitted workload=team/a flavors={"main":{"cpu":"x"}} detail="two words"\n'
    assert stream.getvalue().endswith(said)


@pytest.mark.parametrize(("verbosity", "shown"), [(0, False), (1, False), (2, True), (4, True)])
def test_a_message_of_verbosity_2_is_logged_from_there_on(
    root: logging.Logger, verbosity: int, shown: bool
) -> None:
    stream = io.StringIO()
    begin(style(verbosity=verbosity), stream=stream)
    logging.getLogger("kuota.test").log(logging.INFO - 2, "detail")
    assert shown == ('"level":"info"' in stream.getvalue())
