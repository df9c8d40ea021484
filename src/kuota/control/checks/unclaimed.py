# SPDX-License-Identifier: Apache-2.0
"""The condition of an AdmissionCheck that no controller is responsible for. Pure."""

from __future__ import annotations

from collections.abc import Collection

from kuota.api.base import condition
from kuota.api.kueue import AdmissionCheck

from .controller import Activity

NO_CONTROLLER = "NoController"
"""The reason of the condition."""


def unclaimed(check: AdmissionCheck, names: Collection[str]) -> Activity | None:
    """Return the condition of a check whose controller is not among `names`; None to leave it.

    A controller in another process reports its own condition, which is never replaced.
    """
    reported = condition(check.status.conditions, "Active")
    if reported is not None and reported.reason != NO_CONTROLLER:
        return None
    wanted = check.spec.controller_name
    message = (
        f'no controller has reported on this check: controllerName is "{wanted}", and Kuota has '
        f"{', '.join(sorted(names)) or 'no admission check controller'}. Start the controller "
        f'"{wanted}", or create the check again with the right controllerName, or remove it from '
        "the ClusterQueues that use it"
    )
    return Activity(False, NO_CONTROLLER, message)
