# SPDX-License-Identifier: Apache-2.0
"""Keys of terminals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuota.cli.screen import keys
from kuota.cli.screen.keys import Keys


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"\x1b[A\x1b[B", [keys.UP, keys.DOWN]),
        (b"\x1bOA\x1bOB", [keys.UP, keys.DOWN]),
        (b"\x1b[5~\x1b[6~", [keys.PAGE_UP, keys.PAGE_DOWN]),
        (b"\x1b[H\x1b[4~", [keys.HOME, keys.END]),
        (b"\rjk\x7f", [keys.ENTER, "j", "k", keys.BACKSPACE]),
        ("é/".encode(), ["é", "/"]),
        (b"\x1b[1;5Aq", ["q"]),
        (b"\x1bq", [keys.ESCAPE, "q"]),
        (b"\x00\x07", []),
    ],
)
def test_sequences_are_named(sent: bytes, expected: list[str]) -> None:
    assert expected == Keys().feed(sent)


def test_a_sequence_may_come_in_pieces() -> None:
    decoder = Keys()
    assert [] == decoder.feed(b"\x1b")
    assert decoder.incomplete
    assert [] == decoder.feed(b"[")
    assert [keys.UP] == decoder.feed(b"A")
    assert not decoder.incomplete


def test_escape_alone_is_a_key_once_nothing_follows() -> None:
    decoder = Keys()
    assert [] == decoder.feed(b"\x1b")
    assert [keys.ESCAPE] == decoder.flush()
    assert [] == decoder.flush()


@given(st.lists(st.binary(max_size=20)))
def test_no_input_is_kept_for_ever(pieces: list[bytes]) -> None:
    decoder = Keys()
    for each in pieces:
        for key in decoder.feed(each):
            assert key.isprintable()
    decoder.flush()
    assert not decoder.incomplete
