"""The trained generator with the release it was learnt from: it samples rows, for ever, at no privacy cost.

A model's file holds the whole release, so that its privacy statement can be recomputed from the file
itself, as `inspect` does.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpearl import container
from dpearl.card import Card, Carded
from dpearl.codec import Codec, Codes
from dpearl.condition import Condition, conditions
from dpearl.distance import proportions
from dpearl.drawing import Sampler
from dpearl.embeddings.marginals import Pairs
from dpearl.embeddings.moments import Moments
from dpearl.errors import FileError, UsageError
from dpearl.generator import Axes, Generator, Network, OwnGenerator, RowGenerator
from dpearl.mixture import Mixture, mixture_of
from dpearl.pictures import PictureGenerator
from dpearl.release import MODEL, Release, model_release, to_parts
from dpearl.remainder import remainder
from dpearl.settings import check_seed
from dpearl.statement import privacy_statement
from dpearl.write import check_rows

AnyGenerator = RowGenerator | Mixture | PictureGenerator
Draw = Callable[[Tensor], dict[str, Codes]]

CHUNK = 2**13
"""Rows drawn at a time, always: so that the first rows are the same however many are asked for."""

_PATIENCE = 2**17
"""Rows drawn for each row that must fit a condition before giving up."""


@dataclass(frozen=True, eq=False)
class Synthesizer(Carded):
    """A generator, the release behind it, and how it was trained."""

    release: Release
    generator: AnyGenerator
    training: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"Synthesizer({len(self.codec.columns)} columns; {self.release!r})"

    def card(self) -> Card:
        """What it was learnt from, and how."""
        trained = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.training.items())
        own = self.release.card()
        return Card(f"Synthesizer of a {own.title[:1].lower()}{own.title[1:]}", [*own.lines, ("training", trained)])

    @property
    def codec(self) -> Codec:
        """Rows on the schema's grid, and back."""
        return self.release.embedding.design.codec

    @property
    def statement(self) -> str:
        """The privacy statement of everything that this model makes."""
        return privacy_statement(self.release)

    def sample(self, rows: int, where: Mapping[str, Any] | None = None, seed: int = 0) -> pa.Table:
        """Synthetic rows in the types that the real ones came in."""
        return pa.concat_tables(self.chunks(rows, where, seed)).combine_chunks()

    def chunks(self, rows: int, where: Mapping[str, Any] | None = None, seed: int = 0) -> Iterator[pa.Table]:
        """The same rows, some thousands at a time; an empty table first carries the types."""
        for codes in self.codes(rows, where, seed):
            yield self.codec.decode(codes, self.release.types)

    def codes(self, rows: int, where: Mapping[str, Any] | None = None, seed: int = 0) -> Iterator[dict[str, Codes]]:
        """Rows on the schema's grid, drawn until there are enough that fit."""
        check_rows(rows)
        check_seed(seed)
        fits = conditions(self.codec.schema, where or {})
        shares = self._shares(fits)
        return self._draw(rows, fits, shares, torch.Generator().manual_seed(seed))

    def _draw(
        self, rows: int, fits: list[Condition], shares: NDArray[np.float64], chance: torch.Generator
    ) -> Iterator[dict[str, Codes]]:
        yield self._nothing()
        draw, drawn, kept = self._drawing(chance), 0, 0
        while kept < rows:
            codes = self._chunk(shares, chance, draw)
            places = np.flatnonzero(np.all([fit.holds(codes) for fit in fits], axis=0) if fits else np.ones(CHUNK, bool))
            drawn, kept = drawn + CHUNK, kept + len(places)
            yield _cut(codes, places[: max(len(places) - max(kept - rows, 0), 0)])
            if kept < rows and drawn >= _PATIENCE * (kept + 1):
                wanted = ", ".join(str(fit) for fit in fits)
                raise UsageError(f"where: only {kept} of {drawn:,} drawn rows have {wanted}; ask for something less rare")

    def _shares(self, fits: list[Condition]) -> NDArray[np.float64]:
        """Shares of the classes; a condition on the label fixes the class instead of sorting rows out."""
        shares = proportions(self.release)
        if self.codec.classes == 1:
            return shares
        for fit in fits:
            if fit.name == self.codec.schema.label:
                shares = np.where(np.arange(len(shares)) == fit.code, shares, 0)
                if not shares.any():
                    raise UsageError(f"where: the release shows no rows with {fit}, so nothing was learnt of them")
        return np.asarray(shares / shares.sum())

    def _nothing(self) -> dict[str, Codes]:
        """Codes of no rows."""
        none = np.zeros(0, np.int64)
        return {name: column.code(np.zeros((0, column.coordinates)), none) for name, column in self.codec.columns.items()}

    def _drawing(self, chance: torch.Generator) -> Draw:
        """How rows of one sample are drawn: those of a mixture look at the ones before."""
        if isinstance(self.generator, Mixture):
            return Sampler(self.generator, remainder(self.generator), chance).draw
        return partial(self.generator.draw, chance=chance)

    @torch.no_grad()
    def _chunk(self, shares: NDArray[np.float64], chance: torch.Generator, draw: Draw) -> dict[str, Codes]:
        classes = self.codec.labels
        place = _evenly(torch.from_numpy(shares[list(classes)]), chance)
        codes = draw(place)
        if self.codec.classes > 1:
            codes[str(self.codec.schema.label)] = np.array(classes)[_numpy(place)]
        return codes


def _evenly(shares: Tensor, chance: torch.Generator) -> Tensor:
    """Classes of a chunk in their shares, to within a row, in no order: systematic sampling, so that no class is favoured."""
    ends = (torch.arange(CHUNK, dtype=torch.float64) + torch.rand(1, generator=chance, dtype=torch.float64)) / CHUNK
    reached = shares.cumsum(dim=0)
    places = torch.searchsorted(reached, ends * reached[-1], right=True).clamp(max=int(torch.nonzero(shares)[-1]))
    return places[torch.randperm(CHUNK, generator=chance)]


def _numpy(tensor: Tensor) -> NDArray[Any]:
    return np.asarray(tensor.numpy())


def _cut(codes: Mapping[str, Codes], places: NDArray[np.int64]) -> dict[str, Codes]:
    return {name: own[places] for name, own in codes.items()}


def save_synthesizer(model: Synthesizer, path: str | Path) -> None:
    """Write a model. Of a network of your own the weights are written, and its code is not: keep that."""
    meta, arrays = to_parts(model.release)
    weights = {f"generator/{name}": _numpy(value) for name, value in model.generator.state_dict().items()}
    head = {"release": meta, "release_digest": model.release.digest, "training": dict(model.training)}
    content, _ = container.pack(MODEL, head, weights | {f"release/{name}": array for name, array in arrays.items()})
    container.place_file(path, content)


def load_synthesizer(path: str | Path, generator: Network | None = None) -> Synthesizer:
    """Read a model; the release inside is checked as if it were a file of its own.

    Where it was trained with a network of your own, give that again as `generator`: the file holds its weights alone, which a
    copy of it takes on.
    """
    meta, arrays = container.read(path, MODEL)
    release = model_release(meta, arrays, path)
    weights = {name.removeprefix("generator/"): array for name, array in arrays.items() if name.startswith("generator/")}
    try:
        training = dict(meta["training"])
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in weights.items()}
        if not all(np.isfinite(array).all() for array in weights.values()):
            raise ValueError("weights")
        made = _generator(release, tensors) if "generator" not in training else None
    except (*container.UNFIT, RuntimeError):
        raise FileError(f"{path}: is damaged: its parts do not fit together") from None
    _match(training.get("generator"), generator, path)
    chosen = made if generator is None else _own(release, tensors, generator, path)
    assert chosen is not None
    return Synthesizer(release, chosen.eval(), training)


def _match(trained: str | None, given: Network | None, path: str | Path) -> None:
    """A model of one's own network needs that network, and no other model takes one."""
    if trained is not None and given is None:
        raise FileError(
            f"{path}: holds the weights of a network of its maker's own, {trained!r}, and not its code; in Python, "
            "load_synthesizer(path, generator=...) takes that network again"
        )
    if trained is None and given is not None:
        raise UsageError(f"{path}: was not trained with a network of your own; leave out `generator`")


def _own(release: Release, weights: dict[str, Tensor], net: Network, path: str | Path) -> OwnGenerator:
    """A copy of a user's network with these weights."""
    generator = OwnGenerator(copy.deepcopy(net), Axes.of(release))
    try:
        generator.load_state_dict(weights)
    except RuntimeError:
        raise UsageError(f"{path}: its weights do not fit this generator; give the network that it was trained with") from None
    return generator


def _generator(release: Release, weights: dict[str, Tensor]) -> AnyGenerator:
    """The generator that fits the release's blocks, with these weights."""
    design = release.embedding.design
    if design.find(Pairs) is not None:
        return mixture_of(release, weights)
    made = PictureGenerator if design.find(Moments) is not None else Generator
    generator = made(design.codec, len(design.codec.labels))
    generator.load_state_dict(weights)
    return generator
