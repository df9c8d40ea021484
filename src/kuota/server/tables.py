# SPDX-License-Identifier: Apache-2.0
"""Response formats of objects: complete, as a table, or metadata only."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import Enum
from typing import Any

from kuota.api.base import Json

from .columns import Column, mapped
from .kinds import Version

_META = "meta.k8s.io/v1"


class Form(Enum):
    """The format that an Accept header requests."""

    WHOLE = "whole"
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"


def form_of(accept: str) -> Form:
    """The first supported format in the header. Protobuf is not; its clients accept JSON."""
    for media in accept.split(","):
        words = {part.strip() for part in media.split(";")}
        if "application/json" not in words and "*/*" not in words:
            continue
        if "as=Table" in words:
            return Form.TABLE
        if "as=PartialObjectMetadata" in words or "as=PartialObjectMetadataList" in words:
            return Form.METADATA
        return Form.WHOLE
    return Form.WHOLE


def table(
    version: Version,
    rows: Sequence[tuple[Json, Json]],
    now: datetime,
    *,
    include: str,
    headed: bool = True,
) -> Json:
    """A Table of (shown, served) objects: cells are read from the first, rows include the second.

    `include` selects what each row contains: "Metadata", "Object" or "None".
    """
    columns = version.columns
    return {
        "kind": "Table",
        "apiVersion": _META,
        "metadata": {},
        "columnDefinitions": [_definition(each) for each in columns] if headed else None,
        "rows": [
            {
                "cells": [_cell(each, shown, now) for each in columns],
                "object": _along(served, include),
            }
            for shown, served in rows
        ],
    }


def _definition(column: Column) -> Json:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description or column.name,
        "priority": 1 if column.wide else 0,
    }


def _cell(column: Column, obj: Json, now: datetime) -> Any:
    # Custom objects may contain anything: a failing cell must not hide the row.
    try:
        return column.cell(obj, now)
    except (TypeError, ValueError, AttributeError, KeyError):
        return "<error>"


def _along(served: Json, include: str) -> Json | None:
    if include == "None":
        return None
    return served if include == "Object" else metadata_only(served)


def metadata_only(obj: Json) -> Json:
    """The metadata of an object, for clients that only watch metadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": _META,
        "metadata": mapped(obj.get("metadata")),
    }
