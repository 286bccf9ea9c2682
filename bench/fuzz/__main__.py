"""Fuzz every reader: `make fuzz`, or `python -m bench.fuzz [MINUTES]` for all of them together. Writes docs/results/fuzz.md.

Each starts from tests/corpus, and what it tries next follows coverage (atheris, libFuzzer). An input that breaks a reader is kept
in tests/corpus, where the tests replay it, and the run fails.
"""

from __future__ import annotations

import hashlib
import platform
import re
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from bench.fuzz.seeds import CORPUS
from bench.fuzz.targets import TARGETS

OUT = Path(__file__).parents[2] / "docs" / "results" / "fuzz.md"
SLOW, LARGE = 30, 4096
"""Seconds that one input may take, and megabytes."""


@dataclass(frozen=True)
class Run:
    """What came of one target."""

    name: str
    executions: int
    seconds: float
    inputs: int
    features: int
    broken: tuple[Path, ...]


def fuzzed(name: str, seconds: float) -> Run:
    """Run one target for so long."""
    before = _cpu()
    with tempfile.TemporaryDirectory() as folder:
        options = (
            f"-max_total_time={max(1, round(seconds))}",
            f"-timeout={SLOW}",
            f"-rss_limit_mb={LARGE}",
            f"-artifact_prefix={folder}/broke-",
        )
        found = Path(folder, "found")
        found.mkdir()
        command = [
            sys.executable,
            "-m",
            "bench.fuzz.child",
            name,
            str(found),
            str(CORPUS / name),
            "-print_final_stats=1",
            *options,
        ]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        broken = tuple(_kept(name, path) for path in sorted(Path(folder).glob("broke-*")))
        if done.returncode and not broken:
            sys.exit(f"{name}: {done.stderr[-2000:]}")
        inputs = len(list(found.iterdir()))
    executions = int(re.findall(r"stat::number_of_executed_units:\s+(\d+)", done.stderr)[-1])
    features = int(re.findall(r" ft: (\d+)", done.stderr)[-1])
    return Run(name, executions, _cpu() - before, inputs, features, broken)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _kept(name: str, broke: Path) -> Path:
    """An input that broke a reader, where the tests will replay it."""
    content = broke.read_bytes()
    path = CORPUS / name / f"broke-{hashlib.sha256(content).hexdigest()[:12]}"
    path.write_bytes(content)
    return path


def page(runs: list[Run]) -> str:
    total = sum(run.executions for run in runs)
    lines = [
        "# Fuzzing",
        "",
        f"`make fuzz` (`python -m bench.fuzz`), atheris {version('atheris')}: {total:,} executions, "
        f"{sum(run.seconds for run in runs):,.0f} CPU seconds with instrumented code. "
        f"Machine class: {platform.machine()}, Python {platform.python_version()}.",
        "Files of ours are changed inside and packed again with a right digest, ledgers are chained anew, pictures and archives",
        "get right checksums, so that what lies behind the first check is reached, too. An execution is fine if it returns or",
        f"raises a `DpearlError`, in less than {SLOW} s and {LARGE // 1024} GB, and if what was read keeps its promise.",
        "",
        "| target | what it reads | executions | CPU s | new inputs by coverage | features covered | broken |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        what = (TARGETS[run.name].__doc__ or "").split(".")[0].split(":")[0]
        cells = (run.name, what, f"{run.executions:,}", f"{run.seconds:.0f}", run.inputs, run.features, len(run.broken))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join([*lines, "", *_kept_lines()]) + "\n"


def _kept_lines() -> list[str]:
    kept = sum(len(list((CORPUS / name).glob("broke-*"))) for name in TARGETS)
    files = sum(len(list((CORPUS / name).iterdir())) for name in TARGETS)
    return [
        f"The corpus holds {files} inputs, {kept} of which broke a reader once; `tests/test_fuzz.py` replays all, with changes."
    ]


def main(minutes: float) -> None:
    runs = []
    for name in TARGETS:
        run = fuzzed(name, 60 * minutes / len(TARGETS))
        runs.append(run)
        told = "".join(f"\n  BROKEN by {path}" for path in run.broken)
        print(f"{name}: {run.executions:,} executions, {run.seconds:.0f} CPU s, {run.features} features{told}", flush=True)
    OUT.write_text(page(runs), encoding="utf-8")
    sys.exit(any(run.broken for run in runs))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
