# SPDX-License-Identifier: Apache-2.0
"""Validates Kueue's objects. The webhooks, the server and the command line share these rules.

`faults` applies all rules. `schema_faults` returns what an API server with Kueue's CRDs rejects,
`webhook_faults` what Kueue's webhooks reject after that, and `unknown_faults` what a strict client
rejects. All of them accept any JSON, return all faults at once, and never raise.
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
