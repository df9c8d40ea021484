# SPDX-License-Identifier: Apache-2.0
"""Prints objects as JSON, as YAML or by name, the same way for every command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from kuota.api.base import Json
    from kuota.kube.resources import Resource

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


def name_text(resource: Resource, obj: Json) -> str:
    """`job.batch/train`: what other commands take back."""
    kind = resource.kind.lower()
    return f"{f'{kind}.{resource.group}' if resource.group else kind}/{obj['metadata']['name']}"


def tidied(obj: Json) -> Json:
    """The object without its managedFields, which are for programs; apiVersion and kind first."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    head = {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind"), "metadata": metadata}
    return head | {key: value for key, value in obj.items() if key not in head}
