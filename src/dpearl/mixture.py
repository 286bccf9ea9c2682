"""A mixture of products: the generator of tables that are measured by marginals.

A discrete latent names a class and one of its components; given it, columns are independent, each with probabilities of its
own over the bins of the release's grid. So the expected counts of every pair are exact and cheap, one Gram matrix of the
probabilities. Inside a bin, values follow the column's own released histogram.

A column that another one determines, as far as the release can tell (an education and its number of years), is drawn from that
other column instead of from the latent: no leak between sharp relations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import block_diag
from torch import Tensor, nn

from dpearl.density import Floats, on_bins, rungs_of
from dpearl.distance import proportions, some_rows
from dpearl.embeddings.marginals import EACH, SIDE, UNIT, Pairs, Singles
from dpearl.release import Measurement, Release

_DETERMINED, SURE = 0.02, 4.0
"""A column is determined by another if at most 2% of the rows, and twice what noise may hide, fall beside the commonest bin of
each of its bins, and their counts look like noise. A count of four times its noise is certainly more than zero."""

HIDDEN = 0.05
"""Share of the rows that noise may hide beside, in one standard deviation; beyond it nothing can be said."""

_LIKE_NOISE = 1.5
"""χ² over its number of values that counts of nothing hardly ever reach; of few values, four standard deviations of it."""

_COMMON = 0.8
"""A column that is nearly always the same is determined by anything; nothing is gained by saying so."""


def inverse(weights: NDArray[np.floating], share: Floats) -> NDArray[np.int64]:
    """The bin in which each share of a row's weights ends."""
    reached = np.cumsum(weights, axis=1, dtype=np.float64)
    return np.asarray(np.minimum((reached <= (share * reached[:, -1])[:, None]).sum(axis=1), weights.shape[1] - 1))


@dataclass(frozen=True, eq=False)
class PairTarget:
    """What a release says of pairs, in rows: counts and the inverse of their variance, zero where nothing was measured.

    `singles` (bins; the inverse is that of their covariance, bins × bins), `columns` (classes × bins) and `pairs` (classes or 1 ×
    bins × bins), over the bins of all columns side by side and the classes that rows may come back with. Pairs are counts of rows
    of which `centres` (bins) are taken off. Rows that were too long count for less in these and in columns (`withheld`); `kept`
    is what rows count for on average.
    """

    rows: float
    shares: Floats
    sizes: list[int]
    singles: tuple[Floats, Floats]
    columns: tuple[Floats, Floats]
    pairs: tuple[Floats, Floats]
    centres: Floats
    kept: float = 1.0

    @property
    def starts(self) -> list[int]:
        return [0, *accumulate(self.sizes)]

    def bins(self, column: int) -> Floats:
        """A column's counts: those by class and those alone, each by its precision."""
        own = slice(self.starts[column], self.starts[column + 1])
        classes, precision = self.columns[0][:, own].sum(axis=0), self.columns[1][:, own].min(axis=0) / len(self.columns[0])
        alone, sharper = self.singles[0][own], self.singles[1][own, own]
        return np.asarray(np.linalg.solve(np.diag(precision) + sharper, classes * precision + sharper @ alone))

    def table(self, one: int, other: int) -> tuple[Floats, float]:
        """A pair's counts over all classes, and the standard deviation of their noise."""
        rows, columns = (slice(self.starts[own], self.starts[own + 1]) for own in (one, other))
        centred, precisions = (part[:, rows, columns] for part in self.pairs)
        noise = math.sqrt(len(centred) / max(float(precisions.max()), 1e-18))
        return self._whole(centred.sum(axis=0), rows, columns), noise

    def _whole(self, centred: Floats, one: slice, other: slice) -> Floats:
        """A table from what its columns have to do with each other, and from its margins: all three of rows as they count."""
        related = centred - centred.mean(axis=0) - centred.mean(axis=1, keepdims=True) + centred.mean()
        counted = self.columns[0].sum(axis=0) - self.rows * (1 - self.kept) * self.centres
        mine, others = self.centres[one, None], self.centres[other]
        return np.asarray(related + counted[one, None] * others + mine * counted[other] - self.rows * self.kept * mine * others)


def pair_target(release: Release) -> PairTarget:
    """The release's pairs, laid out as a mixture's Gram matrices are."""
    measured, block = release.embedding, pairs_of(release)
    classes = list(measured.design.codec.labels)
    counts, noise = measured.sums["interactions"] / block.peak, measured.sigmas["interactions"] / block.peak
    total, shares = some_rows(release), proportions(release)[classes]
    centres = np.concatenate([side.centres / SIDE for side in block.sides.values()])
    sharp = np.repeat([side.sharp / SIDE for side in block.sides.values()], block.sizes)
    columns = np.concatenate(block.columns(counts), axis=1)[classes] / sharp + total * shares[:, None] * centres
    starts, bins = np.cumsum([0, *block.sizes]), sum(block.sizes)
    seen = classes if block.groups > 1 else [0]
    pairs = np.zeros((2, len(seen), bins, bins))
    for (one, other), table in zip(block.pairs, block.tables(counts), strict=True):
        rows, across = slice(starts[one], starts[one + 1]), slice(starts[other], starts[other + 1])
        pairs[0, :, rows, across], pairs[0, :, across, rows] = table[seen], table[seen].swapaxes(1, 2)
        pairs[1, :, rows, across], pairs[1, :, across, rows] = noise**-2, noise**-2
    known = (columns, np.broadcast_to((sharp / noise) ** 2, columns.shape))
    kept = float(np.clip(counts[-1] * UNIT / EACH / total, 0, 1)) if block.limited else 1.0
    return PairTarget(total, shares, block.sizes, _singles(release, block), known, (pairs[0], pairs[1]), centres, kept)


def pairs_of(release: Release) -> Pairs:
    """The block of pairs that a mixture is fitted to."""
    block = release.embedding.design.block("interactions")
    assert isinstance(block, Pairs)
    return block


def single_stage(release: Release) -> Measurement:
    """Where single columns were measured."""
    return next(stage for stage in release.stages.values() if stage.design.find(Singles) is not None)


def _singles(release: Release, block: Pairs) -> tuple[Floats, Floats]:
    """Single columns on the grids of the pairs."""
    rungs = rungs_of(single_stage(release))
    told = [on_bins(block.ladders[name], grid, rungs[name]) for name, grid in block.grids.items()]
    return np.concatenate([counts for counts, _ in told]), block_diag(*[precision for _, precision in told])


def determined(target: PairTarget) -> dict[int, int]:
    """Columns that another one determines, and by which: that of fewest bins and surest first; none determines one itself."""
    found: dict[int, int] = {}
    sizes = target.sizes
    columns = range(len(sizes))
    for _, _, one, other in sorted(
        (sizes[one], most, one, other) for one in columns for other in columns if (most := _beside(target, one, other))
    ):
        own = np.maximum(target.bins(other), 0)
        varied = own.max() <= _COMMON * max(own.sum(), 1)
        if varied and other not in found and one not in found and other not in found.values():
            found[other] = one
    return found


def _beside(target: PairTarget, one: int, other: int) -> float | None:
    """Share of rows that may lie beside the commonest bin of `other` in each bin of `one`; None if they are more than noise."""
    table, noise = target.table(one, other)
    rest = table.copy()
    rest[np.arange(len(table)), table.argmax(axis=1)] = 0
    cells = table.size - len(table)
    hidden, seen = noise * math.sqrt(cells) / target.rows, float(rest.sum() / target.rows)
    like_noise = 0 < hidden <= HIDDEN and (rest**2).sum() <= noise**2 * max(_LIKE_NOISE * cells, cells + 4 * math.sqrt(2 * cells))
    return max(seen, 0) + 2 * hidden if like_noise and seen <= _DETERMINED + 2 * hidden else None


def conditional(target: PairTarget, one: int, other: int, returned: NDArray[np.bool_]) -> Floats:
    """Probabilities of a determined column's bins in each bin of the other: counts that are certainly there.

    Where none is, all rows of the bin share one of the bins that are left over: likely ones hold rows that nothing explains yet,
    and the larger count (Bayes, under the known noise).
    """
    table, noise = target.table(one, other)
    own, rows = (np.maximum(target.bins(column), 1.0) for column in (other, one))
    sure = np.where((table > SURE * noise) & returned, table, 0)
    left = np.maximum(own - sure.sum(axis=0), 1e-3 * own) * returned
    likely = np.where(returned, np.minimum(table, rows[:, None]) * rows[:, None] / noise**2, -np.inf)
    guessed = left * np.exp(likely - likely.max(axis=1, keepdims=True))
    found = np.where(sure.any(axis=1, keepdims=True), sure, guessed)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


class Mixture(nn.Module):
    """Components of each class, with a row of logits each; `parents` names the column that determines another, or -1."""

    def __init__(self, release: Release, components: int) -> None:
        super().__init__()
        self.release = release
        self.target = pair_target(release)
        self.block = pairs_of(release)
        self.logits = nn.Parameter(torch.zeros(components, sum(self.block.sizes)))
        self.register_buffer("owners", _owners(self.target.shares, components))
        self.register_buffer("parents", torch.full((len(self.block.sizes),), -1))
        self.owners: Tensor
        self.parents: Tensor

    @torch.no_grad()
    def begin(self, chance: torch.Generator) -> None:
        """Columns as they are in each class, shaken; and which of them determine others."""
        for column, parent in determined(self.target).items():
            self.parents[column] = parent
        counts = torch.from_numpy(np.maximum(self.target.columns[0], 1e-4 * self.target.rows)).float()
        shaken = torch.randn(self.logits.shape, generator=chance)
        self.logits.copy_(counts.log()[self.owners] + shaken)

    @cached_property
    def tables(self) -> dict[int, Tensor]:
        """Conditional probabilities of the columns that others determine."""
        known = [(own, one) for own, one in enumerate(self.parents.tolist()) if one >= 0]
        tables = {own: conditional(self.target, one, own, self._open[own].numpy()) for own, one in known}
        return {own: torch.from_numpy(table).float() for own, table in tables.items()}

    def probabilities(self) -> list[Tensor]:
        """Of the bins of each column, in each component; bins that no row may come back with are left out."""
        parts = zip(torch.split(self.logits, self.block.sizes, dim=1), self._open, strict=True)
        free = [torch.softmax(part.masked_fill(~own, -math.inf), dim=1) for part, own in parts]
        for own, table in self.tables.items():
            free[own] = free[int(self.parents[own])] @ table
        return free

    @property
    def weights(self) -> Tensor:
        """Of the components: those of a class share its share."""
        shares = torch.from_numpy(self.target.shares)
        return (shares / torch.bincount(self.owners, minlength=len(shares)).clamp(min=1))[self.owners].float()

    @cached_property
    def _open(self) -> list[Tensor]:
        """Which bins of each column rows may come back with."""
        return [torch.from_numpy(grid.open(self.block.ladders[name])) for name, grid in self.block.grids.items()]


def _owners(shares: Floats, components: int) -> Tensor:
    """The class of each component: half of them by share, half evenly, at least one for each class."""
    wanted = components * (0.5 * shares + 0.5 / len(shares))
    counts = np.maximum(np.floor(wanted), 1).astype(np.int64)
    counts[np.argmax(counts)] += components - counts.sum()
    return torch.repeat_interleave(torch.arange(len(shares)), torch.from_numpy(counts))


def mixture_of(release: Release, arrays: dict[str, Tensor]) -> Mixture:
    """A mixture from its file form."""
    made = Mixture(release, len(arrays["logits"]))
    made.load_state_dict(arrays)
    given = made.parents[made.parents >= 0]
    if (made.parents < -1).any() or (given >= len(made.parents)).any() or (made.parents[given] >= 0).any():
        raise ValueError("mixture")
    return made
