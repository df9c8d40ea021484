# SPDX-License-Identifier: Apache-2.0
"""The failure policy: every unexpected exception is counted and logged, and none is ignored.

After that it is undone or retried by whoever caught it, or it ends the process, so that a new one
starts from the API server's state. `docs/decisions/023-one-failure-policy.md` says which applies
where. Expected failures, such as a refusal by the API server, are not reported here.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, ParamSpec

from kuota.api.backoff import Backoff

P = ParamSpec("P")

PAUSE = Backoff(base=1_000, cap=60_000)
"""Waits before work that failed is started again, in milliseconds."""

COUNTS: Counter[str] = Counter()
"""Unexpected exceptions since the process started, by the part of the program that failed."""

INTERNAL_ERROR = "InternalError"
"""The reason of events about objects on which work fails unexpectedly."""

_log = logging.getLogger(__name__)


class Fatal(BaseException):
    """State in memory no longer matches the API server, so the process has to end.

    It is no `Exception`: handlers that retry the work on one object must not catch it.
    """


def report(where: str, error: BaseException, what: str) -> None:
    """Count and log an unexpected exception. The caller undoes or retries what it interrupted."""
    COUNTS[where] += 1
    _log.error("%s", what, exc_info=error)


def note(doing: str, error: Exception) -> str:
    """What an event says about work on its object that failed unexpectedly."""
    return f"{doing} failed unexpectedly and will be retried: {error!r}"


def tolerated(where: str, call: Callable[P, None]) -> Callable[P, None]:
    """The same call, except that a failure is reported and goes no further.

    For observers on which no decision depends, such as metrics.
    """

    @wraps(call)
    def safe(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            call(*args, **kwargs)
        except Exception as error:
            report(where, error, f"{where}: an observer failed and was skipped")

    return safe


async def retried(where: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run `work` until it returns; each time it fails, report that and start it again later."""
    failures = 0
    while True:
        began = asyncio.get_running_loop().time()
        try:
            return await work()
        except Exception as error:
            lasted_s = asyncio.get_running_loop().time() - began
            failures = 1 if lasted_s * 1000 >= PAUSE.cap else failures + 1
            pause_s = PAUSE.wait(failures) / 1000
            report(where, error, f"{where} failed; starting it again in {pause_s:g} s")
        await asyncio.sleep(pause_s)


@asynccontextmanager
async def alongside(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `work` for as long as the body runs. A failure of either ends both and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
            try:
                yield
            finally:
                for each in tasks:
                    each.cancel()
    except BaseExceptionGroup as failures:
        check_cancelled()
        raise cause(failures) from failures


def check_cancelled() -> None:
    """Raise CancelledError if this task is being cancelled.

    Before Python 3.13, a task group forgets a cancellation if one of its tasks fails at the same
    moment. A caller that handles the failure would go on for ever.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def cause(error: BaseException) -> BaseException:
    """The first exception in a group that says what went wrong, or the exception itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
