# SPDX-License-Identifier: Apache-2.0
"""The options that define when an allocated GPU is idle."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from .amounts import Integer, Number

F = TypeVar("F", bound=Callable[..., object])


def idle_options(function: F) -> F:
    """Add the options --idle-below and --idle-after."""
    below = click.option(
        "--idle-below",
        type=Number(0, 100),
        default=5.0,
        show_default=True,
        metavar="PERCENT",
        help="A GPU that is allocated, but utilized less than this, is idle after --idle-after.",
    )
    after = click.option(
        "--idle-after",
        type=Integer(1),
        default=1800,
        show_default=True,
        metavar="SECONDS",
        help="How long the utilization must be below --idle-below.",
    )
    return below(after(function))
