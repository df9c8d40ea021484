# SPDX-License-Identifier: Apache-2.0
"""Prints data as JSON or YAML, the same way for every command."""

from __future__ import annotations

import json
from typing import Any

import click

FORMATS = ("json", "yaml")


def show(value: Any, form: str) -> None:
    """Print structs, lists and maps in one of FORMATS."""
    import msgspec

    plain = msgspec.to_builtins(value)
    if form == "json":
        click.echo(json.dumps(plain, indent=2, ensure_ascii=False))
    else:
        import yaml

        words = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)
        click.echo(words, nl=False)
