"""One target under atheris, with coverage of dpearl alone: `python -m bench.fuzz.child TARGET CORPUS... [libFuzzer options]`."""

from __future__ import annotations

import random
import sys

import atheris

with atheris.instrument_imports(include=["dpearl"]):
    from bench.fuzz.mutate import mutated
    from bench.fuzz.targets import TARGETS


def main() -> None:
    name = sys.argv.pop(1)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        return mutated(name, bytes(data), random.Random(seed))[:most]

    atheris.Setup(sys.argv, TARGETS[name], custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
