# SPDX-License-Identifier: Apache-2.0
"""Runs the controller as a process: signals, exit status, and a bounded shutdown."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from typing import NoReturn

from kuota import loop
from kuota.kube.errors import ConfigError

from . import logs
from .controller import Controller
from .flags import ControllerSettings
from .leadership import LeadershipLost
from .ports import PortUnavailable

STOPPED = 0
FAILED = 1
DEADLINE_S = 0.8
"""The maximum time from the request to stop until the process has exited."""

_log = logging.getLogger(__name__)


def run(settings: ControllerSettings) -> NoReturn:
    """Run until a signal or a failure, then exit."""
    user = settings.connection.user
    secrets = (user.token.reveal(), user.password.reveal(), user.key.text.reveal())
    password = getattr(settings.history, "password", "")
    logs.begin(settings.log, (*secrets, password))
    loop.run(_served(settings))
    raise AssertionError("the process has ended")


async def _served(settings: ControllerSettings) -> NoReturn:
    status = await _status(settings)
    # Python's normal exit would wait for threads that are no longer needed.
    logging.shutdown()
    os._exit(status)


async def _status(settings: ControllerSettings) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, _stop, stop)
    try:
        await Controller(settings, on_lost=lambda: _end_soon(FAILED)).run(stop)
    except BaseExceptionGroup as failures:
        return _explained(failures)
    except (OSError, ConfigError, PortUnavailable) as error:
        _log.error("cannot start: %s", error)
        return FAILED
    return STOPPED


def _stop(stop: asyncio.Event) -> None:
    if stop.is_set():
        # A second signal stops the process immediately.
        os._exit(FAILED)
    _end_soon(STOPPED)
    stop.set()


def _end_soon(status: int) -> None:
    alarm = threading.Timer(DEADLINE_S, os._exit, (status,))
    alarm.daemon = True
    alarm.start()


def _explained(failures: BaseExceptionGroup[BaseException]) -> int:
    lost, others = failures.split(LeadershipLost)
    if lost is not None:
        _log.error("leader election lost")
    if others is not None:
        for each in others.exceptions:
            _log.error("a part of the controller failed", exc_info=each)
    return FAILED
