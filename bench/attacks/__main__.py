"""Run every attack and its controls: writes docs/results/attacks.md. About five minutes of one core."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import reduce
from operator import add
from pathlib import Path

import torch

from bench.attacks import (
    NO_NOISE,
    OURS,
    PEOPLE,
    Guesses,
    Inference,
    advantage_bound,
    at_least,
    at_most,
    attack_members,
    drawn_again,
    granted,
    infer_attributes,
    member_bound,
    reconstruct_from_counts,
    reconstruct_from_releases,
    reconstruct_from_samples,
    secret_bound,
)

PAGE = Path(__file__).parents[2] / "docs" / "results" / "attacks.md"
STEPS = (1, 10, 100)
TIMES = 10
"""Tables whose secrets are reconstructed."""

_SIDE = 0.025
_HEAD = """# Attacks on synthetic data

Made by `make attacks` (`python -m bench.attacks`). Each attack is run against dpearl at ε = 1, δ = 1e-5 (recipe `auto`,
add/remove), and against controls that keep no secret, where it must succeed: the same recipe at ε = 10,000, and real rows drawn
again. Intervals are 95% (Clopper-Pearson). "Beyond ε = 1" is said where chance explains it less than once in a million times. An
attack that fails proves nothing: the guarantee is ε. One that goes beyond its bound would show a mistake.
"""

_MEMBERSHIP = """Shadow models: 100 rows of Adult in six columns, with and without the row that is most outlying among 2,000, for
four such rows. The attacker knows all other rows and the recipe, learns from half of the trials by distances and shares of
synthetic rows near the target, and is judged on the others. An even bet: no attack on a release at ε = 1 is right more than
{bound:.1%} of the time, Φ(μ/2)."""

_ATTRIBUTES = """Everybody lives in a street of their own, which the attacker knows, and has a secret, a fair coin; {half} of
{people} people are in the data. He guesses what most synthetic rows of that street say. The advantage is what being in the data
adds to his chance; at ε = 1 it is at most {bound:.3f} for every person, 2Φ(μ/2) - 1."""

_RECONSTRUCTION = """The secrets of all of {people} people, as above, on grids that tell every street apart. Samples of one model
are post-processing: a hundred of them tell no more than the release, at most {bound:.1%}, Φ(μ) for a coin in one row. Releases
that no ledger counts add up. With a ledger of ε = 1, {passed} of {most} such releases passed; the others were refused."""


def main() -> None:
    torch.set_num_threads(1)
    start = time.process_time()
    parts = [_HEAD, _membership(), _attributes(), _reconstruction()]
    parts.append(f"Measured in {time.process_time() - start:,.0f} CPU s; x86_64, one thread.\n")
    PAGE.write_text("\n".join(parts), encoding="utf-8")


def _membership() -> str:
    bound = member_bound(OURS)
    rows = [
        ("dpearl, ε = 1", attack_members(OURS, 4, 100)),
        ("the same at ε = 10,000", attack_members(NO_NOISE, 4, 24)),
        ("real rows drawn again", attack_members(OURS, 4, 48, drawn_again)),
    ]
    return _section(
        "Membership of outliers",
        _MEMBERSHIP.format(bound=bound),
        "| attacked | right | 95% interval | AUC | verdict |\n|---|---|---|---|---|",
        [f"| {name} | {_share(own)} | {_interval(own)} | {own.auc:.2f} | {_told(own, bound)} |" for name, own in rows],
    )


def _attributes() -> str:
    bound = advantage_bound(OURS)
    rows = [
        ("dpearl, ε = 1", infer_attributes(50, OURS)),
        ("the same at ε = 10,000", infer_attributes(20, NO_NOISE)),
        ("real rows drawn again", infer_attributes(50, OURS, drawn_again)),
    ]
    return _section(
        "Attribute inference",
        _ATTRIBUTES.format(half=PEOPLE // 2, people=PEOPLE, bound=bound),
        "| attacked | right, of people in the data | of people who are not | advantage | verdict |\n|---|---|---|---|---|",
        [f"| {name} | {_both(own)} | {own.advantage:+.3f} | {_told(own, bound)} |" for name, own in rows],
    )


def _reconstruction() -> str:
    bound = secret_bound(OURS)
    samples = _repeated(lambda: reconstruct_from_samples(OURS, STEPS))
    control = _repeated(lambda: reconstruct_from_samples(NO_NOISE, STEPS), times=3)
    releases = _repeated(lambda: reconstruct_from_releases(OURS, STEPS))
    with tempfile.TemporaryDirectory() as folder:
        passed = granted(max(STEPS), Path(folder) / "ledger.jsonl")
    rows = [
        *((f"one release at ε = 1; samples of its model: {count}", own) for count, own in samples.items()),
        *((f"one release at ε = 10,000; samples of its model: {count}", own) for count, own in control.items()),
        *((f"releases at ε = 1 without a ledger: {count}", own) for count, own in releases.items()),
        ("exact answers to 120 random questions", reconstruct_from_counts()),
    ]
    return _section(
        "Reconstruction",
        _RECONSTRUCTION.format(people=PEOPLE, bound=bound, passed=passed, most=max(STEPS)),
        "| what the attacker has | secrets right | 95% interval | verdict |\n|---|---|---|---|",
        [f"| {name} | {_share(own)} | {_interval(own)} | {_told(own, bound)} |" for name, own in rows],
    )


def _repeated(attack: Callable[[], dict[int, Guesses]], times: int = TIMES) -> dict[int, Guesses]:
    found = [attack() for _ in range(times)]
    return {count: reduce(add, (own[count] for own in found)) for count in STEPS}


def _section(title: str, words: str, head: str, rows: list[str]) -> str:
    print(title, *rows, sep="\n", flush=True)
    return "\n".join([f"## {title}", "", words, "", head, *rows, ""])


def _share(own: Guesses) -> str:
    return f"{own.right:,} of {own.judged:,} ({100 * own.share:.1f}%)"


def _both(own: Inference) -> str:
    return f"{_share(own.members)} | {_share(own.others)}"


def _interval(own: Guesses) -> str:
    return f"{100 * at_least(own.right, own.judged, _SIDE):.1f}% to {100 * at_most(own.right, own.judged, _SIDE):.1f}%"


def _told(own: Guesses | Inference, bound: float) -> str:
    """Beyond what ε = 1 allows, with near certainty, or not."""
    return "beyond ε = 1" if own.beats(bound) else "within ε = 1"


if __name__ == "__main__":
    main()
