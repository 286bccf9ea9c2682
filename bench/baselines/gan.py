"""DPGAN (Xie et al. 2018) and DPCGAN (Torkzadehmahani et al. 2019): our generator against a discriminator under DP-SGD.

Accounting: only the discriminator sees rows. Each of its steps takes every row with the same chance (Poisson sampling),
clips each row's gradient and adds Gaussian noise once; made rows are clipped alike, but cost nothing. T such steps compose
numerically in Opacus's PRV accountant (Gopi, Lee & Wutschitz 2021), which is near exact. The relation is add/remove, as
Opacus accounts it, where our own rows in the paper's tables stand under replace-one: that favours these baselines. The
generator's steps and its rows are post-processing. Classes are drawn evenly, since their true shares would cost budget.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from opacus.accountants.utils import get_noise_multiplier
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import Tensor, nn
from torch.nn import functional

from dpearl.codec import Codec, Codes
from dpearl.coded import Coded
from dpearl.generator import Generator
from dpearl.privacy import Budget
from dpearl.schema import Image, Schema
from dpearl.synthesizer import CHUNK


@dataclass(frozen=True)
class Game:
    """Constants of one game.

    `steps` are the discriminator's, each of which costs privacy; `batch` is the expected number of real rows in each, and
    the number of made ones. After each of them the generator moves once, on `draft` rows. `loud` is the length of a class
    among the discriminator's inputs: at 1 it would drown in a picture's pixels. `clip` bounds a row's gradient.
    """

    steps: int
    batch: int
    draft: int
    hidden: int
    loud: float
    clip: float
    discriminator_rate: float
    generator_rate: float


IMAGES = Game(steps=800, batch=1200, draft=100, hidden=256, loud=5.0, clip=1.0, discriminator_rate=0.3, generator_rate=0.002)
TABLES = Game(steps=400, batch=1000, draft=200, hidden=64, loud=3.0, clip=1.0, discriminator_rate=0.3, generator_rate=0.001)
"""Chosen by a few trials within training rows, never on test rows, at no charge to the budget: that favours the baselines too.
One seed unless two figures are given; batches of 200 with the noise of full ones, which is what limits learning.

Images: 50,000 MNIST rows, FID against the other 10,000. Adam at 0.001, a generator step after every 5, 2, 1 of the
discriminator's: 22, 12, 8.1. At 2: clip 0.1 instead of 1: 20. At 1: 64 hidden units: 13. `loud` 5 instead of 1: 8.0, and
LeNet reads the class that was asked for in 70% instead of 17% of the pictures. The same with SGD at 0.3: 7.7 and 67%.
Fashion-MNIST takes the same constants, untried.

Tables: 10,000 rows of balanced Adult, mean hard ROC of four classifiers on the other 1,077. Adam at 0.001: 0.54 to 0.58 over
widths, 300 or 800 steps and straight-through levels. SGD at 0.3, 400 steps: 0.68, 0.58; straight-through 0.63, 0.69, and at
0.1 and 1: 0.58, 0.66.

More CPU buys little: at these batches noise is near that of full ones, and it grows with the root of the steps. Averaging the
generator's weights is no part of either method, nor of ours, and is left out."""


def game_for(schema: Schema) -> Game:
    """The constants for this kind of data."""
    return IMAGES if any(isinstance(column, Image) for column in schema.columns.values()) else TABLES


def gan(rows: Coded, budget: Budget, conditional: bool, count: int, seed: int, game: Game | None = None) -> Coded:
    """So many synthetic rows. DPCGAN is conditional: both players are told the class. DPGAN is not: the label, where
    there is one, is a column like any other."""
    codec = rows.codec if conditional else Codec(rows.schema.model_copy(update={"label": None}))
    play = Play(Coded(codec, rows.codes), budget, game or game_for(rows.schema), seed)
    for _ in range(play.game.steps):
        play.advance()
    return Coded.join([Coded(rows.codec, codes) for codes in play.chunks(count)])


@cache
def noise_multiplier(budget: Budget, sample_rate: float, steps: int) -> float:
    """The least noise, in units of the clipping norm, that keeps so many steps within the budget.

    What Opacus warns of concerns the RDP bound by which it chooses the range of its grid, not the result.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Optimal order is the largest alpha", UserWarning)
        found = get_noise_multiplier(
            target_epsilon=budget.epsilon,
            target_delta=budget.delta,
            sample_rate=sample_rate,
            steps=steps,
            accountant="prv",
            epsilon_tolerance=1e-3 * budget.epsilon,
        )
    return float(found)


class Play:
    """Two players and the chance between them: everything that changes in a game."""

    def __init__(self, rows: Coded, budget: Budget, game: Game, seed: int) -> None:
        self.codec, self.game, self.step = rows.codec, game, 0
        self.classes = self.codec.labels
        self.rows = torch.cat([axes(rows), game.loud * _classes(rows)], dim=1)
        self.sample_rate = game.batch / len(rows)
        self.chance = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.generator = Generator(self.codec, len(self.classes))
            net = _discriminator(self.rows.shape[1], game.hidden)
        self.discriminator = GradSampleModuleFastGradientClipping(net, max_grad_norm=game.clip)
        self.rising = DPOptimizerFastGradientClipping(
            torch.optim.SGD(net.parameters(), game.discriminator_rate, momentum=0.5),
            noise_multiplier=noise_multiplier(budget, self.sample_rate, game.steps),
            max_grad_norm=game.clip,
            expected_batch_size=game.batch,
            generator=self.chance,
        )
        self.judge = DPLossFastGradientClipping(self.discriminator, self.rising, nn.BCEWithLogitsLoss())
        self.falling = torch.optim.Adam(self.generator.parameters(), game.generator_rate, betas=(0.5, 0.999), fused=True)

    def advance(self) -> None:
        """A step of each player; both slow down to nothing."""
        left = 1 - self.step / self.game.steps
        self.rising.param_groups[0]["lr"] = left * self.game.discriminator_rate
        self.falling.param_groups[0]["lr"] = left * self.game.generator_rate
        self._discriminate()
        self._generate()
        self.step += 1

    def _discriminate(self) -> None:
        """The only step that sees real rows."""
        real = self.rows[torch.rand(len(self.rows), generator=self.chance) < self.sample_rate]
        with torch.no_grad():
            made = self._made(self.game.batch)
        truth = torch.cat([torch.ones(len(real)), torch.zeros(len(made))])
        self.judge(self.discriminator(torch.cat([real, made]))[:, 0], truth).backward()
        self.rising.step()
        self.rising.zero_grad()

    def _generate(self) -> None:
        """The generator sees the discriminator and never a row."""
        self.discriminator.disable_hooks()
        loss = functional.softplus(-self.discriminator(self._made(self.game.draft))).mean()
        self.falling.zero_grad()
        loss.backward(inputs=list(self.generator.parameters()))  # type: ignore[no-untyped-call]
        self.discriminator.enable_hooks()
        self.falling.step()

    def _made(self, count: int) -> Tensor:
        latent, place = self._drawn(count)
        rows: Tensor = self.generator(latent, place)
        told = functional.one_hot(place, len(self.classes)) if self.codec.classes > 1 else place.new_empty(count, 0)
        return torch.cat([rows, self.game.loud * told], dim=1)

    def _drawn(self, count: int) -> tuple[Tensor, Tensor]:
        """Latent noise, and classes by their place."""
        place = self._places(count)
        return torch.randn(count, self.generator.latent, generator=self.chance), place

    def _places(self, count: int) -> Tensor:
        return torch.randint(len(self.classes), (count,), generator=self.chance)

    @torch.inference_mode()
    def chunks(self, count: int) -> Iterator[dict[str, Codes]]:
        """Rows on the schema's grid, laid there as a Synthesizer lays them."""
        for start in range(0, count, CHUNK):
            place = self._places(min(CHUNK, count - start))
            codes = self.generator.eval().draw(place, self.chance)
            if self.codec.classes > 1:
                codes[str(self.codec.schema.label)] = np.array(self.classes)[place.numpy()]
            yield codes


def _discriminator(inputs: int, hidden: int) -> nn.Sequential:
    """Small on purpose: noise grows with the number of weights, what can be learnt through it does not."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.LeakyReLU(0.2), nn.Linear(hidden, 1))


def axes(rows: Coded) -> Tensor:
    """Real rows where Generator.forward puts its own: positions first, then the levels that may come back."""
    positions, levels = [], []
    for name, column in rows.codec.features.items():
        positions.append(column.coordinate(rows.codes[name]).astype(np.float32) / max(column.top, 1))
        shown = [level for level in column.returns if column.one_hot or level]
        levels.append((column.level(rows.codes[name])[:, None] == shown).astype(np.float32))
    return torch.from_numpy(np.concatenate(positions + levels, axis=1))


def _classes(rows: Coded) -> Tensor:
    """One-hot classes of real rows, without a column where there are none."""
    if rows.codec.classes == 1:
        return torch.empty(len(rows), 0)
    return torch.from_numpy(rows.codes[str(rows.schema.label)][:, None] == rows.codec.labels).float()
