"""What a release promises, in words that a data-protection officer can check."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpearl.embeddings.characteristic import Characteristic
from dpearl.letters import one_line
from dpearl.privacy import Relation, epsilon_of
from dpearl.release import Measurement, Release
from dpearl.schema import Category, Datetime, Number


def best_guess(mu: float, lost: float = 0.0) -> float:
    """How often the best membership test is right when both answers are equally likely: Φ(μ/2), and half of what δ it may see."""
    return min(_normal(mu / 2) + lost / 2, 1.0)


def best_test(mu: float, lost: float = 0.0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """False alarms and hits of the best membership test: at a rate α of false alarms it catches Φ(Φ⁻¹(α) + μ) (Dong, Roth & Su),
    and what δ it may see."""
    places = np.linspace(-5, 5, 201)
    alarms, hits = (np.array([0.0, *map(_normal, own), 1.0]) for own in (places, places + mu))
    return alarms, np.minimum(hits + lost, 1.0)


def _normal(place: float) -> float:
    """Φ."""
    return 0.5 * math.erfc(-place / math.sqrt(2))


def facts(release: Release) -> dict[str, Any]:
    """Everything the statement rests on, as plain values."""
    total = release.mu**2
    return {
        "stated": {"epsilon": release.budget.epsilon, "delta": release.budget.delta},
        "recomputed": {"epsilon": release.epsilon, "mu": release.mu},
        "unit": {"relation": str(release.unit.relation), "rows_per_person": release.unit.rows_per_person},
        "membership_guess": best_guess(release.mu, release.lost),
        "recipe": release.recipe,
        "plan": release.plan,
        "digest": release.digest,
        "rows": release.rows,
        "dpearl": release.dpearl,
        "columns": {name: column.kind for name, column in release.schema.columns.items()},
        "label": release.schema.label,
        "answers": answers(release),
        "delta_of_levels": release.lost,
        "stages": {
            name: {
                "share": release.mus[name] ** 2 / total,
                "epsilon_alone": epsilon_of(
                    release.mus[name], release.budget.delta - stage.design.lost(stage.sigmas, release.unit)
                ),
                "design": stage.design.digest,
                "blocks": _blocks(stage),
            }
            for name, stage in release.measurements.items()
        },
    }


def answers(release: Release) -> dict[str, str]:
    """What was asked of the rows, and what the noisy answers say."""
    told = {}
    for question in release.declared.questions if release.answers else ():
        name, _, asked = question.rpartition(".")
        column = release.schema.columns[name]
        if isinstance(column, (Number, Datetime)) and asked == "bounds":
            told[question] = f"{_end(column.lower)} to {_end(column.upper)}"
        elif isinstance(column, Category):
            told[question] = f"{len(column.levels):,} found"
        elif isinstance(column, Number):
            modes = column.modes if isinstance(column.modes, tuple) else ()
            told[question] = ", ".join(f"{mode.mean:g} ± {mode.spread:g}" for mode in modes) or "one"
    return told


def _end(bound: float | datetime) -> str:
    return bound.isoformat(" ") if isinstance(bound, datetime) else f"{bound:,.10g}"


def _blocks(stage: Measurement) -> list[dict[str, Any]]:
    return [
        {
            "family": block.family,
            "values": math.prod(block.shape),
            "sigma": stage.sigmas[block.family],
            "row_norm": math.sqrt(block.norm2),
        }
        for block in stage.design.blocks
    ]


def privacy_statement(release: Release) -> str:
    """The privacy statement."""
    told = facts(release)
    lines = [
        "PRIVACY STATEMENT",
        "",
        f"This release is ({release.budget.epsilon:g}, {release.budget.delta:g})-differentially private.",
        f"Recomputed from the file's own numbers: epsilon {release.epsilon:.6f} at delta {release.budget.delta:g}.",
        f"Unit of protection: {release.unit}.",
        _rows_line(release),
        f"An attacker who knows every other row and must guess {_guess(release)}, an even bet,",
        f"is right at most {100 * told['membership_guess']:.1f}% of the time.",
        "This covers everything made from this file, for ever: training, samples, reports.",
        "",
        "How it was made",
        f"  Mechanism: integer sums plus exactly rounded Gaussian noise; recipe {release.recipe}, dpearl {release.dpearl}.",
    ]
    for name, stage in told["stages"].items():
        alone = f"counted in mu squared (alone: epsilon {stage['epsilon_alone']:.3f})"
        lines.append(f"  {name}: {100 * stage['share']:.1f}% of the budget, {alone}")
        lines += [f"    {_block_line(block)}" for block in stage["blocks"]]
    lines += [
        *_frequencies_line(release),
        f"  Columns: {', '.join(f'{name} ({kind})' for name, kind in told['columns'].items())}.",
        f"  Label: {told['label'] or 'none'}.",
        *_asked_lines(told),
        "  Column names, kinds, bounds and levels were declared; storage types are the input's. All are taken as public."
        if not told["answers"]
        else "  All else about columns was declared; storage types are the input's. That is taken as public.",
        f"  Plan    {release.plan}",
        f"  Design  {release.embedding.design.digest}",
        f"  Release {release.digest}",
    ]
    return "\n".join(map(one_line, lines))


def _frequencies_line(release: Release) -> list[str]:
    block = release.embedding.design.find(Characteristic)
    return [f"  Scale of the frequencies: {block.scale:.4g}; public seed {block.seed}."] if block else []


def _asked_lines(told: dict[str, Any]) -> list[str]:
    """What the owner asked for, answered by the noisy numbers in the file and nothing else."""
    if not told["answers"]:
        return []
    lost = told["delta_of_levels"]
    found = [f"    {question}: {answer}" for question, answer in told["answers"].items()]
    alone = (
        [f"    A level that one person alone carries shows with probability at most {lost:.2g}, a part of delta."] if lost else []
    )
    return ["  Asked of the rows, within the same budget, and answered by this file's noisy numbers alone:", *found, *alone]


def _guess(release: Release) -> str:
    if release.unit.relation is Relation.REPLACE_ONE:
        return "which of two possible records one person has"
    return "whether one person is in the data"


def _rows_line(release: Release) -> str:
    if release.unit.relation is Relation.REPLACE_ONE:
        return f"The number of rows is public under this relation: {release.rows:,}."
    return f"The number of rows is protected too; the noisy count is about {max(release.embedding.noisy_rows, 0):,.0f}."


def _block_line(block: dict[str, Any]) -> str:
    return (
        f"{block['family']}: {block['values']:,} values, noise sigma {block['sigma']:,}, one row reaches {block['row_norm']:,.0f}"
    )
