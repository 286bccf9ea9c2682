"""The critic: importance weights of a Gaussian, Lemma 1, and the power of the paper's two-sample test."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from bench.paper.power import COUNT, EVENLY, ROWS, powers, rejects, split_distances, two_samples, unoptimized
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import norm
from torch import Tensor

from dpearl.critic import LEAST_FOCUS, Critic, effective_sample_size
from dpearl.distance import Batch, Target, squared_distances
from dpearl.settings import Omega

Floats = NDArray[np.float64]


pytestmark = pytest.mark.usefixtures("one_thread")


def drawn(axes: int, count: int, scale: float, seed: int) -> Tensor:
    """Frequencies from ω₀."""
    chance = torch.Generator().manual_seed(seed)
    return torch.randn(axes, count, generator=chance, dtype=torch.float64) / scale


def moved(frequencies: Tensor, scale: float, omega: Omega, precision: list[float], tilt: list[float]) -> Critic:
    critic = Critic(frequencies, scale, omega)
    with torch.no_grad():
        critic.precision.copy_(torch.tensor(precision))
        critic.tilt.copy_(torch.tensor(tilt))
    return critic


@pytest.mark.parametrize("omega", Omega)
def test_all_frequencies_count_the_same_at_first(omega: Omega) -> None:
    weights = Critic(drawn(3, 40, 0.5, seed=0), 0.5, omega)()
    assert torch.allclose(weights, torch.full((40,), 1 / 40, dtype=torch.float64))


@pytest.mark.parametrize(
    ("omega", "moving"), [(Omega.NONE, set()), (Omega.SIGMA, {"precision"}), (Omega.MU_SIGMA, {"precision", "tilt"})]
)
def test_only_what_omega_names_is_moved(omega: Omega, moving: set[str]) -> None:
    critic = Critic(drawn(3, 40, 0.5, seed=0), 0.5, omega)
    assert {name for name, parameter in critic.named_parameters() if parameter.requires_grad} == moving
    if moving:
        (critic() @ torch.arange(40, dtype=torch.float64)).backward()
        assert {name for name, parameter in critic.named_parameters() if parameter.grad is not None} == moving


def density_ratio(frequencies: Tensor, scale: float, precision: list[float], mean: list[float]) -> Floats:
    """ω(t)/ω₀(t), self-normalised, by scipy's densities of each axis."""
    ratio = np.ones(frequencies.shape[1])
    for line, own, centre in zip(frequencies.numpy(), precision, mean, strict=True):
        ratio *= norm.pdf(line, centre, 1 / math.sqrt(own)) / norm.pdf(line, 0, 1 / scale)
    return np.asarray(ratio / ratio.sum())


@settings(max_examples=50, deadline=None)
@given(
    st.floats(0.2, 5),
    st.lists(st.tuples(st.floats(0.2, 4), st.floats(-1, 1)), min_size=1, max_size=4),
    st.sampled_from([Omega.SIGMA, Omega.MU_SIGMA]),
    st.integers(0, 99),
)
def test_weights_are_the_ratio_of_the_gaussian_densities(
    scale: float, shapes: list[tuple[float, float]], omega: Omega, seed: int
) -> None:
    """With mean zero where μ does not move. Scales go into the test's numbers, so that ω and ω₀ overlap."""
    precision = [factor * scale**2 for factor, _ in shapes]
    mean = [shift / scale if omega is Omega.MU_SIGMA else 0.0 for _, shift in shapes]
    frequencies = drawn(len(shapes), 60, scale, seed)
    tilt = [own * centre for own, centre in zip(precision, mean, strict=True)]
    weights = moved(frequencies, scale, omega, precision, tilt)().detach()
    assert float(weights.sum()) == pytest.approx(1, abs=1e-12)
    assert np.allclose(weights.numpy(), density_ratio(frequencies, scale, precision, mean), rtol=1e-5, atol=1e-12)


def test_gradients_of_the_weights_are_those_of_finite_differences() -> None:
    frequencies = drawn(3, 12, 0.8, seed=1)
    critic = Critic(frequencies, 0.8, Omega.MU_SIGMA)
    precision = torch.tensor([0.5, 0.64, 1.1], dtype=torch.float64, requires_grad=True)
    tilt = torch.tensor([0.3, -0.2, 0.0], dtype=torch.float64, requires_grad=True)

    def weights(precision: Tensor, tilt: Tensor) -> Tensor:
        made: Tensor = torch.func.functional_call(critic, {"precision": precision, "tilt": tilt}, ())
        return made

    assert torch.autograd.gradcheck(weights, (precision, tilt))


def test_the_critic_climbs_along_the_covariance_of_distance_and_frequency() -> None:
    """In closed form, at ω = ω₀: the slopes of Σ w f are -Cov(t²/2, f) for the precision and Cov(t, f) for the tilt."""
    frequencies, distances = drawn(2, 30, 1.3, seed=2), torch.rand(30, dtype=torch.float64)
    critic = Critic(frequencies, 1.3, Omega.MU_SIGMA)
    (critic() @ distances).backward()
    centred = distances - distances.mean()
    assert critic.precision.grad is not None
    assert critic.tilt.grad is not None
    assert torch.allclose(critic.precision.grad, -(frequencies.square() / 2 * centred).mean(dim=1))
    assert torch.allclose(critic.tilt.grad, (frequencies * centred).mean(dim=1))


# Keeping ω a broad distribution


@pytest.mark.parametrize(
    ("weights", "size"), [([0.25] * 4, 4), ([1, 0, 0], 1), ([0.5, 0.5, 0, 0], 2), ([0.7, 0.1, 0.1, 0.1], 1 / 0.52)]
)
def test_effective_sample_sizes_known_by_hand(weights: list[float], size: float) -> None:
    assert effective_sample_size(torch.tensor(weights, dtype=torch.float64)) == pytest.approx(size)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([Omega.SIGMA, Omega.MU_SIGMA]),
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=3, max_size=3),
    st.sampled_from([0.01, 1.0, 20.0]),
)
def test_after_any_step_omega_is_a_distribution_over_a_tenth_of_the_frequencies_at_least(
    omega: Omega, steps: list[tuple[float, float]], scale: float
) -> None:
    tilt = [own if omega is Omega.MU_SIGMA else 0.0 for _, own in steps]
    critic = moved(drawn(3, 200, scale, seed=3).float(), scale, omega, [own for own, _ in steps], tilt)
    critic.keep_valid()
    weights = critic().detach()
    assert (critic.precision >= 0.000999 * scale**2).all()
    assert effective_sample_size(weights) >= 0.1 * 200
    assert torch.isfinite(weights).all()
    assert float(weights.sum()) == pytest.approx(1, abs=1e-5)


def test_an_omega_that_is_valid_and_broad_stays_where_it_is() -> None:
    critic = moved(drawn(2, 200, 1.0, seed=4), 1.0, Omega.MU_SIGMA, [0.7, 1.4], [0.2, -0.3])
    before = [parameter.detach().clone() for parameter in critic.parameters()]
    critic.keep_valid()
    assert all(torch.equal(one, other) for one, other in zip(before, critic.parameters(), strict=True))


def test_an_omega_that_stares_goes_back_no_further_than_it_must() -> None:
    critic = moved(drawn(2, 200, 1.0, seed=5), 1.0, Omega.MU_SIGMA, [1.0, 1.0], [30.0, 0.0])
    critic.keep_valid()
    assert 1 <= effective_sample_size(critic().detach()) / (200 * LEAST_FOCUS) < 1.3
    assert critic.tilt[0] > 0.3
    assert critic.tilt[1] == 0


# Lemma 1


SHIFT = 2.0


def gap(t: Floats) -> Floats:
    """|Φ - Φ'|² between N(0, 1) and N(SHIFT, 1) at frequency t: what the critic weighs, without any noise."""
    return np.asarray(np.exp(-(t**2)) * (2 - 2 * np.cos(SHIFT * t)))


def mean_gap(precision: float, mean: float = 0.0) -> float:
    """Its mean over ω = N(mean, 1/precision), by quadrature."""
    spread = 1 / math.sqrt(precision)
    return float(quad(lambda t: gap(t) * norm.pdf(t, mean, spread), mean - 9 * spread, mean + 9 * spread)[0])


def root_mean_square(errors: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


@pytest.mark.parametrize(("precision", "mean"), [(1.3, 0.0), (1.0, 1.3), (2.5, -0.8)])
def test_reweighted_averages_converge_to_those_of_omega_as_frequencies_grow_in_number(precision: float, mean: float) -> None:
    """Frequencies from ω₀ alone, as many as there are; the error falls with the root of their number."""
    truth, errors = mean_gap(precision, mean), []
    for count in (100, 1600, 25600):
        made = []
        for seed in range(25):
            frequencies = drawn(1, count, 0.8, seed)
            critic = moved(frequencies, 0.8, Omega.MU_SIGMA, [precision], [precision * mean])
            made.append(float(critic().detach().numpy() @ gap(frequencies[0].numpy())))
        errors.append(root_mean_square([own - truth for own in made]))
    assert errors[0] / truth < 0.3
    assert errors[1] < errors[0] / 2.5
    assert errors[2] < errors[1] / 2.5
    assert abs(mean_gap(0.8**2) / truth - 1) > 0.05, "without weights, the average would be another one"


def test_the_critics_optimum_converges_to_that_of_the_population() -> None:
    """The inner maximisation of Eq. (1): its best ω on k frequencies is worth what the best ω of all is."""
    best = -minimize_scalar(lambda own: -mean_gap(own), bounds=(0.3, 9), method="bounded").fun
    candidates, errors = np.linspace(0.3, 5, 20), []
    for count in (50, 800, 12800):
        found = []
        for seed in range(15):
            frequencies = drawn(1, count, 0.5, seed)
            distances = gap(frequencies[0].numpy())
            tried = [moved(frequencies, 0.5, Omega.SIGMA, [own], [0.0])().detach().numpy() for own in candidates]
            found.append(max(float(weights @ distances) for weights in tried))
        errors.append(root_mean_square([own - best for own in found]))
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert errors[2] < 0.02 * best
    assert mean_gap(0.5**2) < 0.9 * best, "there was something to gain"


# The two-sample test of Fig. 2, as the bench repeats it


def surprise(distances: Floats, weights: Floats) -> float:
    """How many standard deviations of the random splits the true one is away from them."""
    statistics = distances @ weights
    return float((statistics[0] - statistics[1:].mean()) / statistics[1:].std())


def distances_of(samples: tuple[Floats, Floats], frequencies: Floats) -> Tensor:
    """The same |Φ - Φ'|² by way of the package."""
    left, right = (torch.from_numpy(sample) for sample in samples)
    batch, places = Batch.of(torch.ones(1, dtype=torch.float64), ROWS), torch.from_numpy(frequencies)
    target = Target(places, batch.characteristic(left, places), 0.0, 1.0, (0,), torch.ones(1))
    return squared_distances(target, batch.characteristic(right, places))


def climb(critic: Critic, distances: Tensor) -> Floats:
    """Weights after gradient ascent on distances that are taken as given, as in training."""
    moving = [parameter for parameter in critic.parameters() if parameter.requires_grad]
    for _ in range(20):
        slopes = torch.autograd.grad(critic() @ distances, moving)
        length = torch.cat(slopes).norm()
        with torch.no_grad():
            for parameter, slope in zip(moving, slopes, strict=True):
                parameter.add_(slope / length, alpha=0.5)
        critic.keep_valid()
    return np.asarray(critic().detach().numpy())


def test_the_statistic_of_the_two_sample_test_is_the_packages_distance() -> None:
    rng = np.random.default_rng(1)
    samples, frequencies = two_samples(rng, 4), rng.standard_normal((4, COUNT))
    assert np.allclose(split_distances(samples, frequencies)[0], distances_of(samples, frequencies).numpy(), atol=1e-6)


def test_reweighting_raises_the_power_of_the_two_sample_test_in_every_dimension() -> None:
    """Fig. 2: the one frequency that sees the difference, alone, against the same one among 19 that do not."""
    found = {dimensions: powers(dimensions, trials=60, seed=0) for dimensions in (2, 4, 6)}
    for plain, normal, optimized in found.values():
        assert optimized > plain + 0.1
        assert normal > plain + 0.1
    assert found[2][0] > found[4][0] > found[6][0], "it gets harder with the dimension"
    assert found[2][2] > found[4][2] > found[6][2]


@pytest.mark.parametrize(("omega", "gain"), [(Omega.SIGMA, 0.03), (Omega.MU_SIGMA, 0.03)])
def test_the_critic_raises_the_power_of_the_two_sample_test(omega: Omega, gain: float) -> None:
    """It learns its weights on samples of its own and is then tried on others, where the level of 5% holds."""
    rng, rejected, surprises, false_alarms = np.random.default_rng(3), [], [], []
    for _ in range(60):
        frequencies = unoptimized(rng, 3)
        critic = Critic(torch.from_numpy(frequencies), 1.0, omega)
        weights = climb(critic, distances_of(two_samples(rng, 3), frequencies))
        distances = split_distances(two_samples(rng, 3), frequencies)
        rejected.append([rejects(distances, EVENLY), rejects(distances, weights)])
        surprises.append([surprise(distances, EVENLY), surprise(distances, weights)])
        false_alarms.append(rejects(split_distances(two_samples(rng, 3, shift=0), frequencies), weights))
    plain, critical = np.mean(rejected, axis=0)
    assert critical > plain + gain
    assert np.mean(surprises, axis=0)[1] > 2 * np.mean(surprises, axis=0)[0]
    assert np.mean(false_alarms) < 0.15
