# SPDX-License-Identifier: Apache-2.0
"""Loads the job kinds and admission check controllers that other packages provide, at start-up.

A package declares each of them as an entry point whose value is a class without parameters:

    [project.entry-points."kuota.job_kinds"]
    minicluster = "my_package:MiniCluster"

    [project.entry-points."kuota.admission_checks"]
    office_hours = "my_package:OfficeHours"
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points

from kuota.bridge.jobs.kind import JobKind
from kuota.bridge.jobs.registry import ALL, JobKindRegistry
from kuota.control.checks import registry as checks
from kuota.control.checks.controller import CheckController

JOB_KINDS = "kuota.job_kinds"
ADMISSION_CHECKS = "kuota.admission_checks"


class PluginError(Exception):
    """A package declares a job kind or a controller that cannot be used."""


def load_job_kinds(registry: JobKindRegistry = ALL) -> None:
    """Add the job kinds of all installed packages. Raises PluginError.

    A process that starts without a kind that an administrator has installed would let its jobs run
    without quota, so a kind that cannot be loaded is an error.
    """
    _load(JOB_KINDS, "job kind", lambda entry: _add_kind(entry, registry))


def load_check_controllers(registry: checks.CheckControllerRegistry = checks.PLUGINS) -> None:
    """Add the admission check controllers of all installed packages. Raises PluginError.

    Without its controller a check admits nothing, so one that cannot be loaded is an error.
    """
    _load(ADMISSION_CHECKS, "admission check", lambda entry: _add_controller(entry, registry))


def _load(group: str, what: str, add: Callable[[EntryPoint], None]) -> None:
    for each in sorted(entry_points(group=group), key=lambda each: each.name):
        try:
            add(each)
        except Exception as error:
            package = each.dist.name if each.dist is not None else "a package"
            raise PluginError(f"{package}: {what} {each.name} = {each.value}: {error}") from error


def _add_controller(entry: EntryPoint, registry: checks.CheckControllerRegistry) -> None:
    controller = entry.load()()
    if not isinstance(controller, CheckController):
        raise TypeError("is not a subclass of kuota.control.checks.controller.CheckController")
    registry.add(controller)


def _add_kind(entry: EntryPoint, registry: JobKindRegistry) -> None:
    kind = entry.load()()
    if not isinstance(kind, JobKind):
        raise TypeError("is not a subclass of kuota.bridge.jobs.kind.JobKind")
    known = registry.get(kind.group_kind)
    if type(known) is not type(kind):
        registry.add(kind)
