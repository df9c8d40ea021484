# SPDX-License-Identifier: Apache-2.0
"""A linear model fitted by gradient descent, on the one GPU that this process sees.

Speaks to NVIDIA's driver itself, so that nothing but Python and the driver is needed. Under the
name of a pretend GPU, a smaller model does the same on the CPU.
"""

from __future__ import annotations

import ctypes
import random
from array import array
from pathlib import Path
from typing import Any

ITERATIONS = 20
RATE = 0.016
_NO_DEVICE = 100
_THREADS = 64


class CudaError(Exception):
    """A call that the driver refused."""


class Driver:
    """NVIDIA's driver, and the devices that it shows to this process."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise CudaError(f"there is no NVIDIA driver here: {error}") from None

    def count(self) -> int:
        """How many devices this process sees."""
        status = self._library.cuInit(0)
        if status == _NO_DEVICE:
            return 0
        _check("cuInit", status)
        found = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(found))
        return found.value

    def call(self, name: str, *arguments: object) -> None:
        """Call a function of the driver. Raises CudaError unless it succeeds."""
        _check(name, getattr(self._library, name)(*arguments))


def _check(name: str, status: int) -> None:
    if status:
        raise CudaError(f"{name} failed with CUDA error {status}")


class OnGpu:
    """The model on the first device."""

    samples, features = 16384, 64

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        number, context = ctypes.c_int(), ctypes.c_void_p()
        driver.call("cuDeviceGet", ctypes.byref(number), 0)
        self.device, self.product = self._uuid(number), self._name(number)
        driver.call("cuCtxCreate_v2", ctypes.byref(context), 0, number)
        self._context = context
        module = self._module()
        self._residuals = self._kernel(module, b"residuals")
        self._descend = self._kernel(module, b"descend")
        self._x, self._y = map(self._placed, sample(self.samples, self.features))
        self._w = self._placed(array("f", bytes(4 * self.features)))
        self._r = self._placed(array("f", bytes(4 * self.samples)))

    def load(self, weights: list[float]) -> None:
        self._write(self._w, array("f", weights))

    def weights(self) -> list[float]:
        return list(self._read(self._w, self.features))

    def advance(self) -> None:
        """Go down the slope for a while."""
        rate = ctypes.c_float(-RATE / self.samples)
        for _ in range(ITERATIONS):
            self._predict()
            self._launch(self._descend, self.features, self._x, self._r, self._w, rate)
        self._driver.call("cuCtxSynchronize")

    def loss(self) -> float:
        self._predict()
        return sum(each * each for each in self._read(self._r, self.samples)) / self.samples

    def close(self) -> None:
        self._driver.call("cuCtxDestroy_v2", self._context)

    def _predict(self) -> None:
        self._launch(self._residuals, self.samples, self._x, self._y, self._w, self._r)

    def _launch(self, kernel: ctypes.c_void_p, threads: int, *arguments: Any) -> None:
        sizes = (ctypes.c_uint32(self.samples), ctypes.c_uint32(self.features))
        places = [ctypes.addressof(each) for each in (*arguments, *sizes)]
        values = (ctypes.c_void_p * len(places))(*places)
        grid, block = (-(-threads // _THREADS), 1, 1), (_THREADS, 1, 1)
        self._driver.call("cuLaunchKernel", kernel, *grid, *block, 0, None, values, None)

    def _placed(self, values: array[float]) -> ctypes.c_uint64:
        place = ctypes.c_uint64()
        size = ctypes.c_size_t(4 * len(values))
        self._driver.call("cuMemAlloc_v2", ctypes.byref(place), size)
        self._write(place, values)
        return place

    def _write(self, place: ctypes.c_uint64, values: array[float]) -> None:
        source, count = values.buffer_info()
        size = ctypes.c_size_t(4 * count)
        self._driver.call("cuMemcpyHtoD_v2", place, ctypes.c_void_p(source), size)

    def _read(self, place: ctypes.c_uint64, count: int) -> array[float]:
        values = array("f", bytes(4 * count))
        target = ctypes.c_void_p(values.buffer_info()[0])
        self._driver.call("cuMemcpyDtoH_v2", target, place, ctypes.c_size_t(4 * count))
        return values

    def _module(self) -> ctypes.c_void_p:
        found = ctypes.c_void_p()
        code = Path(__file__).with_name("descent.ptx").read_bytes()
        self._driver.call("cuModuleLoadData", ctypes.byref(found), ctypes.c_char_p(code))
        return found

    def _kernel(self, module: ctypes.c_void_p, name: bytes) -> ctypes.c_void_p:
        found = ctypes.c_void_p()
        self._driver.call("cuModuleGetFunction", ctypes.byref(found), module, ctypes.c_char_p(name))
        return found

    def _uuid(self, number: ctypes.c_int) -> str:
        raw = (ctypes.c_ubyte * 16)()
        self._driver.call("cuDeviceGetUuid", raw, number)
        text = bytes(raw).hex()
        return "GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def _name(self, number: ctypes.c_int) -> str:
        text = ctypes.create_string_buffer(100)
        self._driver.call("cuDeviceGetName", text, 100, number)
        return text.value.decode()


class OnCpu:
    """A smaller model on the CPU, under the name of a pretend GPU."""

    samples, features = 64, 4
    product = "a pretend GPU"

    def __init__(self, device: str) -> None:
        self.device = device
        x, self._y = sample(self.samples, self.features)
        self._rows = [x[at : at + self.features] for at in range(0, len(x), self.features)]
        self._w = [0.0] * self.features

    def load(self, weights: list[float]) -> None:
        self._w = weights

    def weights(self) -> list[float]:
        return self._w

    def advance(self) -> None:
        """Go down the slope for a while."""
        for _ in range(ITERATIONS):
            residuals = self._residuals()
            for at, column in enumerate(zip(*self._rows, strict=True)):
                slope = sum(a * r for a, r in zip(column, residuals, strict=True))
                self._w[at] -= RATE / self.samples * slope

    def loss(self) -> float:
        return sum(each * each for each in self._residuals()) / self.samples

    def close(self) -> None:
        """There is nothing to give back."""

    def _residuals(self) -> list[float]:
        return [_dot(row, self._w) - y for row, y in zip(self._rows, self._y, strict=True)]


def sample(samples: int, features: int) -> tuple[array[float], array[float]]:
    """Inputs and outputs of the line to be found, the same ones every time."""
    chance = random.Random(7)
    line = [chance.uniform(-1, 1) for _ in range(features)]
    x = array("f", [2 * chance.random() - 1 for _ in range(samples * features)])
    rows = (x[at : at + features] for at in range(0, len(x), features))
    return x, array("f", [_dot(row, line) for row in rows])


def _dot(some: array[float], others: list[float]) -> float:
    return sum(a * b for a, b in zip(some, others, strict=True))
