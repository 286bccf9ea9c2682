"""Commands that see a release and nothing else. Torch is loaded when it is needed, for an owner may not have it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from dpearl import container
from dpearl.cli import say, show
from dpearl.cli.options import (
    AsJson,
    CriticName,
    Device,
    Iterations,
    LearningRate,
    ModelFile,
    Moves,
    NoCritic,
    Output,
    Quiet,
    ReleaseFile,
    SampleOutput,
    SampleRows,
    SampleSeed,
    Threads,
    TrainingSeed,
    verbs,
)
from dpearl.condition import parse_where
from dpearl.design import Design, tabular
from dpearl.embed import PARTIAL
from dpearl.errors import FileError, Interrupted, UsageError
from dpearl.release import CHECKPOINT, MODEL, RELEASE, Release, load_release, load_release_inside
from dpearl.settings import AnySettings, Omega, Settings, check_seed, settings_for
from dpearl.write import check_output, formulas, write_rows

if TYPE_CHECKING:
    from dpearl.moment import Moment, Watch
    from dpearl.synthesizer import Synthesizer


app = verbs()


@app.command(epilog=say.examples("dpearl inspect people.dpearl", "dpearl inspect model.dpearl --json | jq .recomputed"))
def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A release or a model.")],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print the privacy statement of a release or model."""
    fit_kind(file)
    opened, training = load_release_inside(file)
    show.statement(opened, as_json, training)
    more = f"sample {file} -n 1000 -o synthetic{_form(opened)}" if training else f"train {file} -o model.dpearl"
    if not as_json:
        say.next_step(f"dpearl {more}")


@app.command(
    epilog=say.examples(
        "dpearl train people.dpearl -o model.dpearl",
        "dpearl train people.dpearl -o model.dpearl --seed 7 --log training.jsonl",
    )
)
def train(
    file: ReleaseFile,
    output: Output,
    seed: TrainingSeed = 0,
    iterations: Iterations = None,
    no_critic: NoCritic = False,
    critic: CriticName = Moves.SIGMA,
    learning_rate: LearningRate = None,
    device: Device = "auto",
    threads: Threads = None,
    log: Annotated[Path | None, typer.Option("--log", help="Append a line of JSON for every 50 steps to this file.")] = None,
    quiet: Quiet = False,
) -> None:
    """Train a generator on a release.

    If it is stopped, the same command goes on where it was."""
    container.claim(output)
    if fit_kind(file) == MODEL:
        raise FileError(f"{file}: is a model already; `dpearl sample {file} -n 1000 -o synthetic.csv` draws rows from it")
    for other in (file, output, checkpoint_of(output)):
        if log is not None and log.resolve() == other.resolve():
            raise UsageError(f"{log}: cannot be the log, for it is a file of this training; give it a name of its own")
    made = load_release(file)
    settings = training_settings(made.embedding.design, iterations, Omega.NONE if no_critic else Omega(critic), learning_rate)
    with show.progress() as bars, _logging(log, bars.training) as watch:
        train_to(made, output, settings, seed, device, threads, watch, "the same command")
    say.note(f"Written to {output}{bars.summary}.")
    say.next_step(f"dpearl sample {output} -n 1000 -o synthetic{_form(made)}")


def _form(made: Release) -> str:
    """How synthetic rows of a release are best written."""
    return ".csv" if tabular(made.schema) else ".npz"


@app.command(
    epilog=say.examples(
        "dpearl sample model.dpearl -n 30000 -o synthetic.parquet",
        "dpearl sample model.dpearl -n 500 --where income='>50K' --where sex=Female --seed 7 -o rich.csv",
        "dpearl sample digits.model.dpearl -n 100 -o grid.png",
    )
)
def sample(
    file: ModelFile,
    rows: SampleRows,
    output: SampleOutput,
    where: Annotated[
        list[str] | None, typer.Option("--where", metavar="COLUMN=VALUE", help="Only such rows; may be repeated.")
    ] = None,
    seed: SampleSeed = 0,
    quiet: Quiet = False,
) -> None:
    """Draw synthetic rows from a model, at no privacy cost."""
    if fit_kind(file) == RELEASE:
        raise FileError(f"{file}: is a release, not a model; `dpearl train {file} -o model.dpearl` makes one of it")
    need_torch()
    from dpearl.synthesizer import load_synthesizer

    model = load_synthesizer(file)
    with show.progress() as bars:
        sample_to(model, rows, output, parse_where(where or []), seed, bars)
    say.note(f"{rows:,} synthetic rows in {output}, under the privacy statement that `dpearl inspect {file}` prints.")
    say.next_step(f"dpearl report {file} -o report.html")


def fit_kind(file: Path) -> str | None:
    """What a file is; those of ours that no public command may or can read are refused."""
    kind = container.kind_of(file)
    if kind == PARTIAL:
        raise FileError(f"{file}: is a PRIVATE partial sum, not a release; keep it secret, `dpearl release` makes one of it")
    if kind == CHECKPOINT:
        raise FileError(f"{file}: is a checkpoint of unfinished training; the same `dpearl train` command goes on from it")
    return kind


def need_torch() -> None:
    """Say what to install before anything is done, or spent, that training would lose."""
    try:
        import_module("torch")
    except (ImportError, OSError):
        raise UsageError("training and sampling need torch, which cannot be loaded here; pip install 'dpearl[train]'") from None


def training_settings(design: Design, iterations: int | None, omega: Omega, learning_rate: float | None) -> AnySettings:
    """The recipe's settings, with what the user chose instead. A mixture is fitted to known noise, without a critic."""
    settings = settings_for(design)
    if isinstance(settings, Settings):
        settings = replace(settings, omega=omega)
    elif omega is Omega.MU_SIGMA:
        raise UsageError("--critic: marginals are weighed by their known noise, without a critic; leave it out")
    if iterations is not None:
        settings = replace(settings, iterations=iterations)
    return settings if learning_rate is None else replace(settings, learning_rate=learning_rate)


def check_training(seed: int, device: str) -> None:
    """Refuse what training would refuse, before anything is spent."""
    need_torch()
    from dpearl.train import pick_device

    check_seed(seed)
    pick_device(device)


def checkpoint_of(output: Path) -> Path:
    """Where unfinished training is kept."""
    return output.with_name(f"{output.name}.part")


def train_to(
    made: Release, output: Path, settings: AnySettings, seed: int, device: str, threads: int | None, watch: Watch, again: str
) -> Synthesizer:
    """Train and save; a checkpoint lies beside the output until it is there. `again` is the command that goes on from it."""
    check_training(seed, device)
    from dpearl.synthesizer import save_synthesizer
    from dpearl.train import fit

    checkpoint = checkpoint_of(output)
    with _stop_signals() as stop:
        try:
            model = fit(made, settings, seed, device, threads, checkpoint, watch, stop)
        except KeyboardInterrupt:
            raise Interrupted(f"{checkpoint} keeps what was trained; {again} goes on from it") from None
    save_synthesizer(model, output)
    container.remove(checkpoint)
    return model


def sample_to(model: Synthesizer, rows: int, output: Path, where: dict[str, str], seed: int, bars: show.Bars) -> None:
    """Sample into a file."""
    check_output(output, model.codec.schema, rows)
    tables = model.chunks(rows, where, seed)
    done = bars.stage("sampling", rows)
    write_rows((show.told(table, done) for table in tables), model.codec.schema, output)
    risky = formulas(model.codec.schema) if output.suffix.lower() == ".csv" else []
    if risky:
        more = f", and {len(risky) - 1} more," if risky[1:] else ""
        remedy = "the cells are as the schema has them, so import these columns as text, or sample to .parquet"
        say.note(f"WARNING: {output}: a spreadsheet would take {risky[0]}{more} for a formula; {remedy}")


@contextmanager
def _logging(path: Path | None, watch: Watch) -> Iterator[Watch]:
    """What is shown is also written, one line of JSON at a time."""
    if path is None:
        yield watch
        return
    if container.kind_of(path) is not None:
        raise UsageError(f"{path}: cannot be the log, for it is a dpearl file; give the log a name of its own")
    _append(path, "")

    def both(moment: Moment) -> None:
        _append(path, json.dumps(asdict(moment)) + "\n")
        watch(moment)

    yield both


def _append(path: Path, line: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(line)
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror})") from None


@contextmanager
def _stop_signals() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and a polite kill let the running step end, so that what is kept is whole."""
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.append(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
