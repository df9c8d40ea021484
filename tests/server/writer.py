# SPDX-License-Identifier: Apache-2.0
"""`python writer.py PATH DURABILITY SEED`: writes to a store until it is killed.

Prints one line for each acknowledged write: revision, verb, name, value.
"""

from __future__ import annotations

import os
import random
import sys

from kuota.api.base import Key
from kuota.server.store import Durability, Store

NAMES = [f"thing-{number}" for number in range(40)]


def write(store: Store, chance: random.Random, count: int) -> str:
    name = chance.choice(NAMES)
    key = Key("team", name)
    value = f"{count}-{'x' * chance.randrange(6000)}"
    obj = {"metadata": {"name": name, "namespace": "team"}, "spec": {"value": value}}
    if store.get("things", key) is None:
        done, verb = store.create("things", obj), "put"
    elif chance.random() < 0.3:
        done, verb = store.delete("things", key), "delete"
    else:
        done, verb = store.update("things", obj, None), "put"
    return f"{done['metadata']['resourceVersion']} {verb} {name} {value}\n"


def main(path: str, durability: str, seed: str) -> None:
    chance = random.Random(seed)
    store = Store.open(path, Durability(durability))
    count = 0
    while True:
        count += 1
        os.write(1, write(store, chance, count).encode())
        if chance.random() < 0.02:
            store.compact(keep=100)


if __name__ == "__main__":
    main(*sys.argv[1:])
