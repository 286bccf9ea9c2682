"""What a release promises, in words that a data-protection officer can check."""

from __future__ import annotations

import math
from typing import Any

from dpearl.embeddings.characteristic import Characteristic
from dpearl.privacy import Relation, epsilon_of
from dpearl.release import Measurement, Release


def best_guess(mu: float) -> float:
    """How often the best membership test is right when both answers are equally likely: Φ(μ/2)."""
    return 0.5 * math.erfc(-mu / 2 / math.sqrt(2))


def facts(release: Release) -> dict[str, Any]:
    """Everything the statement rests on, as plain values."""
    total = release.mu**2
    return {
        "stated": {"epsilon": release.budget.epsilon, "delta": release.budget.delta},
        "recomputed": {"epsilon": release.epsilon, "mu": release.mu},
        "unit": {"relation": str(release.unit.relation), "rows_per_person": release.unit.rows_per_person},
        "membership_guess": best_guess(release.mu),
        "recipe": release.recipe,
        "plan": release.plan,
        "digest": release.digest,
        "rows": release.rows,
        "dpearl": release.dpearl,
        "columns": {name: column.kind for name, column in release.embedding.design.schema.columns.items()},
        "label": release.embedding.design.schema.label,
        "stages": {
            name: {
                "share": release.mus[name] ** 2 / total,
                "epsilon_alone": epsilon_of(release.mus[name], release.budget.delta),
                "design": stage.design.digest,
                "blocks": _blocks(stage),
            }
            for name, stage in release.stages.items()
        },
    }


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
        "  Column names, kinds, bounds and levels were declared; storage types are the input's. All are taken as public.",
        f"  Plan    {release.plan}",
        f"  Design  {release.embedding.design.digest}",
        f"  Release {release.digest}",
    ]
    return "\n".join(lines)


def _frequencies_line(release: Release) -> list[str]:
    block = release.embedding.design.find(Characteristic)
    return [f"  Scale of the frequencies: {block.scale:.4g}; public seed {block.seed}."] if block else []


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
