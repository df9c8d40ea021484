# SPDX-License-Identifier: Apache-2.0
"""Which Workloads depend on devices, and what they are charged."""

from __future__ import annotations

import pytest

from bridge.objects import pod_set, workload
from kuota.api.base import Json, Key
from kuota.api.gates import Gates
from kuota.bridge.devices.charges import capacity_charge
from kuota.bridge.devices.claims import Devices, device_requests, needs_devices
from kuota.bridge.devices.mappings import Source

CLASSES: dict[str, Json] = {"example.com/gpu": {}, "gpu": {}}


@pytest.mark.parametrize(
    ("name", "amount", "needed"),
    [
        pytest.param("example.com/gpu", "1", True, id="a DeviceClass provides it"),
        pytest.param("example.com/gpu", "0", False, id="none is requested"),
        pytest.param("example.com/tpu", "1", False, id="no DeviceClass provides it"),
        pytest.param("gpu", "1", False, id="not an extended resource"),
    ],
)
def test_a_workload_depends_on_devices_of_the_extended_resources_it_requests(
    name: str, amount: str, needed: bool
) -> None:
    obj = workload("w", pod_set(requests={name: amount}))
    assert needed is needs_devices(obj, CLASSES, Gates())


def test_a_fraction_of_a_unit_does_not_satisfy_a_larger_fraction() -> None:
    policy = {"validValues": ["200m", "2"]}
    device = {"capacity": {"memory": {"value": "4", "requestPolicy": policy}}}
    source = Source(resource="gpu", driver="d", name="memory")
    assert 2 == capacity_charge(source, [device], 1, "500m", "")


def test_admin_access_is_free_but_needs_a_matching_device() -> None:
    [fault] = _admin_faults({}, devices=0)
    assert fault.endswith("insufficient matching devices for CEL selector: found 0, requested 1")
    assert [] == _admin_faults({}, devices=1)
    assert [] == _admin_faults({"allocationMode": "All"}, devices=0)


def _admin_faults(request: Json, *, devices: int) -> list[str]:
    """Return the faults of a Workload that requests admin access to devices with a selector."""
    selectors = [{"cel": {"expression": "any"}}]
    exactly = {"deviceClassName": "gpu", "adminAccess": True, "selectors": selectors} | request
    claim = {"spec": {"spec": {"devices": {"requests": [{"exactly": exactly}]}}}}
    pods = pod_set()
    pods["template"]["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimTemplateName": "c"}]
    obj = workload("w", pods)
    offered = Devices(
        classes={"gpu": {}},
        templates={Key(obj.metadata.namespace, "c"): claim},
        slices=({"spec": {"driver": "d", "devices": [{}] * devices}},),
        compile_selector=lambda _: lambda driver, device: True,
    )
    found = device_requests(obj, offered, Gates())
    assert not any(each.amounts for each in found.values())
    return [fault for each in found.values() for fault in each.faults]
