# SPDX-License-Identifier: Apache-2.0
"""The settings of a run that are kept in its directory, for those who adopt it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kuota.steady_time import boot_id

if TYPE_CHECKING:
    from .processes import Launch

LOG_BYTES, LOG_FILES = 10 << 20, 5
"""The default size of a log file before it is rotated, and the number of files that are kept."""
_LONGEST_NAME = 1000


class RunSettings(msgspec.Struct, frozen=True, array_like=True):
    """What another shim needs to adopt a run, and the boot in which the run started.

    `program` and `folder` are for the message if the command cannot be started.
    """

    log_bytes: int = LOG_BYTES
    log_files: int = LOG_FILES
    cgroup: str = ""
    boot: str = ""
    program: str = ""
    folder: str = ""


def keep_settings(folder: str, launch: Launch) -> None:
    """Record the settings of a run that starts now. Raises OSError."""
    settings = RunSettings(
        launch.log_bytes,
        launch.log_files,
        launch.cgroup,
        boot_id(),
        _text(launch.argv[0]),
        _text(launch.cwd),
    )
    with open(folder + "/settings", "wb") as file:
        file.write(msgspec.json.encode(settings))


def kept_settings(folder: str) -> RunSettings:
    """The recorded settings; defaults if they were lost with a crash of the machine."""
    try:
        with open(folder + "/settings", "rb") as file:
            return msgspec.json.decode(file.read(), type=RunSettings)
    except (OSError, msgspec.DecodeError):
        return RunSettings()


def _text(name: str) -> str:
    """Return the name, shortened, without bytes that are not UTF-8: those of a Secret may be."""
    return name[:_LONGEST_NAME].encode(errors="replace").decode()
