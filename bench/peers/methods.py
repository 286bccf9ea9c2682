"""What is compared: each method with its driver, the environment that runs it and what it is told of a table."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any
from venv import EnvBuilder

from bench.peers.domains import dpmm_domain, smartnoise_domain
from dpearl.schema import Schema

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PEERS = ROOT / ".peers"
"""Environments of peers, and the rows they made: not part of the repository."""


@dataclass(frozen=True)
class Method:
    """`package` names a peer's environment and requirements; ours run where the bench does."""

    name: str
    driver: str
    argument: str
    domain: Callable[[Schema], dict[str, Any]]
    package: str | None = None

    def command(self, job: Path) -> list[str]:
        """What runs it; a peer's environment is made when it is first asked for."""
        python = Path(sys.executable) if self.package is None else environment(self.package)
        return [str(python), "-m", f"bench.peers.drivers.run_{self.driver}", str(job)]

    @property
    def paths(self) -> str:
        """Where its modules are found: a peer sees of the house its driver alone."""
        return str(ROOT) if self.package else f"{ROOT}:{ROOT / 'src'}"


def environment(package: str) -> Path:
    """The interpreter of a peer's own environment, with exactly what its requirements pin; made by one process at a time."""
    folder = PEERS / package
    PEERS.mkdir(exist_ok=True)
    with open(PEERS / f"{package}.lock", "w") as lock:
        flock(lock, LOCK_EX)
        if not (folder / ".done").exists():
            _make(folder, HERE / "requirements" / f"{package}.txt")
    return folder / "bin" / "python"


def _make(folder: Path, wanted: Path) -> None:
    EnvBuilder(clear=True, with_pip=True).create(folder)
    python = str(folder / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--requirement", str(wanted)], check=True)
    (folder / ".done").touch()


def _dpmm(method: str) -> Method:
    return Method(f"dpmm {method}", "dpmm", method, dpmm_domain, "dpmm")


def _smartnoise(method: str) -> Method:
    return Method(f"smartnoise {method}", "smartnoise", method, smartnoise_domain, "smartnoise")


REAL, AUTO = "real rows", "dpearl auto"
OURS = (
    Method(AUTO, "dpearl", "auto", Schema.to_dict),
    Method("dpearl paper", "dpearl", "paper", Schema.to_dict),
)
FLOOR = Method("independent columns", "independent", "", Schema.to_dict)
PEERS_BY_COST = (
    *map(_dpmm, ("PrivBayes", "MST")),
    *map(_smartnoise, ("MST", "DP-CTGAN", "AIM")),
    _dpmm("AIM"),
)
METHODS = {method.name: method for method in (*OURS, FLOOR, *PEERS_BY_COST)}
