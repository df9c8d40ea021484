# SPDX-License-Identifier: Apache-2.0
"""The session of a viewer, and the events of a stream."""

from __future__ import annotations

from .base import Shape
from .places import NodesModel, TopologyModel
from .tree import QueueMeta, QueueModel, TreeModel
from .workload import WorkloadModel
from .workloads import WorkloadRow, WorkloadsModel


class SessionModel(Shape):
    """Who is signed in. `namespaces` are those whose workloads may be read; None means all.

    `csrf` is the value of the header X-Kuota-CSRF. `actions` is false if the dashboard is
    read-only. `changes` are the namespaces in which objects of each kind may be changed; None means
    all, also for kinds without a namespace. `server` is "machine" or "cluster".
    """

    user: str
    groups: list[str]
    role: str
    namespaces: list[str] | None
    csrf: str
    server: str
    version: str
    actions: bool
    changes: dict[str, list[str] | None] = {}


View = TreeModel | QueueModel | WorkloadsModel | WorkloadModel | TopologyModel | NodesModel


class SnapshotEvent(Shape):
    """Data of the event `snapshot`."""

    view: str
    model: View


class RowChange(Shape):
    """Data of the event `change` of views with rows. `remove` has keys of rows."""

    upsert: list[WorkloadRow] = []
    remove: list[str] = []
    meta: QueueMeta | None = None


class ModelChange(Shape):
    """Data of the event `change` of all other views: the model as a whole."""

    model: View
