# SPDX-License-Identifier: Apache-2.0
"""The statements that the store is made of."""

from __future__ import annotations

ROW = "SELECT revision, body FROM objects WHERE resource = ? AND namespace = ? AND name = ?"
PUT = (
    "INSERT INTO objects VALUES (?, ?, ?, ?, ?) ON CONFLICT (resource, namespace, name) "
    "DO UPDATE SET revision = excluded.revision, body = excluded.body"
)
DROP = "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?"
LOG = "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
EVERYTHING = "SELECT resource, namespace, name, body FROM objects"
COMPACTED = "SELECT value FROM state WHERE name = 'compacted'"
COMPACT = "UPDATE state SET value = ? WHERE name = 'compacted'"
TRIM = "DELETE FROM log WHERE revision <= ?"
NEWEST = "SELECT ifnull(max(revision), 0) FROM log"
# Entries are dated in order, so this reads no more than what is about to go.
BEFORE = "SELECT revision - 1 FROM log WHERE revision > ? AND at >= ? ORDER BY revision LIMIT 1"
# From each resource straight to the next, instead of through all objects.
RESOURCES = """
    WITH RECURSIVE found (name) AS (
        SELECT min(resource) FROM objects UNION ALL
        SELECT (SELECT min(resource) FROM objects WHERE resource > found.name) FROM found
        WHERE name IS NOT NULL
    )
    SELECT name FROM found WHERE name IS NOT NULL
"""

_NOW = "SELECT namespace, name, body FROM objects WHERE resource = :resource"
_REPLACED = "SELECT namespace, name, replaced FROM log WHERE resource = :resource"
_CHANGES = "SELECT revision, type, resource, namespace, name, body, replaced FROM log"


def page(past: bool, one_namespace: bool, further: bool) -> str:
    """Bodies of a resource in order: as of revision :at if `past`, of one namespace or all, from
    the first or from after a key."""
    where = " AND namespace = :namespace" if one_namespace else ""
    if further:
        where += " AND (namespace, name) > (:after_namespace, :after_name)"
    query = _NOW + where
    if past:
        # What has not changed since, and what the first later change of any other replaced. Both
        # arms are told the order, so that SQLite merges them and stops at the limit.
        query += f" AND revision <= :at UNION ALL {_REPLACED}{where}"
        query += " AND revision > :at AND prior <= :at"
    return f"{query} ORDER BY namespace, name LIMIT :limit"


def changes(one_resource: bool, one_namespace: bool) -> str:
    """Entries of the log after revision :since."""
    where = "revision > :since"
    where += " AND resource = :resource" if one_resource else ""
    where += " AND namespace = :namespace" if one_namespace else ""
    return f"{_CHANGES} WHERE {where} ORDER BY revision LIMIT :limit"
