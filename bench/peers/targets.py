"""What was asked of the default recipe at ε = 1, and what it reaches: judged by the mean over finished seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bench.cache import Run
from bench.peers.lines import of
from bench.peers.methods import AUTO, REAL

AT_LEAST: dict[str, dict[str, float]] = {
    "adult": {"roc": 0.745, "prc": 0.478, "boosting_auc": 0.910, "boosting_f1": 0.680},
    "balanced": {"roc": 0.775, "prc": 0.660, "boosting_auc": 0.890},
    "mnist": {"accuracy": 0.956},
    "fashion": {"accuracy": 0.817},
}
AT_MOST: dict[str, dict[str, float]] = {
    "adult": {
        **{"marginals_1": 0.004, "marginals_2": 0.022, "marginals_3": 0.050, "ks": 0.006, "range_quantile": 0.0018},
        **{"c2st": 0.60, "cpu": 30, "peak_mb": 800},
    },
    "balanced": {"marginals_1": 0.012, "marginals_2": 0.048, "marginals_3": 0.100},
    "wide": {"cpu": 120, "peak_mb": 2048},
    "mnist": {"fid": 0.5, "cpu": 600},
    "fashion": {"fid": 0.5, "cpu": 600},
}
OF_REAL = 0.97
"""Part of what real rows give on the same tenths of Credit."""

NAMES = {
    **{"roc": "ROC of the ten", "prc": "PRC of the ten", "boosting_auc": "boosting AUC", "boosting_prc": "boosting PRC"},
    **{"boosting_f1": "boosting F1", "ks": "KS", "range_quantile": "range queries"},
    **{f"marginals_{size}": f"TV of {size}-way marginals" for size in (1, 2, 3)},
    **{"c2st": "C2ST", "cpu": "CPU s", "peak_mb": "peak MB", "accuracy": "CNN accuracy", "fid": "FID"},
}


def target_lines(done: Sequence[Run]) -> Iterator[str]:
    """Every target with what is there, and whether it holds."""
    yield "| table | asked | here | seeds | |"
    yield "|---|---|---|---|---|"
    for table, limits in AT_MOST.items():
        if runs := of(done, table, AUTO):
            yield from (_line(table, score, "at least", limit, 1, runs) for score, limit in AT_LEAST.get(table, {}).items())
            yield from (_line(table, score, "at most", limit, -1, runs) for score, limit in limits.items())
    yield from _beside_real(done)


def _beside_real(done: Sequence[Run]) -> Iterator[str]:
    ours = of(done, "credit", AUTO)
    real = [run for run in of(done, "credit", REAL) if run["seed"] in {own["seed"] for own in ours}]
    for score in ("roc", "prc", "boosting_auc", "boosting_prc") if ours and real else ():
        limit = OF_REAL * float(np.mean([run[score] for run in real]))
        yield _line("credit", score, f"{OF_REAL:.0%} of real rows,", limit, 1, ours)


def _line(table: str, score: str, words: str, limit: float, sign: int, runs: Sequence[Run]) -> str:
    mean = float(np.mean([run[score] for run in runs]))
    verdict = "holds" if sign * mean >= sign * limit else "**missed**"
    return f"| {table} | {NAMES[score]} {words} {limit:.4g} | {mean:.4g} | {len(runs)} | {verdict} |"
