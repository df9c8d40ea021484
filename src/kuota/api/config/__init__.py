# SPDX-License-Identifier: Apache-2.0
"""Reads and validates Kueue's configuration: the kind Configuration of `config.kueue.x-k8s.io`.

`load` reads a file. `faults` validates a configuration. `checked` does both and resolves the
feature gates.
"""

from .defaults import (
    default_configuration,
    defaulted,
    local_queue_metrics_enabled,
    wait_for_pods_ready_enabled,
)
from .duration import Duration
from .load import checked, from_json, load
from .rules import faults
from .shapes import Configuration

__all__ = [
    "Configuration",
    "Duration",
    "checked",
    "default_configuration",
    "defaulted",
    "faults",
    "from_json",
    "load",
    "local_queue_metrics_enabled",
    "wait_for_pods_ready_enabled",
]
