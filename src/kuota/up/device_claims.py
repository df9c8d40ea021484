# SPDX-License-Identifier: Apache-2.0
"""Detects that another control plane of this machine offers the same GPUs.

Each control plane allocates devices on its own, so two of them would assign one GPU twice. A claim
is an abstract Unix socket with the UUID of the device in its name: it needs no directory that all
users share, and the kernel removes it with the process. Any user could take such a name, so a claim
that fails is only a warning.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from kuota.runner.inventory import is_pretended
from kuota.runner.nodes import NodePlan

_log = logging.getLogger(__name__)


@contextmanager
def claimed_devices(plans: Iterable[NodePlan]) -> Iterator[list[str]]:
    """Claim the GPUs of the Nodes, and warn about those that another control plane offers.

    Yields these. Simulated GPUs are not claimed.
    """
    found = {each for plan in plans for ids in plan.devices.values() for each in ids}
    with ExitStack() as stack:
        real = sorted(each for each in found if not is_pretended(each))
        taken = [each for each in real if not _is_claimed(each, stack)]
        if taken:
            _log.warning(
                "another control plane of this machine offers the same GPUs and may assign them to "
                "its pods at the same time: %s; stop one of them, or simulate its GPUs (--gpus)",
                ", ".join(taken),
            )
        yield taken


def _is_claimed(device: str, stack: ExitStack) -> bool:
    claim = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    try:
        claim.bind(f"\0kuota-device-{device}")
    except OSError:
        return False
    return True
