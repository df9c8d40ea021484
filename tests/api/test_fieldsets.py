# SPDX-License-Identifier: Apache-2.0
"""Field sets in the form of fieldsV1."""

from __future__ import annotations

from typing import Any

import pytest

from kuota.api import fieldsets

Json = dict[str, Any]


def test_paths_are_written_as_kubernetes_writes_them() -> None:
    fields: Json = {
        "f:spec": {'k:{"port":80,"protocol":"TCP"}': {"f:x": {}}, 'v:"a"': {}, "i:3": {}}
    }
    expected = ['[="a"]', "[3]", '[port=80,protocol="TCP"].x']

    written = [fieldsets.written(path) for path in fieldsets.paths(fieldsets.from_wire(fields))]

    assert sorted(f".spec{each}" for each in expected) == sorted(written)


@pytest.mark.parametrize("fields", [[], {"x:a": {}}, {"k:[1]": {}}, {"k:{": {}}, {"f:a": [1]}])
def test_field_sets_that_cannot_be_read_are_refused(fields: Any) -> None:
    with pytest.raises(fieldsets.FieldSetError):
        fieldsets.from_wire(fields)
