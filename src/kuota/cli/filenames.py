# SPDX-License-Identifier: Apache-2.0
"""The option `-f`, by which commands are told of manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

PATH = click.Path(allow_dash=True)
WHERE = "A file, a folder (read with all below it), or - for standard input. May be repeated."


def filename_option(text: str = WHERE, *, required: bool = False) -> Callable[[F], F]:
    """Adds it; the command gets `filenames`."""
    return click.option(
        *("-f", "--filename", "filenames"),
        multiple=True,
        required=required,
        type=PATH,
        metavar="FILE",
        help=text,
    )
