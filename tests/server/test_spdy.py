# SPDX-License-Identifier: Apache-2.0
"""SPDY/3.1 as kubectl speaks it: frames, limits, and streams on one connection."""

from __future__ import annotations

import asyncio
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuota.server.streaming import spdy_frames as frames
from kuota.server.streaming.inbox import MOST_BUFFERED
from kuota.server.streaming.protocols import Disconnected
from kuota.server.streaming.spdy import MOST_STREAMS, SpdyConnection


def test_the_dictionary_is_that_of_the_specification() -> None:
    assert (1423, 0xE3C6A7C2) == (len(frames.DICTIONARY), zlib.adler32(frames.DICTIONARY))


@given(st.lists(st.integers(1, 40), max_size=30))
def test_frames_may_arrive_in_any_pieces(cuts: list[int]) -> None:
    encoder, decoder = frames.Encoder(), frames.Decoder()
    sent = encoder.opened(1, {"streamType": "error"}) + encoder.opened(3, {"port": "80"})
    sent += frames.data(3, b"hello", finished=True) + frames.ping(7) + frames.reset(1)
    found: list[frames.Frame] = []
    for cut in [*cuts, len(sent)]:
        found += decoder.feed(sent[:cut])
        sent = sent[cut:]
    assert [
        frames.Opened(1, {"streamtype": "error"}, False),
        frames.Opened(3, {"port": "80"}, False),
        frames.Received(3, b"hello", True),
        frames.Pinged(7),
        frames.Reset(1),
    ] == found


@given(st.binary(max_size=200))
def test_garbage_is_reported_as_a_violation_of_the_protocol(garbage: bytes) -> None:
    for prefix in (b"", b"\x80\x03\x00\x01\x00\x00\x00\x20", b"\x80\x03\x00\x03\x00\x00\x00\x02"):
        try:
            list(frames.Decoder().feed(prefix + garbage))
        except frames.SpdyError:
            continue


@pytest.mark.parametrize(
    "sent",
    [
        frames.data(1, b"")[:5] + b"\xff\xff\xff",
        frames.Encoder().opened(1, {"bomb": "0" * (1 << 20)}),
        frames.Encoder().opened(1, {str(at): "" for at in range(100)}),
    ],
)
def test_a_peer_cannot_make_the_server_allocate_without_limit(sent: bytes) -> None:
    with pytest.raises(frames.SpdyError, match="limit"):
        list(frames.Decoder().feed(sent))


class Pipe:
    """A link whose peer is the test."""

    def __init__(self) -> None:
        self.arriving: asyncio.Queue[bytes] = asyncio.Queue()
        self.sent = bytearray()

    async def receive(self) -> bytes:
        content = await self.arriving.get()
        if not content:
            raise Disconnected
        return content

    async def send(self, content: bytes) -> None:
        self.sent += content


def test_streams_of_one_connection_are_kept_apart() -> None:
    async def main() -> None:
        pipe, encoder = Pipe(), frames.Encoder()
        connection = SpdyConnection(pipe)
        running = asyncio.ensure_future(connection.run())
        for content in (
            encoder.opened(1, {"streamType": "stdin"}),
            encoder.opened(3, {"streamType": "resize"}),
            frames.data(3, b"size"),
            frames.data(1, b"in", finished=True),
            frames.data(99, b"of no stream"),
            frames.ping(1),
        ):
            pipe.arriving.put_nowait(content)
        first, second = await connection.accept(), await connection.accept()
        assert (b"in", b"", b"size") == (
            await first.read(),
            await first.read(),
            await second.read(),
        )
        await first.write(b"x" * 100_000)
        await first.finish()
        pipe.arriving.put_nowait(b"")
        with pytest.raises(Disconnected):
            await running
        assert b"" == await second.read()
        answers = list(frames.Decoder().feed(bytes(pipe.sent)))
        data = [each for each in answers if isinstance(each, frames.Received)]
        assert frames.Pinged(1) in answers
        assert (100_000, True) == (sum(len(each.content) for each in data), data[-1].finished)

    asyncio.run(main())


def test_streams_beyond_the_limit_are_reset() -> None:
    async def main() -> None:
        pipe, encoder = Pipe(), frames.Encoder()
        running = asyncio.ensure_future(SpdyConnection(pipe).run())
        for at in range(MOST_STREAMS + 1):
            pipe.arriving.put_nowait(encoder.opened(2 * at + 1, {}))
        pipe.arriving.put_nowait(b"")
        with pytest.raises(Disconnected):
            await running
        answers = frames.Decoder().feed(bytes(pipe.sent))
        resets = [each for each in answers if isinstance(each, frames.Reset)]
        assert [frames.Reset(2 * MOST_STREAMS + 1)] == resets

    asyncio.run(main())


def test_a_client_that_resets_its_streams_does_not_fill_the_queue_of_new_ones() -> None:
    async def main() -> None:
        pipe, encoder = Pipe(), frames.Encoder()
        running = asyncio.ensure_future(SpdyConnection(pipe).run())
        for at in range(MOST_STREAMS + 3):
            pipe.arriving.put_nowait(encoder.opened(2 * at + 1, {}) + frames.reset(2 * at + 1))
        pipe.arriving.put_nowait(b"")
        with pytest.raises(Disconnected):
            await running
        answers = frames.Decoder().feed(bytes(pipe.sent))
        assert 3 == sum(isinstance(each, frames.Reset) for each in answers)

    asyncio.run(main())


def test_all_streams_of_a_connection_share_one_buffer() -> None:
    async def main() -> None:
        pipe, encoder = Pipe(), frames.Encoder()
        connection = SpdyConnection(pipe)
        running = asyncio.ensure_future(connection.run())
        for at in range(64):
            pipe.arriving.put_nowait(encoder.opened(2 * at + 1, {}))
        for at in range(64):
            pipe.arriving.put_nowait(frames.data(2 * at + 1, b"x" * 16_384))
        streams = [await connection.accept() for _ in range(64)]
        for _ in range(1000):
            await asyncio.sleep(0)
        left = pipe.arriving.qsize()
        assert left >= 64 - MOST_BUFFERED // 16_384 - 1
        for each in streams:
            assert 16_384 == len(await each.read())
        assert 0 == pipe.arriving.qsize()
        running.cancel()

    asyncio.run(main())
