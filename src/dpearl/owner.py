"""The owner's way from rows to a release: plan, read, charge, sanitize.

What everything costs is decided before a row is read, also where the owner asks for bounds, levels or modes:
shares of the budget hang on the questions, never on the answers. The first pass over the data finds
structural errors; only then is the whole cost charged, and only then is noise drawn. A crash
after that, in whatever stage, leaves the whole charge in the ledger and no release.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from dpearl import container, ledger
from dpearl.canonical import canonical
from dpearl.choice import chosen_pairs
from dpearl.design import (
    Design,
    Kind,
    Recipe,
    Scale,
    auxiliary_design,
    embedding_design,
    kind_of,
    marginal_design,
    public_design,
    stages,
)
from dpearl.embed import PARTIAL, Embedding, embed
from dpearl.embeddings.characteristic import Characteristic
from dpearl.embeddings.levels import Levels
from dpearl.embeddings.spread import PairwiseDistance, Spread
from dpearl.engines import Engine
from dpearl.errors import UsageError
from dpearl.privacy import Budget, Relation, Unit, compose
from dpearl.questions import LOST, Ask, interview, shares
from dpearl.read import Source, filtered, open_sources
from dpearl.release import Measurement, Release, this_version
from dpearl.sanitize import sanitize, sanitize_levels
from dpearl.schema import Declaration, Schema
from dpearl.sums import Progress
from dpearl.tally import Tally, tally

Stages = Callable[[str, int | None], Progress]
"""Given a stage and its number of rows, if known, where to report rows as they are read."""


@dataclass(frozen=True)
class Offer:
    """What will be released and what it will cost, known before any data.

    `sums` is the design of partial sums that exist already; else the recipe draws one.
    """

    schema: Declaration
    recipe: Recipe
    budget: Budget
    seed: int = 0
    shards: int = 1
    sums: Design | None = None

    def __post_init__(self) -> None:
        if self.schema.person is not None and self.recipe.relation is Relation.REPLACE_ONE:
            raise UsageError("a person column needs --relation add-remove: replacing a person changes the number of rows")
        if not 0 <= self.seed < 2**63:
            raise UsageError("the seed of the frequencies must lie between 0 and 2^63 - 1")

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that is decided before data: it ties a ledger entry to its release."""
        plan = {"schema": self.schema.to_dict(), "recipe": asdict(self.recipe), "budget": asdict(self.budget)}
        sums = self.sums.digest if self.sums else None
        return hashlib.sha256(canonical({**plan, "seed": self.seed, "shards": self.shards, "sums": sums})).hexdigest()

    @property
    def unit(self) -> Unit:
        """Rows per person hold within a shard where a person column enforces them, and add up over shards."""
        enforced = self.shards if self.schema.person is not None else 1
        return Unit(self.recipe.relation, self.schema.rows_per_person * enforced)

    @cached_property
    def asked(self) -> Declaration:
        """What is asked for: modes only where frequencies would miss them, for counts see them by themselves."""
        if kind_of(cast(Schema, self.schema), self.recipe) is Kind.FREQUENCIES:
            return self.schema
        return self.schema.with_columns(
            {
                name: column.model_copy(update={"modes": None})
                for name, column in self.schema.columns.items()
                if getattr(column, "modes", None) is not None
            }
        )

    @property
    def lost(self) -> float:
        """The part of δ for levels that one person alone carries."""
        return LOST * self.budget.delta if "levels" in self.stages else 0.0

    @cached_property
    def whole(self) -> float:
        """The μ of all stages together: what the budget covers without the δ of levels, and a hair less than that where the
        integer noise of later stages is not known yet."""
        covered = Budget(self.budget.epsilon, self.budget.delta - self.lost).mu
        return covered if self._foreseen else covered * (1 - 2.0**-40)

    @property
    def _foreseen(self) -> bool:
        """Whether all noise is known before a row is read: no question is asked, and no grid follows a first look."""
        follows = kind_of(cast(Schema, self.asked), self.recipe) is Kind.MARGINALS and len(self.stages) > 1
        return bool(self.sums) or (isinstance(self.asked, Schema) and not follows)

    @property
    def targets(self) -> dict[str, float]:
        """The μ that each stage may use: shares of μ², which adds up exactly."""
        return {stage: math.sqrt(share) * self.whole for stage, share in self.stages.items()}

    @cached_property
    def stages(self) -> dict[str, float]:
        """Share of μ² of each stage, in order: questions, then what the recipe measures."""
        questions = shares(self.asked)
        left = 1 - sum(questions.values())
        return questions | {stage: share * left for stage, share in stages(cast(Schema, self.asked), self.recipe).items()}

    def interview(self) -> Generator[Ask, Measurement, Schema]:
        """From what is asked for to a schema without questions."""
        return interview(self.asked, self.budget.delta)

    @cached_property
    def _sketched(self) -> tuple[dict[str, Design], Schema]:
        """The interview as it goes where nothing can be seen: its designs cost what they always do."""
        questions, asked = self.interview(), {}
        try:
            ask = next(questions)
            while True:
                asked[ask.stage] = ask.design
                nothing = {block.family: np.zeros(block.shape, np.int64) for block in ask.design.blocks}
                ask = questions.send(Measurement(ask.design, nothing, ask.design.sigmas(self.targets[ask.stage], self.unit)))
        except StopIteration as end:
            return asked, cast(Schema, end.value)

    @property
    def inquiries(self) -> dict[str, Design]:
        """The designs of the questions; those that hang on earlier answers as if nothing had been seen."""
        return self._sketched[0]

    @cached_property
    def sketch(self) -> dict[str, Design]:
        """The designs as the schema alone suggests them. Where grids follow a first look, the noise of pairs will be somewhat
        other: rows in fewer bins are shorter."""
        if self.sums:
            return {"embedding": self.sums}
        schema = self._sketched[1]
        first = {"auxiliary": auxiliary_design(schema, self.recipe)} if "auxiliary" in self.stages else {}
        return {**first, "embedding": public_design(schema, self.recipe, self.seed)}

    def design(self, schema: Schema, measured: Measurement, rows: int | None) -> Design:
        """The embedding's design, given what was measured first."""
        if kind_of(schema, self.recipe) is not Kind.MARGINALS:
            return embedding_design(schema, self.recipe, estimated_scale(measured, rows), self.seed)
        sketch = self.sketch["embedding"]
        noise = sketch.sigmas(self.targets["embedding"], self.unit)["interactions"] / sketch.block("interactions").peak
        seen = measured.noisy_rows if rows is None else float(rows)
        return marginal_design(schema, self.recipe, lambda codec, weight: chosen_pairs(codec, measured, seen, noise, weight))

    @cached_property
    def mu(self) -> float:
        """What the release costs, from the integer noise that it will use; from the targets, which that noise keeps to, where
        it hangs on what is measured first."""
        if not self._foreseen:
            return compose(self.targets.values())
        parts = self.sketch.items()
        return compose(design.mu(design.sigmas(self.targets[stage], self.unit), self.unit) for stage, design in parts)


def release_rows(
    data: Any,
    offer: Offer,
    ledger_path: str | Path | None = None,
    output: str = "",
    engine: Engine | None = None,
    progress: Stages | None = None,
) -> Release:
    """Sensitive rows in, a sanitized release out."""
    sources = open_sources(data)
    _check_rows(filtered(sources), offer)
    check_ledger(offer, ledger_path)
    measured: dict[str, Measurement] = {}
    passes = _passes(offer)
    ask = next(passes)
    while True:
        private = _read(sources, ask, offer, engine, _bar(progress, ask.stage, sources))
        if not measured:
            charge(offer, ledger_path, output)
        measured[ask.stage] = _sanitized(private, offer.targets[ask.stage], offer.unit)
        try:
            ask = passes.send((measured[ask.stage], private.rows if _public_rows(offer) else None))
        except StopIteration:
            break
    assert isinstance(private, Embedding)
    return _release(offer, measured, private)


def _check_rows(filtered: bool, offer: Offer) -> None:
    """Refuse a filter where the number of rows is published: a row that is replaced could fail it, and the number would tell."""
    if filtered and _public_rows(offer):
        raise UsageError(
            "--query: a filter needs --relation add-remove: under replace-one the number of rows is published, and a person "
            "who is replaced may pass the filter or not"
        )


def _passes(offer: Offer) -> Generator[Ask, tuple[Measurement, int | None], None]:
    """Every pass over the rows, in order: questions, the first look, the embedding. What came out decides on the next."""
    questions, schema = offer.interview(), offer.asked
    try:
        ask = next(questions)
        while True:
            answer, _ = yield ask
            ask = questions.send(answer)
    except StopIteration as end:
        schema = cast(Schema, end.value)
    assert isinstance(schema, Schema)
    if "auxiliary" not in offer.stages:
        yield Ask("embedding", offer.sums or public_design(schema, offer.recipe, offer.seed))
        return
    measured, rows = yield Ask("auxiliary", auxiliary_design(schema, offer.recipe))
    yield Ask("embedding", offer.design(schema, measured, rows))


def _read(sources: Sequence[Source], ask: Ask, offer: Offer, engine: Engine | None, bar: Progress | None) -> Embedding | Tally:
    """The private sums of a pass. Texts are counted here, whatever the engine."""
    block = ask.design.find(Levels)
    if block is None:
        return embed(sources, ask.design, engine, bar)
    sigma = ask.design.sigmas(offer.targets[ask.stage], offer.unit)["levels"]
    return tally(sources, ask.design, block.columns, block.few(sigma), bar)


def _sanitized(private: Embedding | Tally, mu: float, unit: Unit) -> Measurement:
    return sanitize_levels(private, mu, unit) if isinstance(private, Tally) else sanitize(private, mu, unit)


def release_sums(partial: Embedding, offer: Offer, ledger_path: str | Path | None = None, output: str = "") -> Release:
    """A release of sums that were made elsewhere: noise once, at the end."""
    _check_rows(partial.filtered, offer)
    charge(offer, ledger_path, output)
    return _release(offer, {"embedding": sanitize(partial, offer.targets["embedding"], offer.unit)}, partial)


def offer_for_sums(partial: Embedding, recipe: Recipe, budget: Budget) -> Offer:
    """The offer that sums can still serve: their design is fixed and its scale is public."""
    fixed = replace(recipe, scale=Scale.PUBLIC)
    return Offer(partial.design.schema, fixed, budget, shards=len(partial.shards), sums=partial.design)


def check_agreement(
    partial: Embedding,
    schema: Schema | None,
    rows_per_person: int | None,
    scale: Scale | None,
    frequencies: int | None,
    seed: int,
) -> None:
    """Refuse options that partial sums, which were made under a design of their own, can no longer follow."""
    declared, made = partial.design.schema, partial.design.find(Characteristic)
    disagree = {
        "--schema": schema not in (None, declared),
        "--rows-per-person": rows_per_person not in (None, declared.rows_per_person),
        "--scale": scale not in (None, Scale.PUBLIC),
        "-k": frequencies not in (None, made.frequencies if made else None),
        "--seed": seed not in (0, made.seed if made else 0),
    }
    for option, differs in disagree.items():
        if differs:
            raise UsageError(f"{option} differs from what the partial sums were made with; leave it out, or embed again")


def estimated_scale(measured: Measurement, rows: int | None) -> float:
    """The scale of the frequencies from the noisy auxiliary information alone."""
    spread = measured.design.blocks[-1]
    noisy = measured.sums[spread.family]
    if isinstance(spread, PairwiseDistance) and rows is not None:
        return spread.estimate(noisy, rows)
    assert isinstance(spread, Spread)
    return spread.estimate(noisy, measured.sigmas[spread.family], measured.noisy_rows)


def embed_shard(
    data: Any, schema: Schema, recipe: Recipe, seed: int = 0, engine: Engine | None = None, progress: Stages | None = None
) -> Embedding:
    """Sums of one shard under a design that needs nothing from the data, so that all shards share it."""
    return embed_all(open_sources(data), shard_design(schema, recipe, seed), engine, progress)


def shard_design(schema: Schema, recipe: Recipe, seed: int) -> Design:
    """The design that all shards share: the schema and public constants decide on it."""
    return public_design(schema, replace(recipe, scale=Scale.PUBLIC), seed)


def embed_all(sources: Sequence[Source], design: Design, engine: Engine | None, progress: Stages | None) -> Embedding:
    """One pass over the rows of some sources, shown as it goes."""
    return embed(sources, design, engine, _bar(progress, "embedding", sources))


def _bar(progress: Stages | None, stage: str, sources: Sequence[Source]) -> Progress | None:
    """Where a pass over the rows is shown; how many there are is known where every source tells."""
    sizes = [source.rows for source in sources]
    return progress(stage, sum(filter(None, sizes)) if all(sizes) else None) if progress else None


def check_ledger(offer: Offer, path: str | Path | None) -> None:
    """Refuse, where there is a ledger, what it does not cover, before a row is read."""
    if path is not None:
        ledger.check(path, offer.budget, offer.mu, offer.unit, offer.lost)


def charge(offer: Offer, path: str | Path | None, output: str) -> None:
    """Record the whole cost, where there is a ledger, before any noise is drawn."""
    if path is not None:
        ledger.charge(path, offer.budget, offer.mu, offer.unit, offer.digest, output, offer.lost)


def _public_rows(offer: Offer) -> bool:
    return offer.unit.relation is Relation.REPLACE_ONE


def _release(offer: Offer, measured: Mapping[str, Measurement], embedding: Embedding) -> Release:
    rows = embedding.rows if _public_rows(offer) else None
    answers = {stage: part for stage, part in measured.items() if stage in offer.inquiries}
    stages = {stage: part for stage, part in measured.items() if stage not in answers}
    made = offer.budget, offer.unit, offer.recipe.name, offer.digest
    return Release(stages, *made, rows, embedding.types, this_version(), answers)


def recipe_with(recipe: Recipe, relation: Relation | None, scale: Scale | None, frequencies: int | None) -> Recipe:
    """A recipe with some of its constants chosen by the owner; the scale follows the relation."""
    relation = relation or recipe.relation
    natural = Scale.PAIRWISE if relation is Relation.REPLACE_ONE else Scale.MOMENTS
    chosen = scale or natural
    return replace(
        recipe, relation=relation, scale=chosen, frequencies=recipe.frequencies if frequencies is None else frequencies
    )


def are_sums(paths: Sequence[str]) -> bool:
    """Whether the paths are partial sums rather than data."""
    kinds = [container.kind_of(path) for path in paths]
    if PARTIAL in kinds and any(kind != PARTIAL for kind in kinds):
        raise UsageError("partial sums and data cannot be released together; embed the data first, then merge")
    return PARTIAL in kinds
