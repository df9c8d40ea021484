# SPDX-License-Identifier: Apache-2.0
"""Which resources are devices: one definition for metrics, accounts and the dashboard."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from kuota.api.device_resources import is_device, resource_order

OTHERS = ("attachable-volumes-x", "cpu", "ephemeral-storage", "hugepages-2Mi", "memory", "pods")


@pytest.mark.parametrize("resource", OTHERS)
def test_what_every_node_has_is_no_device(resource: str) -> None:
    assert not is_device(resource)


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "whole-gpus", "example.com/license"])
def test_extended_resources_and_those_of_device_classes_are_devices(resource: str) -> None:
    assert is_device(resource)


def test_devices_come_first() -> None:
    assert ["a/gpu", "z", *OTHERS] == sorted((*OTHERS, "z", "a/gpu"), key=resource_order)


def test_the_pages_of_the_dashboard_use_the_same_list() -> None:
    page = files("kuota.dashboard").joinpath("static/js/format.js").read_text()
    (listed,) = re.findall(r"NO_DEVICES = new Set\(\[(.*?)\]\)", page)
    names = re.findall(r'"([^"]+)"', listed)
    assert names
    assert not any(is_device(each) for each in names)
    (prefixes,) = re.findall(r"/\^\(([\w|-]+)\)-/", page)
    assert all(not is_device(f"{each}-x") for each in prefixes.split("|"))
