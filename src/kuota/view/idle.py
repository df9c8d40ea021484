# SPDX-License-Identifier: Apache-2.0
"""Idle devices: allocated to a pod, but below a utilization for a minimum time. Pure.

An `IdlePeriod` is a fact that can be recorded: the metrics, `kuota gpus` and the history count idle
device time with the same definition.
"""

from __future__ import annotations

import msgspec

REASON = "DeviceIdle"
"""The reason of the Event that reports an idle device."""


class IdlePolicy(msgspec.Struct, frozen=True):
    """A device is idle once its utilization was below `threshold_percent` for `after_s` seconds."""

    threshold_percent: float = 5.0
    after_s: float = 1800.0

    @property
    def words(self) -> str:
        """The rule in words."""
        return f"below {self.threshold_percent:g} % for {_span(self.after_s)}"


class DeviceHolder(msgspec.Struct, frozen=True):
    """The pod that holds a device. `workload` is the name of its Workload, "" if it has none."""

    namespace: str
    pod: str
    pod_uid: str
    workload: str = ""
    cluster_queue: str = ""


class HeldDevice(msgspec.Struct, frozen=True):
    """An allocated device and its latest utilization; None if there is no reading."""

    device: str
    resource: str
    holder: DeviceHolder
    utilization_percent: float | None = None


class IdlePeriod(msgspec.Struct, frozen=True):
    """A time in which a device was idle, from `since` up to `until`, in seconds since the epoch.

    A period is identified by pod, device and `since`. While it continues, it is reported again and
    again with a later `until`, so that recording the latest report of each period counts no second
    twice, even after a crash.
    """

    holder: DeviceHolder
    device: str
    resource: str
    since: float
    until: float

    @property
    def identity(self) -> tuple[str, str, float]:
        return self.holder.pod_uid, self.device, self.since

    @property
    def seconds(self) -> float:
        return self.until - self.since


def _span(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    if not minutes:
        return f"{rest}s"
    return f"{minutes}m{rest}s" if rest else f"{minutes}m"
