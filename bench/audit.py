"""What `dpearl audit` sees of the mechanism: `python -m bench.audit` writes docs/results/audit.md and its picture."""

from __future__ import annotations

import time
from pathlib import Path

from dpearl.audit import RUNS, Finding, audit
from dpearl.report.audited import audit_picture

PAGE = Path(__file__).parents[1] / "docs" / "results" / "audit.md"
PICTURE = PAGE.with_suffix(".png")

_HEAD = """# The audit: μ seen against μ claimed

Made by `python -m bench.audit`, part of `make attacks`: what `dpearl audit` does, {runs:,} releases of worst-case neighbours in
{seconds:.0f} CPU s; `--thorough` makes ten times as many. An attacker who knows both tables guesses which of them a release was
made of; how often he is right bounds μ from below, for no test is right more often than Φ(μ/2). "Seen" is the best guess,
"at least" a bound that chance exceeds once in a hundred million tests. The audit fails where that bound lies above what is
claimed. Figures are μ, or δ where it is named. Passed: {passed} of {tests} tests.

![Claimed μ of every pair of neighbours beside what was seen of it](audit.png)

| part | a person is | claimed | seen | at least |
|---|---|---|---|---|
"""


def main() -> None:
    start, made = time.process_time(), [0]

    def told(done: int) -> None:
        made[0] += done

    found = audit(RUNS, told)
    seconds, passed = time.process_time() - start, sum(finding.passed for finding in found)
    head = _HEAD.format(runs=made[0], seconds=seconds, passed=passed, tests=len(found))
    PAGE.write_text(head + "\n".join(map(_line, found)) + "\n", encoding="utf-8")
    PICTURE.unlink(missing_ok=True)
    audit_picture(found, PICTURE)


def _line(own: Finding) -> str:
    return f"| {own.part} | {own.unit} | {own.stated:.3f} | {own.estimate:.3f} | {own.seen:.3f} |"


if __name__ == "__main__":
    main()
