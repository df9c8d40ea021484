# SPDX-License-Identifier: Apache-2.0
"""Devices: discovery, exclusive allocation, and persistence across restarts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kuota.api.base import Json
from kuota.runner.devices import DeviceAllocations, shares
from kuota.runner.inventory import GPU, found_gpus, pretended
from kuota.runner.launch import device_env

NODES = {"a": pretended(4, "a").ids, "b": pretended(2, "b").ids}
moves = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(0, 9), st.sampled_from("ab"), st.integers(0, 3)),
        st.tuples(st.just("release"), st.integers(0, 9), st.just(""), st.just(0)),
        st.tuples(st.just("restart"), st.just(0), st.just(""), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(moves)
def test_no_device_is_ever_held_by_two_pods(what: list[tuple[str, int, str, int]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/devices.json"
        allocations = DeviceAllocations(path, NODES)
        for action, pod, node, count in what:
            before = allocations.holders()
            if action == "restart":
                allocations = DeviceAllocations(path, NODES)
                assert before == allocations.holders()
            elif action == "release":
                allocations.release(f"pod-{pod}")
            else:
                grant = allocations.take(f"pod-{pod}", node, {GPU: count, "cpu": 1})
                assert grant is None or f"pod-{pod}" in before or count == len(grant[GPU])
            held = [each for grant in allocations.holders().values() for each in grant.get(GPU, [])]
            assert len(set(held)) == len(held)
            free = [each for name in NODES for each in allocations.free(name)[GPU]]
            assert sorted([*held, *free]) == sorted(NODES["a"][GPU] + NODES["b"][GPU])


def test_asking_again_gives_the_same_devices(tmp_path: Path) -> None:
    allocations = DeviceAllocations(str(tmp_path / "devices.json"), NODES)
    assert allocations.take("pod", "a", {GPU: 2}) == allocations.take("pod", "a", {GPU: 2})
    assert allocations.take("big", "a", {GPU: 3}) is None


def test_containers_of_one_pod_share_no_device_and_init_containers_borrow() -> None:
    def container(name: str, count: int, **more: Any) -> Json:
        return {"name": name, "resources": {"limits": {GPU: count}}, **more}

    spec = {
        "initContainers": [container("side", 1, restartPolicy="Always"), container("init", 2)],
        "containers": [container("one", 1), container("two", 2), {"name": "none"}],
    }
    seen = shares(spec, {GPU: ["0", "1", "2", "3"]})
    assert {
        "side": {GPU: ["0"]},
        "init": {GPU: ["1", "2"]},
        "one": {GPU: ["1"]},
        "two": {GPU: ["2", "3"]},
    } == seen


def test_a_process_without_devices_sees_none() -> None:
    assert "" == device_env({})["CUDA_VISIBLE_DEVICES"]
    assert (
        "MIG-1,GPU-0"
        == device_env({"nvidia.com/gpu": ["GPU-0"], "nvidia.com/a.mig": ["MIG-1"], "x/y": ["z"]})[
            "CUDA_VISIBLE_DEVICES"
        ]
    )


class FakeNvml:
    """NVML as its binding shows it: two whole GPUs, and one that is split into two instances."""

    class NVMLError(Exception):
        pass

    def __init__(self) -> None:
        self.open = 0

    def nvmlInit(self) -> None:  # noqa: N802
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 3

    def nvmlDeviceGetHandleByIndex(self, number: int) -> str:  # noqa: N802
        return f"gpu{number}"

    def nvmlDeviceGetMigMode(self, device: str) -> tuple[int, int]:  # noqa: N802
        if device == "gpu0":
            raise self.NVMLError
        return int(device == "gpu2"), 0

    def nvmlDeviceGetMaxMigDeviceCount(self, device: str) -> int:  # noqa: N802
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: str, number: int) -> str:  # noqa: N802
        if number >= 2:
            raise self.NVMLError
        return f"mig{number}"

    def nvmlDeviceGetUUID(self, device: str) -> str:  # noqa: N802
        return device.upper()

    def nvmlDeviceGetName(self, device: str) -> bytes:  # noqa: N802
        return b"NVIDIA A100 MIG 1g.5gb" if device.startswith("mig") else b"NVIDIA A100"

    def nvmlDeviceGetMemoryInfo(self, device: str) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(total=40 << 30)


def test_gpus_are_known_by_uuid_and_instances_by_their_profile() -> None:
    nvml = FakeNvml()
    found = found_gpus(nvml)
    assert {"nvidia.com/gpu": ["GPU0", "GPU1"], "nvidia.com/mig-1g.5gb": ["MIG0", "MIG1"]} == (
        found.ids
    )
    assert ("NVIDIA-A100", "40960") == (
        found.labels["nvidia.com/gpu.product"],
        found.labels["nvidia.com/gpu.memory"],
    )
    assert 0 == nvml.open
