"""Training: the same from the same, whole after every interruption, near the release, and without any way to rows."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch

from dpearl import cli, container, train
from dpearl.cli import public_side
from dpearl.design import RECIPES
from dpearl.errors import FileError, TrainingError, UsageError
from dpearl.moment import Moment
from dpearl.owner import Offer, recipe_with, release_rows
from dpearl.privacy import Budget, Relation
from dpearl.release import CHECKPOINT, MODEL, Release, save_release
from dpearl.schema import parse_schema
from dpearl.settings import IMAGES, TABLES, Omega, Settings, settings_for
from dpearl.synthesizer import Synthesizer
from dpearl.train import Training, fit, pick_device

LETTERS = "abcde"
SCHEMA = parse_schema(
    {
        "columns": {
            "left": {"kind": "category", "levels": list(LETTERS)},
            "right": {"kind": "category", "levels": list(LETTERS)},
        }
    }
)
MIXED = parse_schema(
    {
        "label": "rich",
        "columns": {
            "age": {"kind": "number", "lower": 0, "upper": 100, "step": 1, "missing": True},
            "job": {"kind": "category", "levels": ["a", "b", "c"]},
            "rich": {"kind": "boolean"},
        },
    }
)
PICTURED = parse_schema({"columns": {"face": {"kind": "image", "height": 2, "width": 2}, "old": {"kind": "boolean"}}})
SHORT = Settings(iterations=30, batch=40, generator_steps=4)


def alike(rows: int = 4000) -> pa.Table:
    """Two columns that are mostly the same letter."""
    chance = np.random.default_rng(0)
    left = chance.choice(5, rows, p=[0.4, 0.25, 0.15, 0.1, 0.1])
    right = np.where(chance.random(rows) < 0.9, left, chance.integers(0, 5, rows))
    return pa.table({"left": np.array(list(LETTERS))[left], "right": np.array(list(LETTERS))[right]})


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def mixed() -> Release:
    chance = np.random.default_rng(1)
    rich = chance.random(2000) < 0.3
    age = pa.array(np.where(rich, 60, 30) + chance.integers(-5, 5, 2000), mask=chance.random(2000) < 0.1)
    table = pa.table({"age": age, "job": chance.choice(list("abc"), 2000), "rich": rich})
    return release_rows(table, Offer(MIXED, recipe_with(RECIPES["auto"], None, None, 50), Budget(20, 1e-5)))


@pytest.fixture(scope="module")
def easy() -> Release:
    return release_rows(alike(), Offer(SCHEMA, recipe_with(RECIPES["auto"], None, None, 100), Budget(50, 1e-5)))


def weights(model: Synthesizer) -> dict[str, bytes]:
    return {name: value.numpy().tobytes() for name, value in model.generator.state_dict().items()}


def quick(release: Release, settings: Settings = SHORT, seed: int = 0, **options: Any) -> Synthesizer:
    return fit(release, settings, seed, "cpu", 1, **options)


@pytest.mark.parametrize("omega", Omega)
def test_the_same_release_settings_and_seed_give_the_same_weights_and_rows(omega: Omega, mixed: Release) -> None:
    settings = replace(SHORT, omega=omega)
    first = quick(mixed, settings)
    torch.manual_seed(99)  # chance elsewhere in the process is no part of it
    np.random.default_rng(99)
    second = quick(mixed, settings)
    assert weights(first) == weights(second)
    assert first.sample(500).equals(second.sample(500))
    another = quick(mixed, settings, seed=1)
    assert weights(another) != weights(first)
    assert not another.sample(500).equals(first.sample(500))


def test_training_leaves_the_chance_of_others_alone(mixed: Release) -> None:
    torch.manual_seed(5)
    untouched = torch.rand(3)
    torch.manual_seed(5)
    quick(mixed, replace(SHORT, iterations=2)).sample(10)
    assert torch.equal(torch.rand(3), untouched)


def test_every_setting_matters(mixed: Release) -> None:
    changes: list[dict[str, Any]] = [
        {"iterations": 29},
        {"batch": 41},
        {"generator_steps": 5},
        {"learning_rate": 0.011},
        {"critic_rate": 0.011},
        {"omega": Omega.MU_SIGMA},
        {"omega": Omega.NONE},
    ]
    made = [weights(quick(mixed, replace(SHORT, **change))) for change in ({}, *changes)]
    assert len({json.dumps({name: value.hex() for name, value in one.items()}) for one in made}) == len(made)


def test_a_model_tells_how_it_was_trained(mixed: Release) -> None:
    told = quick(mixed, seed=3).training
    assert told == {**asdict(SHORT), "seed": 3, "threads": 1, "torch": str(torch.__version__)}


def stop_at(*steps: int) -> Callable[[], bool]:
    """Asked after every step of this run; says yes at these."""
    asked = [0]

    def stop() -> bool:
        asked[0] += 1
        return asked[0] in steps

    return stop


@pytest.mark.parametrize("omega", Omega)
def test_a_training_that_was_stopped_goes_on_to_the_same_weights_bit_for_bit(
    omega: Omega, mixed: Release, tmp_path: Path
) -> None:
    settings, keep = replace(SHORT, omega=omega), tmp_path / "m.part"
    whole = quick(mixed, settings)
    for steps in (1, 3, 4, 13, 9):  # after 1, 4, 8, 21 and 30 steps: also where the critic has just moved, and at the end
        with pytest.raises(KeyboardInterrupt):
            quick(mixed, settings, checkpoint=keep, stop=stop_at(steps))
        assert [path.name for path in tmp_path.iterdir()] == ["m.part"]
    resumed = quick(mixed, settings, checkpoint=keep, stop=stop_at(1))
    assert weights(resumed) == weights(whole)
    assert resumed.sample(200).equals(whole.sample(200))


def test_what_is_told_after_going_on_is_what_would_have_been(mixed: Release, tmp_path: Path) -> None:
    settings = replace(SHORT, iterations=70)
    seen: list[Moment] = []
    quick(mixed, settings, watch=seen.append)
    again: list[Moment] = []
    with pytest.raises(KeyboardInterrupt):
        quick(mixed, settings, checkpoint=tmp_path / "m.part", watch=again.append, stop=stop_at(33))
    quick(mixed, settings, checkpoint=tmp_path / "m.part", watch=again.append)
    assert again == seen
    assert [moment.step for moment in seen] == [50, 70]


def test_keeping_the_state_on_the_way_changes_nothing(mixed: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = weights(quick(mixed))
    monkeypatch.setattr(train, "_EVERY", -1.0)
    assert weights(quick(mixed, checkpoint=tmp_path / "m.part")) == plain


def test_the_state_is_kept_every_ten_seconds(mixed: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, saved = [0.0], []

    def tick() -> bool:
        clock[0] += 1
        return False

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(Training, "save", lambda training, path: saved.append(training.step))
    quick(mixed, checkpoint=tmp_path / "m.part", stop=tick)
    assert saved == [11, 22]


@pytest.fixture
def stopped(mixed: Release, tmp_path: Path) -> Path:
    """A checkpoint after 5 of 30 steps."""
    with pytest.raises(KeyboardInterrupt):
        quick(mixed, checkpoint=tmp_path / "m.part", stop=stop_at(5))
    return tmp_path / "m.part"


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"settings": replace(SHORT, iterations=31)},
        {"settings": replace(SHORT, omega=Omega.NONE)},
        {"settings": replace(SHORT, learning_rate=0.02)},
        {"settings": replace(SHORT, batch=41)},
    ],
)
def test_a_checkpoint_of_another_training_is_refused(change: dict[str, Any], mixed: Release, stopped: Path) -> None:
    before = stopped.read_bytes()
    with pytest.raises(FileError, match=r"m.part: was left by other training .*differs.; remove it to start anew"):
        quick(mixed, checkpoint=stopped, **change)
    assert stopped.read_bytes() == before


def test_a_checkpoint_of_another_release_is_refused(stopped: Path) -> None:
    """Even one of the same rows under the same plan: its noise is another."""
    chance = np.random.default_rng(1)
    table = pa.table({"age": [30] * 50, "job": ["a"] * 50, "rich": chance.random(50) < 0.5})
    other = release_rows(table, Offer(MIXED, recipe_with(RECIPES["auto"], None, None, 50), Budget(20, 1e-5)))
    with pytest.raises(FileError, match=r"other training .release differs.; remove it to start anew"):
        quick(other, checkpoint=stopped)


def without(part: str) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda meta, arrays: arrays.__delitem__(next(name for name in sorted(arrays) if name.startswith(part)))


def cut(part: str) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(meta: dict[str, Any], arrays: dict[str, Any]) -> None:
        name = next(name for name in sorted(arrays) if name.startswith(part) and arrays[name].size > 1)
        arrays[name] = arrays[name][:-1]

    return change


DAMAGE: dict[str, Callable[[dict[str, Any], dict[str, Any]], None]] = {
    "no chance": without("chance"),
    "a cut chance": cut("chance"),
    "no losses": without("losses"),
    "no weights": without("generator/"),
    "cut weights": cut("generator/"),
    "no critic": without("critic/"),
    "no step": lambda meta, arrays: meta.pop("step"),
    "a step that is no number": lambda meta, arrays: meta.update(step="many"),
    "state of nothing": lambda meta, arrays: arrays.update({"generator.adam/x/step": np.zeros(1)}),
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_checkpoint_whose_parts_do_not_fit_is_refused(
    change: Callable[[dict[str, Any], dict[str, Any]], None], mixed: Release, stopped: Path
) -> None:
    meta, arrays = container.read(stopped, CHECKPOINT)
    change(meta, arrays)
    container.replace_file(stopped, container.pack(CHECKPOINT, meta, arrays)[0])
    with pytest.raises(FileError, match=r"m.part: is damaged; remove it to start anew"):
        quick(mixed, checkpoint=stopped)


def test_a_flipped_bit_or_a_cut_checkpoint_is_refused(mixed: Release, stopped: Path) -> None:
    intact = stopped.read_bytes()
    for place in np.random.default_rng(0).integers(0, len(intact), 12):
        changed = bytearray(intact)
        changed[place] ^= 4
        stopped.write_bytes(changed)
        with pytest.raises(FileError, match=r"m.part: is"):
            quick(mixed, checkpoint=stopped)
    for content in (b"", intact[: len(intact) // 2], b"notes of another program\n"):
        stopped.write_bytes(content)
        with pytest.raises(FileError, match=r"m.part: is"):
            quick(mixed, checkpoint=stopped)


def test_a_release_is_no_checkpoint(mixed: Release, tmp_path: Path) -> None:
    save_release(mixed, tmp_path / "m.part")
    with pytest.raises(FileError, match="is a dpearl-release file, not a dpearl-checkpoint file"):
        quick(mixed, checkpoint=tmp_path / "m.part")


def test_a_loss_that_is_not_finite_stops_training_with_advice(mixed: Release, tmp_path: Path) -> None:
    training = Training(mixed, SHORT, 0, torch.device("cpu"))
    training.advance()
    with torch.no_grad():
        next(training.generator.parameters()).fill_(math.nan)
    training.save(tmp_path / "m.part")
    with pytest.raises(TrainingError, match=r"broke down in step 2: .*lower --learning-rate .*another --seed"):
        quick(mixed, checkpoint=tmp_path / "m.part")


@pytest.mark.parametrize("wrong", [0, -0.1, 1.5, math.nan, math.inf])
def test_a_learning_rate_that_can_never_work_is_refused(wrong: float) -> None:
    with pytest.raises(UsageError, match="learning rate must be more than 0 and at most 1"):
        replace(SHORT, learning_rate=wrong)


@pytest.mark.parametrize("change", [{"iterations": 0}, {"batch": 0}, {"generator_steps": 0}, {"critic_rate": -1.0}])
def test_settings_that_can_never_work_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        replace(SHORT, **change)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_that_cannot_be_stored_is_refused(seed: int, mixed: Release) -> None:
    with pytest.raises(UsageError, match="seed must lie between 0 and 2"):
        quick(mixed, seed=seed)


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "tpu", "", "cpu cpu", "meta"])
def test_an_unknown_device_is_refused(name: str, mixed: Release) -> None:
    with pytest.raises(UsageError, match="is not available here; use auto or cpu"):
        fit(mixed, SHORT, device=name)
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device("auto").type in ("cpu", "cuda")


def test_the_constants_are_those_for_tables_and_for_images() -> None:
    designs = [Offer(schema, RECIPES["paper"], Budget(1.0, 1e-5)).sketch["embedding"] for schema in (MIXED, PICTURED)]
    assert settings_for(designs[0]) == TABLES == Settings(8000, 1100, 10, 0.01, 0.01, Omega.SIGMA)
    assert settings_for(designs[1]) == IMAGES == Settings(6000, 100, 5, 0.01, 0.01, Omega.SIGMA)


def test_a_release_without_rows_is_refused() -> None:
    recipe = recipe_with(RECIPES["auto"], Relation.REPLACE_ONE, None, 4)
    with pytest.raises(FileError, match="holds no rows"):
        quick(release_rows(alike(0), Offer(SCHEMA, recipe, Budget(1, 1e-5))))


def joint(table: pa.Table) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Shares of the 25 pairs of letters."""
    places = [np.array([LETTERS.index(cell) for cell in table[name].to_pylist()]) for name in ("left", "right")]
    return np.asarray(np.bincount(places[0] * 5 + places[1], minlength=25) / len(table))


@pytest.fixture(scope="module")
def trained(easy: Release) -> tuple[Synthesizer, list[Moment]]:
    seen: list[Moment] = []
    return quick(easy, Settings(iterations=350, batch=200, generator_steps=10), watch=seen.append), seen


def test_training_finds_what_columns_have_to_do_with_each_other(trained: tuple[Synthesizer, list[Moment]]) -> None:
    """Total variation of the pairs, against that of columns that are right one by one but know nothing of each other."""
    real, made = joint(alike()), joint(trained[0].sample(8000))
    shares = real.reshape(5, 5)
    apart = np.outer(shares.sum(axis=1), shares.sum(axis=0)).ravel()
    assert np.abs(apart - real).sum() / 2 > 0.5
    assert np.abs(made - real).sum() / 2 < 0.15


def test_the_loss_falls_towards_the_floor(trained: tuple[Synthesizer, list[Moment]]) -> None:
    _, seen = trained
    assert [moment.step for moment in seen] == list(range(50, 351, 50))
    assert {(moment.iterations, moment.floor) for moment in seen} == {(350, seen[0].floor)}
    assert seen[-1].loss < seen[0].loss / 3
    assert seen[-1].loss < 2 * seen[-1].floor < seen[0].loss


def test_the_critic_keeps_at_least_a_tenth_of_the_frequencies_in_view(trained: tuple[Synthesizer, list[Moment]]) -> None:
    _, seen = trained
    assert all(math.isfinite(moment.loss) and moment.loss > 0 for moment in seen)
    spread = [moment.effective or 0 for moment in seen]
    assert all(9.99 < own <= 100.001 for own in spread)
    assert spread[-1] < 99, "it moved"


@pytest.mark.parametrize("omega", [Omega.SIGMA, Omega.MU_SIGMA])
def test_the_critic_lifts_what_is_still_far(omega: Omega, easy: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weighted distance rises where the distances stay: it plays against the generator."""
    training = Training(easy, replace(SHORT, omega=omega), 0, torch.device("cpu"))
    distances = training._distances().detach()
    monkeypatch.setattr(training, "_distances", lambda: distances)
    assert training.rising is not None
    seen = [float(training._weights @ distances)]
    for _ in range(5):
        training._sharpen(training.rising)
        seen.append(float(training._weights @ distances))
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]


def test_without_a_critic_all_frequencies_weigh_the_same(easy: Release) -> None:
    for omega, uniform in ((Omega.NONE, True), (Omega.SIGMA, False), (Omega.MU_SIGMA, False)):
        training = Training(easy, replace(SHORT, omega=omega), 0, torch.device("cpu"))
        for _ in range(20):
            training.advance()
        assert (training.moment().effective == pytest.approx(100, abs=1e-3)) is uniform
        assert math.isclose(float(training._weights.sum()), 1, abs_tol=1e-5)
        assert (training.rising is None) is uniform


def test_the_learning_rate_falls_to_zero(easy: Release) -> None:
    training, rates = Training(easy, SHORT, 0, torch.device("cpu")), []
    for _ in range(30):
        training.advance()
        rates.append(training.falling.param_groups[0]["lr"])
    assert rates == pytest.approx([0.01 * (30 - step) / 30 for step in range(30)])


# The command: killed in every way, and alone with a release.

DPEARL = [str(Path(sys.executable).parent / "dpearl")]
SAVING = """
import sys
import dpearl.train
dpearl.train._EVERY = 0.2  # else a kill -9 would have to wait for ten seconds of training
sys.argv = ["dpearl", *sys.argv[1:]]
from dpearl.cli import main
main()
"""
TRAIN = ("train", "r.dpearl", "--iterations", "300", "--threads", "1", "--seed", "4")


def until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for it as long as the process runs."""
    while not condition():
        if process.poll() is not None:
            raise AssertionError(process.communicate())
        time.sleep(0.005)


@pytest.fixture(scope="module")
def pictured() -> Release:
    """A release whose steps of training are quick: pictures are learnt in small batches."""
    faces = {"face": np.full((500, 2, 2), 200, np.uint8), "old": np.arange(500) % 3 == 0}
    return release_rows(faces, Offer(PICTURED, recipe_with(RECIPES["auto"], None, None, 20), Budget(20, 1e-5)))


@pytest.fixture(scope="module")
def uninterrupted(pictured: Release) -> pa.Table:
    return fit(pictured, replace(IMAGES, iterations=300), 4, "cpu", 1).sample(300, seed=9)


@pytest.fixture
def folder(pictured: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A release alone in a folder."""
    save_release(pictured, tmp_path / "r.dpearl")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["dpearl", *arguments])
        return cli._run()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_training_that_is_killed_goes_on_where_it_was(number: signal.Signals, folder: Path, uninterrupted: pa.Table) -> None:
    part, log = folder / "m.dpearl.part", folder / "log"
    program = [sys.executable, "-c", SAVING] if number == signal.SIGKILL else DPEARL
    command = [*program, *TRAIN, "-o", "m.dpearl", "--log", "log"]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until(part.exists if number == signal.SIGKILL else lambda: log.exists() and log.stat().st_size > 0, process)
        process.send_signal(number)
        out, err = process.communicate()
    assert 0 < container.read(part, CHECKPOINT)[0]["step"] < 300
    assert not (folder / "m.dpearl").exists()
    assert out == ""
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 130, err
        assert sorted(path.name for path in folder.iterdir()) == ["log", "m.dpearl.part", "r.dpearl"]

    assert run(*TRAIN, "-o", "m.dpearl") == 0
    assert not part.exists()
    assert run("sample", "m.dpearl", "-n", "300", "--seed", "9", "-o", "rows.parquet") == 0
    assert parquet.read_table("rows.parquet").equals(uninterrupted)
    if number != signal.SIGKILL:
        assert (err.count("\n"), err[:8]) == (1, "dpearl: ")
        assert "m.dpearl.part keeps" in err
        assert "goes on" in err


def test_a_run_with_other_settings_does_not_take_over_what_is_kept(
    folder: Path, pictured: Release, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        quick(pictured, replace(IMAGES, iterations=3), checkpoint=Path("m.dpearl.part"), stop=stop_at(1))
    assert run("train", "r.dpearl", "-o", "m.dpearl", "--iterations", "4") == 2
    told = "m.dpearl.part: was left by other training (iterations differs); remove it to start anew"
    assert capsys.readouterr().err == f"dpearl: {told}\n"
    assert sorted(path.name for path in folder.iterdir()) == ["m.dpearl.part", "r.dpearl"]


def test_what_was_trained_is_not_lost_when_the_model_cannot_be_saved(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A full disk at the end must not cost the hours before: the checkpoint lies there until the model does."""
    command = ("train", "r.dpearl", "-o", "m.dpearl", "--iterations", "3", "--threads", "1")
    monkeypatch.setattr(train, "_EVERY", -1.0)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", full)
        assert run(*command) == 2
    assert "m.dpearl: cannot be written (No space left on device)" in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == ["m.dpearl.part", "r.dpearl"]
    assert run(*command) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["m.dpearl", "r.dpearl"]


def test_the_command_without_a_critic_and_its_log(folder: Path) -> None:
    options = ("--no-critic", "--iterations", "51", "--threads", "1", "--learning-rate", "0.02", "--log", "log")
    assert run("train", "r.dpearl", "-o", "m.dpearl", *options) == 0
    lines = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    assert [line["step"] for line in lines] == [50, 51]
    assert all(line["effective"] == pytest.approx(20, abs=1e-3) for line in lines)
    assert {line["iterations"] for line in lines} == {51}
    told = container.read("m.dpearl", MODEL)[0]["training"]
    assert (told["omega"], told["learning_rate"], told["iterations"]) == ("none", 0.02, 51)


def test_the_stop_signals_are_given_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with public_side._stop_signals() as stop:
        assert not stop()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop()
        with pytest.raises(KeyboardInterrupt):  # whoever presses twice means it
            os.kill(os.getpid(), signal.SIGINT)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


ALONE = """
import sys

FORBIDDEN = {"read", "embed", "noise", "ledger", "owner", "sanitize"}

class Door:
    def find_spec(self, name, path=None, target=None):
        parts = name.split(".")
        if parts[0] == "dpearl" and len(parts) > 1 and parts[1] in FORBIDDEN:
            raise ImportError(f"{name} is on the private side")

sys.meta_path.insert(0, Door())
import dpearl.train
from dpearl.release import load_release
from dpearl.settings import Settings

model = dpearl.train.fit(load_release("r.dpearl"), Settings(iterations=2, batch=20, generator_steps=1), threads=1)
print(len(model.sample(7)), *sorted(name for name in sys.modules if name.split(".")[1:2] and name.split(".")[1] in FORBIDDEN
                                    and name.startswith("dpearl.")))
"""


def test_training_needs_nothing_of_the_private_side(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr


def test_the_command_works_where_there_is_nothing_but_a_release(folder: Path) -> None:
    command = [*DPEARL, "train", "r.dpearl", "-o", "m.dpearl", "--iterations", "2"]
    clean = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH")}
    done = subprocess.run(command, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"Written to m.dpearl.*\nNext: dpearl sample m.dpearl -n 1000 -o synthetic.npz\n", done.stderr)
    assert sorted(path.name for path in folder.iterdir()) == ["m.dpearl", "r.dpearl"]
