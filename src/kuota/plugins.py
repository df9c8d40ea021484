# SPDX-License-Identifier: Apache-2.0
"""Loads the job kinds that other packages provide, at start-up.

A package declares each kind as an entry point whose value is a class without parameters:

    [project.entry-points."kuota.job_kinds"]
    minicluster = "my_package:MiniCluster"
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from kuota.bridge.jobs.kind import JobKind
from kuota.bridge.jobs.registry import ALL, Registry

GROUP = "kuota.job_kinds"


class PluginError(Exception):
    """A package declares a job kind that cannot be used."""


def load_job_kinds(registry: Registry = ALL) -> None:
    """Add the kinds of all installed packages. Raises PluginError.

    A process that starts without a kind that an administrator has installed would let its jobs run
    without quota, so a kind that cannot be loaded is an error.
    """
    for each in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        try:
            _add(each, registry)
        except Exception as error:
            package = each.dist.name if each.dist is not None else "a package"
            raise PluginError(f"{package}: job kind {each.name} = {each.value}: {error}") from error


def _add(entry: EntryPoint, registry: Registry) -> None:
    kind = entry.load()()
    if not isinstance(kind, JobKind):
        raise TypeError("is not a subclass of kuota.bridge.jobs.kind.JobKind")
    known = registry.get(kind.group_kind)
    if type(known) is not type(kind):
        registry.add(kind)
