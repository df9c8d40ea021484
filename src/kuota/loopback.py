# SPDX-License-Identifier: Apache-2.0
"""Whether others can reach an address at which something is to be served."""

from __future__ import annotations

import ipaddress


class InsecureAddress(ValueError):
    """Others could listen in on this address, or pretend to be somebody."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can talk to that host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
