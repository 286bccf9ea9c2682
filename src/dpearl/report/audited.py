"""The audit as a page and as a picture: what was claimed beside what the best test could see of it. No data is behind it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from dpearl import container
from dpearl.audit import BUDGET, Finding
from dpearl.chart import Reaches, curve, reaches, style
from dpearl.privacy import Relation
from dpearl.release import this_version
from dpearl.report.page import Page, render
from dpearl.svg import PAGE, PAPER, svg, write_figure

MARK = "Audit of an installation: made from its own test tables, without anybody's data."
_SECTIONS = {"result": "What was found", "curve": "The best test there is, and the one that was made", "tests": "All tests"}
_POINTS = 400


def audit_page(found: Sequence[Finding]) -> str:
    """The audit as HTML."""
    lead = (
        f"The mechanism of dpearl {this_version()}, as it is installed here, was run on worst-case neighbours: two tables as far "
        "apart as one person can make them. An attacker who knows both must tell from a release which of them it was made of."
    )
    return render(
        "audited.html",
        Page("Does this installation keep its promise?", MARK, lead, _SECTIONS),
        passed=all(finding.passed for finding in found),
        runs=f"{sum(_trials(finding) for finding in found if finding.part.startswith('all blocks')):,}",
        chart=_drawn(found),
        roc=_roc(found),
        mu=BUDGET.mu,
        tests=[_row(finding) for finding in found],
    )


def audit_picture(found: Sequence[Finding], path: str | Path) -> None:
    """The chart of the page, in a PNG."""
    with style(PAPER), container.placing(path) as file:
        write_figure(reaches(_chart(found), PAPER), file, format="png", dpi=110)


def _drawn(found: Sequence[Finding]) -> str:
    with style(PAGE):
        return svg(reaches(_chart(found), PAGE), "Claimed mu of every pair of neighbours beside what was seen of it")


def _whole(found: Sequence[Finding]) -> list[Finding]:
    """Tests of all that a release tells, at the same μ."""
    return [own for own in found if own.scores is not None and own.stated > 0.99 * BUDGET.mu]


def _chart(found: Sequence[Finding]) -> Reaches:
    shown = [own for own in _whole(found) if own.part.startswith(("all blocks", "both", "levels"))]
    names = [f"{_told(own)}: {own.part}" for own in shown]
    return Reaches(
        names, [own.stated for own in shown], [own.estimate for own in shown], [own.seen for own in shown], "μ, one pair a line"
    )


def _told(finding: Finding) -> str:
    rows = "" if finding.unit.rows_per_person == 1 else f", {finding.unit.rows_per_person} rows"
    return ("present or absent" if finding.unit.relation is Relation.ADD_REMOVE else "replaced") + rows


def _roc(found: Sequence[Finding]) -> str:
    """Hits against false alarms of all pairs together, beside Φ(Φ⁻¹(α) + μ), the most there can be (Dong, Roth & Su)."""
    scores = np.concatenate([own.scores for own in _whole(found) if own.scores is not None], axis=1)
    alarms = np.linspace(0, 1, _POINTS)
    most = norm.cdf(norm.ppf(alarms) + BUDGET.mu)
    lines = {"claimed": (alarms, most), "seen": (alarms, _hits(scores, alarms))}
    return curve(f"Hits against false alarms, seen and claimed at mu {BUDGET.mu:.3f}", lines, ("false alarms", "hits"))


def _hits(scores: NDArray[np.float64], alarms: NDArray[np.float64]) -> NDArray[np.float64]:
    """How often the person is found where the threshold lets so many false alarms pass."""
    thresholds = np.quantile(scores[0], 1 - alarms)
    return np.asarray((scores[1][None] >= thresholds[:, None]).mean(axis=1))


def _trials(finding: Finding) -> int:
    return 0 if finding.scores is None else finding.scores.size


def _row(own: Finding) -> tuple[str, ...]:
    figures = (f"{value:.3f}" for value in (own.stated, own.estimate, own.seen))
    return own.part, _told(own), *figures, "ok" if own.passed else "FAILED"
