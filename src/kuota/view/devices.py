# SPDX-License-Identifier: Apache-2.0
"""Devices of one machine as they are shown. Pure."""

from __future__ import annotations

import msgspec

GROUP = "machine.kuota.dev"
DEVICES_PATH = f"/apis/{GROUP}/v1alpha1/devices"


class DeviceRow(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One device. The holder is empty if the device is free or the caller may not see the pod.

    Readings are None where the device has none. `idle_since` is empty unless the device is idle
    (see `kuota.view.idle`).
    """

    node: str
    resource: str
    id: str
    held: bool = False
    namespace: str = ""
    pod: str = ""
    job: str = ""
    since: str = ""
    utilization_percent: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    workload: str = ""
    idle_since: str = ""
