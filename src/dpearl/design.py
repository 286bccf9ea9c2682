"""The public plan of a release: which integers are summed, and how far one person can move them.

A design is complete, hashed and fixed before the first row is read. Its blocks join into one
vector with one sensitivity; a block's weight says how much of the joint budget it takes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dpearl.canonical import canonical
from dpearl.codec import Codec
from dpearl.embeddings import Block
from dpearl.embeddings.characteristic import draw_characteristic, load_characteristic
from dpearl.embeddings.count import Count
from dpearl.embeddings.levels import Levels, levels
from dpearl.embeddings.marginals import Pairs, load_pairs, load_singles, public_pairs, singles
from dpearl.embeddings.mixtures import load_mixtures
from dpearl.embeddings.moments import picture_moments
from dpearl.embeddings.octaves import octaves, stretches
from dpearl.embeddings.pictures import picture_blocks, pictured
from dpearl.embeddings.spread import pairwise_distance, spread, uniform_spread
from dpearl.errors import BudgetError, UsageError, meant
from dpearl.privacy import Relation, Unit
from dpearl.schema import Declaration, Image, Schema, declaration_from

B = TypeVar("B")

MAX_FREQUENCIES = 2**17
FREQUENCIES = 1000
"""Where a recipe names no number and there are columns that only frequencies can see."""

MAX_SIGMA = 2**50
"""Beyond this a draw might leave the range of int64, at odds far below any δ."""


class Scale(StrEnum):
    """Where the scale of the frequencies comes from."""

    PAIRWISE = "pairwise"
    MOMENTS = "moments"
    PUBLIC = "public"


@dataclass(frozen=True)
class Recipe:
    """Public constants of a release. Shares are fractions of μ², which adds up exactly.

    Where the number of frequencies is None, the kind of data decides what is measured: tables by marginals, pictures by moments.
    """

    name: str
    relation: Relation
    scale: Scale
    frequencies: int | None = None
    auxiliary_share: float = 0.05
    single_share: float = 0.25
    count_share: float = 0.02
    octaves: float = 0

    def __post_init__(self) -> None:
        if self.frequencies is not None and not 1 <= self.frequencies <= MAX_FREQUENCIES:
            raise UsageError(f"the number of frequencies k must lie between 1 and {MAX_FREQUENCIES}")
        if self.scale is Scale.PAIRWISE and self.relation is not Relation.REPLACE_ONE:
            raise UsageError("the pairwise distance needs the replace-one relation; use --relation replace-one")

    def octaves_above(self, scale: float) -> float:
        """How far above this scale some numbers are seen: as far as above any. A recipe of one's own may make it depend."""
        return self.octaves


RECIPES = {
    "auto": Recipe("auto", Relation.ADD_REMOVE, Scale.MOMENTS, octaves=6),
    "paper": Recipe("paper", Relation.REPLACE_ONE, Scale.PAIRWISE, frequencies=1000),
}
"""k = 1,000 is the paper's (App. G). 5% for the scale costs the embedding 2.6% more noise, where the paper's half costs 41%. 2%
for the counts makes their noise smaller than that of any frequency. Six octaves above the scale resolve a number to about a
twentieth of its range. A quarter for single columns, which are measured by class beside pairs, too: on Adult at ε = 1 their TV
and that of three columns was .0045 and .0482 with 15%, .0042 and .0477 with 20%, .0042 and .0481 with 25%, .0040 and .0488 with
30%, and on 11,000 of its rows .0114 and .0873 with 20%, .0107 and .0871 with 30% (6 to 14 releases each)."""


def recipe_named(name: str) -> Recipe:
    """The recipe of this name."""
    if name not in RECIPES:
        raise UsageError(f"unknown recipe {name!r}; use {' or '.join(RECIPES)}{meant(name, RECIPES)}")
    return RECIPES[name]


@dataclass(frozen=True, eq=False)
class Design:
    """Blocks over one schema, joined into one vector."""

    schema: Schema
    blocks: tuple[Block, ...]

    @cached_property
    def codec(self) -> Codec:
        return Codec(self.schema)

    def block(self, family: str) -> Block:
        """The block of a family."""
        return next(block for block in self.blocks if block.family == family)

    def find(self, kind: type[B]) -> B | None:
        """The block of a kind, where there is one."""
        return next((block for block in self.blocks if isinstance(block, kind)), None)

    def sensitivity2(self, unit: Unit, scales: Mapping[str, Fraction]) -> Fraction:
        """Largest Σ (change / scale)² over blocks when one person's rows come, go or are replaced.

        Replacing a row moves class-conditional sums most when the class stays, counts when it
        changes; both cases are tried. m rows move the sum m times as far (triangle inequality).
        """
        return unit.rows_per_person**2 * sum(self._worst(unit, scales).values(), Fraction(0))

    def shares(self, sigmas: Mapping[str, int], unit: Unit) -> dict[str, float]:
        """Each block's part of μ² in the worst case; under replace-one the counts come free."""
        worst = self._worst(unit, {family: Fraction(sigma) for family, sigma in sigmas.items()})
        return {family: float(term / sum(worst.values())) for family, term in worst.items()}

    def _worst(self, unit: Unit, scales: Mapping[str, Fraction]) -> dict[str, Fraction]:
        """(change / scale)² of each block for the row that moves them most together."""
        cases = (
            {block.family: block.sensitivity2(unit.relation, same) / scales[block.family] ** 2 for block in self.blocks}
            for same in (True, False)
        )
        return max(cases, key=lambda case: sum(case.values()))

    def fits(self, sums: Mapping[str, NDArray[Any]]) -> bool:
        """Whether these are integer sums of just these blocks."""
        shapes = {block.family: (block.shape, np.dtype(np.int64)) for block in self.blocks}
        return {family: (array.shape, array.dtype) for family, array in sums.items()} == shapes

    def sensitivity(self, unit: Unit) -> float:
        """L2 sensitivity of the weighted vector in which a block's row has length at most its weight."""
        return math.sqrt(self.sensitivity2(unit, self._lengths))

    def sigmas(self, mu: float, unit: Unit) -> dict[str, int]:
        """Integer noise for each block, so that the whole vector is at most μ-GDP: rounded up, and one more
        for what floats may have lost on the way."""
        multiplier = self.sensitivity(unit) / mu
        sigmas = {family: math.ceil(multiplier * float(length)) + 1 for family, length in self._lengths.items()}
        if max(sigmas.values()) > MAX_SIGMA:
            raise BudgetError("this budget needs more noise than 64-bit integers hold; raise epsilon or protect fewer rows")
        return sigmas

    def mu(self, sigmas: Mapping[str, int], unit: Unit) -> float:
        """The μ of a release with this noise, recomputed from integers and rounded up."""
        squared = self.sensitivity2(unit, {family: Fraction(sigma) for family, sigma in sigmas.items()})
        return math.nextafter(math.sqrt(squared), math.inf)

    @property
    def _lengths(self) -> dict[str, Fraction]:
        """What a weight of 1 stands for in each block's integers."""
        return {block.family: Fraction(math.sqrt(block.norm2) / block.weight) for block in self.blocks}

    def lost(self, sigmas: Mapping[str, int], unit: Unit) -> float:
        """The δ of levels that one person alone carries, beside the μ of the noise."""
        found = self.find(Levels)
        return 0.0 if found is None else found.lost(sigmas[found.family], unit)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the arrays."""
        return {"schema": self.schema.to_dict(), "blocks": [block.to_dict() for block in self.blocks]}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The drawn frequencies, so that a release does not depend on any generator's future."""
        return {f"{block.family}.{name}": array for block in self.blocks for name, array in block.arrays().items()}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the whole plan, frequencies included."""
        digest = hashlib.sha256(canonical(self.to_dict()))
        for name, array in sorted(self.arrays().items()):
            digest.update(f"{name}{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def asking(declaration: Declaration, make: Callable[..., Block], **own: Any) -> Design:
    """The design of a question: one block over columns that may hold open questions, which nothing but such blocks looks at."""
    schema = cast(Schema, declaration)
    return Design(schema, (make(Codec(schema), weight=1.0, **own),))


def tabular(schema: Schema) -> bool:
    """Whether all columns can be counted; pictures cannot."""
    return not any(isinstance(column, Image) for column in schema.columns.values())


class Kind(StrEnum):
    """What an embedding is made of."""

    FREQUENCIES = "frequencies"
    MARGINALS = "marginals"
    PICTURES = "pictures"


def kind_of(schema: Schema, recipe: Recipe) -> Kind:
    """What a recipe measures of these columns: where it names no frequencies, tables by marginals and a picture by moments."""
    if recipe.frequencies is None and tabular(schema):
        return Kind.MARGINALS
    return Kind.PICTURES if recipe.frequencies is None and pictured(Codec(schema)) else Kind.FREQUENCIES


def stages(schema: Schema, recipe: Recipe) -> dict[str, float]:
    """Share of μ² of each stage, in order: what pictures are measured by is public, so they need no first look."""
    if recipe.scale is Scale.PUBLIC or kind_of(schema, recipe) is Kind.PICTURES:
        return {"embedding": 1.0}
    first = single_share(schema, recipe) if kind_of(schema, recipe) is Kind.MARGINALS else recipe.auxiliary_share
    return {"auxiliary": first, "embedding": 1 - first}


def single_share(schema: Schema, recipe: Recipe) -> float:
    """Part of μ² for single columns: with more of them pairs become so many that little is left to see in each.

    It grows with the root of their number, between a tenth and two fifths: on a generated table of 101 columns, 16,000 rows, TV
    of single columns and of pairs was .0204 and .0789 at .38, .0191 and .0834 at .5 (two releases and one).
    """
    return float(np.clip(recipe.single_share * math.sqrt(len(schema.columns) / 15), 0.1, 0.4))


def auxiliary_design(schema: Schema, recipe: Recipe) -> Design:
    """The first stage, with a count of its own where n is private: single columns, or how far apart rows lie."""
    codec, weight = Codec(schema), math.sqrt(1 - recipe.count_share)
    count = Count(codec.classes, math.sqrt(recipe.count_share))
    if kind_of(schema, recipe) is Kind.MARGINALS:
        return Design(schema, (count, singles(codec, weight)))
    if recipe.scale is Scale.PAIRWISE:
        return Design(schema, (pairwise_distance(codec, 1.0),))
    return Design(schema, (count, spread(codec, weight)))


def embedding_design(schema: Schema, recipe: Recipe, scale: float, seed: int) -> Design:
    """The paper's embedding: characteristic functions and the private count."""
    codec, weight = Codec(schema), math.sqrt(1 - recipe.count_share)
    frequencies = recipe.frequencies or FREQUENCIES
    block = draw_characteristic(codec, frequencies, scale, seed, weight, recipe.octaves_above(scale))
    return Design(schema, (Count(codec.classes, math.sqrt(recipe.count_share)), block))


def marginal_design(schema: Schema, recipe: Recipe, pairs: Callable[[Codec, float], Pairs]) -> Design:
    """Pairs of columns; where no stage goes before, single columns take its share beside them."""
    codec, share = Codec(schema), 1 - recipe.count_share
    alone = single_share(schema, recipe) if recipe.scale is Scale.PUBLIC else 0.0
    looked = (singles(codec, math.sqrt(alone * share)),) if alone else ()
    count = Count(codec.classes, math.sqrt(recipe.count_share))
    return Design(schema, (count, *looked, pairs(codec, math.sqrt((1 - alone) * share))))


def public_design(schema: Schema, recipe: Recipe, seed: int) -> Design:
    """The embedding as the schema alone suggests it: frequencies at a public scale, pairs on public grids, or pictures."""
    kind = kind_of(schema, recipe)
    if kind is Kind.MARGINALS:
        return marginal_design(schema, recipe, public_pairs)
    if kind is Kind.PICTURES:
        return Design(schema, picture_blocks(Codec(schema), seed))
    return embedding_design(schema, recipe, public_scale(schema), seed)


def public_scale(schema: Schema) -> float:
    """A scale that the schema alone suggests."""
    return uniform_spread(Codec(schema))


_FAMILIES: dict[str, Callable[..., Block]] = {
    "count": lambda codec, weight: Count(codec.classes, weight),
    "spread": spread,
    "pairwise-distance": pairwise_distance,
    "moments": partial(picture_moments, family="moments"),
    "edges": partial(picture_moments, family="edges"),
    "characteristic": load_characteristic,
    "singles": load_singles,
    "interactions": load_pairs,
    "octaves": octaves,
    "stretches": stretches,
    "levels": levels,
    "mixtures": load_mixtures,
}


def load_design(plan: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Design:
    """A design from its file form. What a row can reach is worked out from the schema, never believed."""
    schema = cast(Schema, declaration_from(plan["schema"]))
    blocks = []
    for described in plan["blocks"]:
        own = dict(described)
        family = own.pop("family")
        mine = {name.partition(".")[2]: array for name, array in arrays.items() if name.partition(".")[0] == family}
        blocks.append(_FAMILIES[family](Codec(schema), **own, **mine))
    return Design(schema, tuple(blocks))
