# SPDX-License-Identifier: Apache-2.0
"""A small training program that saves when it is told to stop, and goes on from there.

Each process notes when it begins and ends, and what it sees, in `records.jsonl` beside the saved
state. With `--look` it only notes how many devices it sees.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

from model import CudaError, Driver, OnCpu, OnGpu

PRETEND = "GPU-pretend-"
PACE_S = 0.1
SAVE_EVERY = 10


class Records:
    """What this process tells of itself: a line for people, and one for whoever checks."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._path = folder / "records.jsonl"

    def note(self, what: str, text: str = "", **more: object) -> None:
        line = {"name": self._name, "pid": os.getpid(), "what": what, "at_s": time.monotonic()}
        with open(self._path, "ab", buffering=0) as file:
            file.write(json.dumps({**line, **more}).encode() + b"\n")
        if text:
            print(text, flush=True)


class Term:
    """Whether TERM has come."""

    def __init__(self) -> None:
        self.came = False
        signal.signal(signal.SIGTERM, self._come)

    def _come(self, number: int, frame: object) -> None:
        self.came = True


class Training:
    """One run of the training, from where the last one stopped."""

    def __init__(self, model: OnGpu | OnCpu, records: Records, saved: Path, steps: int) -> None:
        self._model = model
        self._records = records
        self._saved = saved
        self._steps = steps
        self._step = 0

    def run(self, term: Term) -> int:
        """Train to the end, or until TERM has come; returns the exit status."""
        self._begin()
        while self._step < self._steps and not term.came:
            start = time.monotonic()
            self._model.advance()
            self._step += 1
            if self._step % SAVE_EVERY == 0:
                self._save()
                words = f"step {self._step} of {self._steps}, loss {self._model.loss():.3g}"
                print(words, flush=True)
            time.sleep(max(0.0, start + PACE_S - time.monotonic()))
        self._save()
        if self._step < self._steps:
            self._note("saved", f"got TERM, saved step {self._step}")
            return 128 + signal.SIGTERM
        self._note("finished", f"finished all {self._steps} steps")
        return 0

    def _begin(self) -> None:
        if self._saved.exists():
            saved = json.loads(self._saved.read_text())
            self._step = saved["step"]
            self._model.load(saved["weights"])
        words = f"resumes from step {self._step}" if self._step else "starts"
        self._note("resumes" if self._step else "starts", words)

    def _note(self, what: str, words: str) -> None:
        loss = self._model.loss()
        self._records.note(what, f"{words}, loss {loss:.3g}", step=self._step, loss=loss)

    def _save(self) -> None:
        """Write the state whole or not at all."""
        fresh = self._saved.with_suffix(".new")
        fresh.write_text(json.dumps({"step": self._step, "weights": self._model.weights()}))
        fresh.replace(self._saved)


def visible_model(records: Records) -> OnGpu | OnCpu:
    """The model on the device that this process was given. Raises CudaError unless it is one."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    driver = None if visible.startswith(PRETEND) else Driver()
    count = driver.count() if driver else len(visible.split(","))
    if count != 1:
        records.note("sees", devices=count, visible=visible)
        raise CudaError(f"sees {count} devices and not one: CUDA_VISIBLE_DEVICES={visible!r}")
    model = OnGpu(driver) if driver else OnCpu(visible)
    words = f"sees 1 device: {model.product}, {model.device}"
    records.note("sees", words, devices=1, device=model.device, visible=visible)
    return model


def train(records: Records, saved: Path, steps: int) -> int:
    """The whole life of a trainer; what it notes first and last encloses all use of the device."""
    term = Term()
    records.note("begins")
    try:
        model = visible_model(records)
        try:
            return Training(model, records, saved, steps).run(term)
        finally:
            model.close()
    except CudaError as error:
        records.note("fails", str(error))
        return 1
    finally:
        records.note("ends")


def look(records: Records) -> int:
    """Note how many devices a process sees that asked for none."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    try:
        count = Driver().count()
    except CudaError as error:
        print(error, flush=True)
        count = 0
    records.note("sees", f"sees {count} devices", devices=count, visible=visible)
    return 1 if count else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Train a little, and survive a preemption.")
    parser.add_argument("--name", required=True, help="whose work this is")
    parser.add_argument("--steps", type=int, default=80, help="how long it is")
    parser.add_argument("--saved", type=Path, default=Path("saved"), help="where it is kept")
    parser.add_argument("--look", action="store_true", help="only say how many devices are seen")
    given = parser.parse_args()
    records = Records(given.name, given.saved)
    if given.look:
        return look(records)
    return train(records, given.saved / f"{given.name}.json", given.steps)


if __name__ == "__main__":
    sys.exit(main())
