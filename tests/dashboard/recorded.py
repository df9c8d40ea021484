# SPDX-License-Identifier: Apache-2.0
"""A history with one job of each of two teams."""

from __future__ import annotations

from kuota.history.address import SqliteFile
from kuota.history.database import HistoryWriter, RecordingProgress
from kuota.history.records import PREEMPTED, JobRecord, Run


def write_history(file: str, **uids: str) -> None:
    """Record a preempted job of ann in vision, and one of bob in speech.

    `uids` are those of the Workloads, by team.
    """
    run = Run(1000.0, 1000.0, "cq", {"a100": {"nvidia.com/gpu": 1}}, 4600.0, PREEMPTED)
    named = "job-train", "Job", "train"
    records = [
        JobRecord(uids.get(team, team), team, *named, f"{team}-queue", user, 1000.0, (run,))
        for team, user in (("vision", "ann"), ("speech", "bob"))
    ]
    with HistoryWriter(SqliteFile(file)) as history:
        history.write(*records, progress=RecordingProgress("1", 2000.0))
