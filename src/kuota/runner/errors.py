# SPDX-License-Identifier: Apache-2.0
"""What keeps a container from starting."""

from __future__ import annotations


class LaunchError(Exception):
    """A container cannot be started. `permanent` when trying again cannot help.

    `reason` is the word for the container's state, as a kubelet would write it.
    """

    def __init__(self, reason: str, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.permanent = permanent
