"""What a budget buys, told without data: noise against signal for a guessed number of rows."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from dpearl.embeddings.marginals import Pairs
from dpearl.errors import UsageError
from dpearl.owner import Offer
from dpearl.precision import parts, sharpness

MANY_RARE = 2
"""Times the rows there are that a column's levels would need for each to be seen."""


@dataclass(frozen=True)
class Line:
    """One block: noise on its averages, as a fraction of the largest value they can take."""

    stage: str
    family: str
    values: int
    share: float
    noise: float

    @property
    def verdict(self) -> str:
        return sharpness(self.noise)


@dataclass(frozen=True)
class Forecast:
    """What to expect of a release of so many rows."""

    offer: Offer
    rows: int
    lines: tuple[Line, ...]
    costs: dict[str, float]

    @property
    def embedding_cost(self) -> float:
        """How much larger the embedding's noise is than without a first look, questions aside."""
        return self.costs["auxiliary"]

    @property
    def asked(self) -> dict[str, int]:
        """How many columns are asked for bounds, for levels and for modes."""
        return dict(Counter(question.rpartition(".")[2] for question in self.offer.asked.questions))

    @property
    def warnings(self) -> list[str]:
        """What promises little, will be slow, left out or lost, and what to do about it."""
        design, delta = self.offer.sketch["embedding"], self.offer.budget.delta
        found: list[str] = []
        if delta * self.rows >= 1:
            found.append(
                f"delta {delta:g} is no less than one in {self.rows:,} rows: a definition that lets so many be shown outright "
                f"promises little; choose --delta below {1 / self.rows:.0e}"
            )
        pairs = design.find(Pairs)
        if pairs is None:
            return found
        columns = len(pairs.names)
        if len(pairs.pairs) < columns * (columns - 1) // 2:
            found.append(
                f"of {columns} columns, only {len(pairs.pairs):,} pairs are counted, those of the columns declared first; "
                "declare fewer columns, or the ones that matter first"
            )
        least = 3 * design.sigmas(self.offer.targets["embedding"], self.offer.unit)["interactions"] / pairs.peak
        asked = self.offer.asked.questions  # whose levels nobody knows yet
        declared = {name: ladder for name, ladder in pairs.ladders.items() if f"{name}.levels" not in asked}
        for name, ladder in declared.items():
            if ladder.column.one_hot and ladder.column.levels * least > MANY_RARE * self.rows:
                found.append(
                    f"{name!r} has {ladder.column.levels - 2:,} levels; those with fewer than {least:,.0f} rows lose what they "
                    "have to do with other columns: join them, or expect that"
                )
        return found

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        budget, unit = self.offer.budget, self.offer.unit
        return {
            "budget": {"epsilon": budget.epsilon, "delta": budget.delta},
            "unit": {"relation": str(unit.relation), "rows_per_person": unit.rows_per_person},
            "recipe": self.offer.recipe.name,
            "rows": self.rows,
            "blocks": [{**asdict(line), "verdict": line.verdict} for line in self.lines],
            "asked": self.asked,
            "larger_noise": self.costs,
            "warnings": self.warnings,
            "hopeful": self.hopeful,
            "rows_needed": self.rows_needed,
        }

    @property
    def hopeful(self) -> bool:
        return self.lines[-1].noise <= 0.3

    @property
    def rows_needed(self) -> int:
        """Rows at which the embedding's noise falls to a tenth of what it measures."""
        return math.ceil(self.rows * self.lines[-1].noise / 0.1)


def forecast(offer: Offer, rows: int) -> Forecast:
    """Noise of every block for a guessed number of rows, spread evenly over the declared classes, nobody in other and missing."""
    if rows < 1:
        raise UsageError("the guessed number of rows must be at least 1")
    lines = []
    for stage, design in (offer.inquiries | offer.sketch).items():
        sigmas = design.sigmas(offer.targets[stage], offer.unit)
        shares = design.shares(sigmas, offer.unit)
        for block in design.blocks:
            noise = sigmas[block.family] * parts(block) / (block.peak * rows)
            share = offer.stages[stage] * shares[block.family]
            lines.append(Line(stage, block.family, math.prod(block.shape), share, noise))
    return Forecast(offer, rows, tuple(lines), _costs(offer))


_PARTS = {"bounds": ("bounds", "ranges"), "levels": ("levels",), "modes": ("shapes", "modes"), "auxiliary": ("auxiliary",)}
"""What an owner asks for, and the first words of the stages that answer it."""


def _costs(offer: Offer) -> dict[str, float]:
    """By how much each part makes the embedding's noise larger: noise goes with the root of what is left of the budget."""
    left = offer.stages["embedding"]
    taken = {part: sum(offer.stages[stage] for stage in offer.stages if stage.split()[0] in own) for part, own in _PARTS.items()}
    return {part: math.sqrt((left + share) / left) - 1 for part, share in taken.items()}
