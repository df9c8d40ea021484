# SPDX-License-Identifier: Apache-2.0
"""Validation of Kueue's objects, shared by webhook, server and command line.

`faults` is the whole of it. `schema_faults` is what an API server with Kueue's CRDs refuses by
itself, `webhook_faults` what Kueue's webhooks refuse after that, `unknown_faults` what a strict
client refuses. All faults are returned at once, none is raised, whatever the JSON holds.
"""

from .job import job_faults
from .pod import pod_faults, pod_warnings
from .validation import faults, schema_faults, unknown_faults
from .webhook import webhook_faults, webhook_warnings

__all__ = [
    "faults",
    "job_faults",
    "pod_faults",
    "pod_warnings",
    "schema_faults",
    "unknown_faults",
    "webhook_faults",
    "webhook_warnings",
]
