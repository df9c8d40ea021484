# SPDX-License-Identifier: Apache-2.0
"""Server-side apply gives the recorded responses of Kubernetes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kuota.server.apply import ApplyConflict
from server.applying import Json, apply, schema, track

RECORDED = Path(__file__).with_name("recorded_apply.json")


def _plain(value: Any) -> Any:
    """The value without what Kubernetes' own JSON has but nobody set."""
    if isinstance(value, dict):
        parts = ((name, _plain(below)) for name, below in value.items())
        return {name: below for name, below in parts if below not in (None, {}, [], "")}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _entries(obj: Json) -> list[str]:
    managed = obj["metadata"].get("managedFields", ())
    timeless = ({k: v for k, v in each.items() if k != "time"} for each in managed)
    return sorted(json.dumps(each, sort_keys=True) for each in timeless)


def _without_entries(obj: Json) -> Json:
    bookkeeping = ("managedFields", "uid")
    metadata = {k: v for k, v in obj["metadata"].items() if k not in bookkeeping}
    return obj | {"metadata": metadata}


class _History:
    """Replays recorded writes, each on the object that Kubernetes had."""

    def __init__(self, version: str, kind: str) -> None:
        self.schema = schema(version, kind)
        self.live: Json | None = None
        self.at = 0

    def replay(self, step: Json) -> None:
        self.at += 1
        now = f"2026-01-01T00:00:{self.at:02d}Z"
        more: Json = {"now": now, "schema": self.schema}
        more["subresource"] = step.get("subresource", "")
        if step["op"] == "update":
            after = track(self.live, step["object"], step["manager"], **more)
            expected = {"metadata": {"managedFields": step["managedFields"]}}
            assert _entries(expected) == _entries(after)
            self.live = after
            return
        more["force"] = step.get("force", False)
        if "causes" in step:
            with pytest.raises(ApplyConflict) as caught:
                apply(self.live, step["object"], step["manager"], **more)
            self.compare_conflict(step, caught.value)
            return
        after = apply(self.live, step["object"], step["manager"], **more)
        expected = step["result"]
        assert _entries(expected) == _entries(after)
        assert _plain(_without_entries(expected)) == _plain(_without_entries(after))
        managed = after["metadata"].get("managedFields")
        self.live = expected | {"metadata": expected["metadata"] | {"managedFields": managed}}

    def compare_conflict(self, step: Json, conflict: ApplyConflict) -> None:
        causes = conflict.causes
        assert step["causes"] == sorted(causes, key=lambda each: (each["message"], each["field"]))
        if len({each["message"] for each in causes}) == 1:
            assert sorted(step["message"].splitlines()) == sorted(str(conflict).splitlines())


@pytest.mark.parametrize("case", json.loads(RECORDED.read_text()), ids=lambda case: case["name"])
def test_histories_of_kubernetes_are_reproduced(case: Any) -> None:
    """Recorded from the field manager of Kubernetes 1.36, without the times."""
    history = _History(case["version"], case["kind"])
    for step in case["steps"]:
        history.replay(step)
