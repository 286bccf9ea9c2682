"""A first use of an installed dpearl, for an environment that holds nothing else: `python tests/smoke.py FOLDER`.

The owner's way, release → inspect, without torch; and on to synthetic rows where torch is installed.
"""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

SCHEMA = """
label = "kind"
[columns.age]
kind = "number"
lower = 0
upper = 99
step = 1
[columns.kind]
kind = "category"
levels = ["x", "y"]
"""

WITHOUT_TORCH = """
import json, sys
import dpearl
release = dpearl.load_release("r.dpearl")
print(json.dumps({"file": dpearl.__file__, "epsilon": release.epsilon, "torch": "torch" in sys.modules}))
"""


def run(folder: Path, *command: str | Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command}: {done.stderr}")
    return done.stdout


def main(folder: Path) -> None:
    program = Path(sys.executable).parent / "dpearl"
    with (folder / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("age", "kind"), *((random.randrange(100), random.choice("xy")) for _ in range(5000))])
    (folder / "s.toml").write_text(SCHEMA)
    run(folder, program, "release", "rows.csv", "--schema", "s.toml", "--epsilon", "1", "--ledger", "l", "-o", "r.dpearl")
    told = json.loads(run(folder, program, "inspect", "r.dpearl", "--json"))
    seen = json.loads(run(folder, sys.executable, "-c", WITHOUT_TORCH))
    assert told["recomputed"]["epsilon"] == seen["epsilon"] <= 1, told
    assert not seen["torch"], "the owner's side loaded torch"
    assert Path(seen["file"]).is_relative_to(sys.prefix), seen["file"]
    assert Path(seen["file"]).with_name("py.typed").exists(), "types are not installed"
    if find_spec("torch") is not None and "--owner" not in sys.argv:
        run(folder, program, "train", "r.dpearl", "-o", "m.dpearl", "--iterations", "5")
        run(folder, program, "sample", "m.dpearl", "-n", "9", "-o", "made.csv")
        assert len((folder / "made.csv").read_text().splitlines()) == 10
    where = Path(seen["file"]).parent
    print(f"Python {sys.version.split()[0]}: dpearl {told['dpearl']} from {where}, epsilon {seen['epsilon']:.6f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
