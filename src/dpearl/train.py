"""Training: the generator falls towards the release, the critic lifts the frequencies where it is still far (Alg. 1).

It takes a Release and nothing else, so it has no way to rows. There is no privacy cost in any of
it, whatever the number of iterations (post-processing, Thm. 1).
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from dpearl.checkpoint import Resumable
from dpearl.critic import Critic, effective_sample_size
from dpearl.distance import Batch, Target, noise_floor, noise_spread, squared_distances, target_of
from dpearl.embeddings.characteristic import Characteristic
from dpearl.errors import TrainingError, UsageError
from dpearl.fitting import MixtureTraining
from dpearl.generator import Axes, Generator, Network, OwnGenerator, RowGenerator
from dpearl.moment import Moment, Watch
from dpearl.pictures import PictureTraining
from dpearl.release import Release
from dpearl.settings import AnySettings, MixtureSettings, PictureSettings, Settings, check_seed, frequency_settings, settings_for
from dpearl.synthesizer import Synthesizer

_EVERY = 10.0
"""Seconds between checkpoints: a kill loses no more."""

_WINDOW = 50
"""Steps over which the shown loss is averaged, and after which it is shown again."""


def fit(
    release: Release,
    settings: AnySettings | None = None,
    seed: int = 0,
    device: str = "auto",
    threads: int | None = None,
    checkpoint: str | Path | None = None,
    watch: Watch | None = None,
    stop: Callable[[], bool] | None = None,
    generator: Network | None = None,
) -> Synthesizer:
    """A generator for this release. The same release, settings, seed and thread count give the same one on a CPU.

    `generator` is a torch module of your own to train in place of ours (see `Network`), against a release that holds frequencies:
    of recipe paper, of `frequencies=1000`, or of pictures. A copy is trained; the module stays as it is.
    With `checkpoint`, the state is kept in that file and work goes on from it; remove it when the model is safe.
    `stop` is asked after every step; where it says yes, the state is kept and KeyboardInterrupt raised.
    """
    check_seed(seed)
    if threads is not None:
        torch.set_num_threads(threads)
    design = release.embedding.design
    chosen = settings or (settings_for(design) if generator is None else frequency_settings(design))
    training = _begin(release, chosen, seed, pick_device(device), generator)
    keep = None if checkpoint is None else Path(checkpoint)
    if keep is not None and keep.exists():
        training.restore(keep)
    _run(training, keep, watch, stop)
    own = {} if generator is None else {"generator": type(generator).__name__}
    told = {**asdict(chosen), **own, "seed": seed, "threads": torch.get_num_threads(), "torch": str(torch.__version__)}
    return Synthesizer(release, training.generator.cpu().eval(), told)


def _begin(release: Release, settings: AnySettings, seed: int, device: torch.device, own: Network | None) -> Working:
    """Training of the kind that the release's blocks ask for; networks of one's own follow frequencies."""
    if own is not None and release.embedding.design.find(Characteristic) is None:
        raise UsageError(
            "generator: this release counts pairs of columns, which only a mixture can follow; release with frequencies "
            "(-k 1000, or recipe paper) to train a network of your own"
        )
    wanted = Settings if own is not None else type(settings_for(release.embedding.design))
    if not isinstance(settings, wanted):
        raise UsageError(f"a release of recipe {release.recipe!r} is trained with {wanted.__name__}")
    if isinstance(settings, MixtureSettings):
        return MixtureTraining(release, settings, seed, device)
    if isinstance(settings, PictureSettings):
        return PictureTraining(release, settings, seed, device)
    return Training(release, settings, seed, device, own)


def _run(training: Working, keep: Path | None, watch: Watch | None, stop: Callable[[], bool] | None) -> None:
    saved = time.monotonic()
    while training.step < training.settings.iterations:
        training.advance()
        stopped = stop is not None and stop()
        if keep is not None and (stopped or time.monotonic() - saved > _EVERY):
            training.save(keep)
            saved = time.monotonic()
        if stopped:
            raise KeyboardInterrupt
        if watch is not None and (training.step % _WINDOW == 0 or training.step == training.settings.iterations):
            watch(training.moment())


def pick_device(name: str) -> torch.device:
    """`auto` takes a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        device = torch.device("meta")
    if device.type == "meta":
        raise UsageError(f"device {name!r} is not available here; use auto or cpu")
    return device


class Training(Resumable):
    """Two players, their optimisers and the chance between them: everything that changes in training."""

    def __init__(self, release: Release, settings: Settings, seed: int, device: torch.device, own: Network | None = None) -> None:
        self.settings = settings
        self.identity = {"release": release.digest, **asdict(settings), "seed": seed}
        self.target: Target = target_of(release).to(device)
        axes = Axes.of(release)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made: RowGenerator = Generator(axes.codec, axes.classes) if own is None else OwnGenerator(copy.deepcopy(own), axes)
        self.generator = made.to(device)
        self.critic = Critic(self.target.frequencies, self.target.scale, settings.omega)
        moved = [parameter for parameter in self.critic.parameters() if parameter.requires_grad]
        self.falling = torch.optim.Adam(self.generator.parameters(), settings.learning_rate, fused=True)
        self.rising = torch.optim.Adam(moved, settings.critic_rate, maximize=True) if moved else None
        self.batch = Batch.of(self.target.proportions, settings.batch)
        self.chance = torch.Generator().manual_seed(seed)
        self.losses: list[float] = []
        self._weights = self.critic().detach()
        self._spread = noise_spread(self.target)
        self._floor = noise_floor(self.target) + self.batch.sampling_noise(self.target)

    def advance(self) -> None:
        """One step of the generator; after every few, one of the critic."""
        for group in self.falling.param_groups:
            group["lr"] = self.settings.rate(self.step)
        loss = self._weights @ self._distances()
        self.falling.zero_grad()
        loss.backward()
        self.falling.step()
        self.step += 1
        self._note(float(loss.detach()))
        if self.rising is not None and self.step % self.settings.generator_steps == 0:
            self._sharpen(self.rising)

    def _sharpen(self, rising: torch.optim.Optimizer) -> None:
        """The critic's step: up, on distances that it takes as given."""
        with torch.no_grad():
            distances = self._distances()
        rising.zero_grad()
        self.critic.gain(distances, self._spread).backward()  # type: ignore[no-untyped-call]
        rising.step()
        self.critic.keep_valid()
        self._weights = self.critic().detach()

    def _distances(self) -> Tensor:
        latent = torch.randn(len(self.batch.owner), self.generator.latent, generator=self.chance)
        rows = self.generator(latent.to(self.target.values.device), self.batch.owner)
        return squared_distances(self.target, self.batch.characteristic(rows, self.target.frequencies))

    def _note(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise TrainingError(
                f"training broke down in step {self.step}: the loss is not a finite number; "
                "try a lower --learning-rate (such as 0.001) or another --seed"
            )
        self.losses = [*self.losses[-_WINDOW + 1 :], loss]

    def moment(self) -> Moment:
        """Where training stands."""
        loss = sum(self.losses) / len(self.losses)
        return Moment(self.step, self.settings.iterations, loss, self._floor, effective_sample_size(self._weights))

    def players(self) -> dict[str, tuple[torch.nn.Module, torch.optim.Optimizer | None]]:
        return {"generator": (self.generator, self.falling), "critic": (self.critic, self.rising)}

    def resumed(self) -> None:
        self._weights = self.critic().detach()


Working = Training | MixtureTraining | PictureTraining
