# SPDX-License-Identifier: Apache-2.0
"""Builders for tests of server-side apply: one ConfigMap and several managers."""

from __future__ import annotations

import copy
from typing import Any

from kuota.server.apply import applied, tracked
from kuota.server.ownership_schema import Schema, builtin_schema

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z"
Json = dict[str, Any]


def schema(api_version: str, kind: str) -> Schema:
    schema = builtin_schema(api_version, kind)
    assert schema is not None
    return schema


CONFIG_MAP = schema("v1", "ConfigMap")


def config_map(data: Json | None = None, **metadata: Any) -> Json:
    out = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", **metadata}}
    return out if data is None else out | {"data": data}


def apply(live: Json | None, config: Json, manager: str = "a", **more: Any) -> Json:
    options: Json = {"force": False, "now": NOW, "schema": CONFIG_MAP} | more
    before = copy.deepcopy((live, config))
    result = applied(live, config, manager=manager, **options)
    assert before == (live, config)
    return result


def track(old: Json | None, new: Json, manager: str = "a", **more: Any) -> Json:
    options: Json = {"now": NOW, "schema": CONFIG_MAP} | more
    return tracked(old, new, manager=manager, **options)


def owned(obj: Json) -> dict[str, Json]:
    """What each owns, by `manager operation`."""
    return {
        f"{each['manager']} {each['operation']}": each["fieldsV1"]
        for each in obj["metadata"].get("managedFields", ())
    }
