"""Commands that see a release and nothing else. Torch is loaded when it is needed, for an owner may not have it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from dpearl import container
from dpearl.cli import show
from dpearl.cli.app import (
    CriticName,
    Device,
    Iterations,
    LearningRate,
    NoCritic,
    Output,
    SampleOutput,
    SampleRows,
    Threads,
    TrainingSeed,
    app,
)
from dpearl.condition import parse_where
from dpearl.embed import PARTIAL
from dpearl.errors import FileError, UsageError
from dpearl.release import MODEL, RELEASE, Release, load_release, load_release_inside
from dpearl.settings import Omega, Settings, settings_for
from dpearl.statement import facts, privacy_statement
from dpearl.write import check_output, write_rows

if TYPE_CHECKING:
    from dpearl.synthesizer import Synthesizer
    from dpearl.train import Moment, Watch


@app.command()
def inspect(
    file: Annotated[Path, typer.Argument(help="A release or a model.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
) -> None:
    """Print the privacy statement of a release or model, with its epsilon recomputed from the file."""
    _refuse_partial(file)
    opened = load_release_inside(file)
    print(json.dumps(facts(opened), indent=2) if as_json else privacy_statement(opened))


@app.command()
def train(
    file: Annotated[Path, typer.Argument(help="A release.")],
    output: Output,
    seed: TrainingSeed = 0,
    iterations: Iterations = None,
    no_critic: NoCritic = False,
    critic: CriticName = Omega.SIGMA,
    learning_rate: LearningRate = None,
    device: Device = "auto",
    threads: Threads = None,
    log: Annotated[Path | None, typer.Option("--log", help="Append a line of JSON for every 50 steps to this file.")] = None,
) -> None:
    """Train a generator on a release. If it is stopped, the same command goes on where it was."""
    container.claim(output)
    _refuse_partial(file)
    if container.kind_of(file) == MODEL:
        raise FileError(f"{file}: is a model already; `dpearl sample {file} -n 1000 -o synthetic.csv` draws rows from it")
    made = load_release(file)
    settings = training_settings(made, iterations, Omega.NONE if no_critic else critic, learning_rate)
    with show.progress() as bars, _logging(log, bars.training) as watch:
        train_to(made, output, settings, seed, device, threads, watch)
    show.note(f"Written to {output}. Next: dpearl sample {output} -n 1000 -o synthetic.csv")


@app.command()
def sample(
    file: Annotated[Path, typer.Argument(help="A model.")],
    rows: SampleRows,
    output: SampleOutput,
    where: Annotated[list[str] | None, typer.Option("--where", help="Only rows with column=value; may be repeated.")] = None,
    seed: TrainingSeed = 0,
) -> None:
    """Sample synthetic rows from a model, as often as you like: they cost no privacy."""
    _refuse_partial(file)
    if container.kind_of(file) == RELEASE:
        raise FileError(f"{file}: is a release, not a model; `dpearl train {file} -o model.dpearl` makes one of it")
    need_torch()
    from dpearl.synthesizer import load_synthesizer

    model = load_synthesizer(file)
    with show.progress() as bars:
        sample_to(model, rows, output, parse_where(where or []), seed, bars)
    show.note(f"{rows:,} synthetic rows in {output}, under the privacy statement that `dpearl inspect {file}` prints.")


def _refuse_partial(file: Path) -> None:
    if container.kind_of(file) == PARTIAL:
        raise FileError(f"{file}: is a PRIVATE partial sum, not a release; keep it secret, `dpearl release` makes one of it")


def need_torch() -> None:
    """Say what to install before anything is done, or spent, that training would lose."""
    if find_spec("torch") is None:
        raise UsageError("training and sampling need torch; install it with: pip install 'dpearl[train]'")


def training_settings(made: Release, iterations: int | None, omega: Omega, learning_rate: float | None) -> Settings:
    """The recipe's settings, with what the user chose instead."""
    settings = replace(settings_for(made), omega=omega)
    if iterations is not None:
        settings = replace(settings, iterations=iterations)
    return settings if learning_rate is None else replace(settings, learning_rate=learning_rate)


def train_to(
    made: Release, output: Path, settings: Settings, seed: int, device: str, threads: int | None, watch: Watch
) -> Synthesizer:
    """Train and save; a checkpoint lies beside the output until it is there."""
    need_torch()
    from dpearl.synthesizer import save_synthesizer
    from dpearl.train import fit

    checkpoint = output.with_name(f"{output.name}.part")
    with _stop_signals() as stop:
        try:
            model = fit(made, settings, seed, device, threads, checkpoint, watch, stop)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"training stopped; {checkpoint} keeps it: the same `dpearl train` command goes on") from None
    save_synthesizer(model, output)
    checkpoint.unlink(missing_ok=True)
    return model


def sample_to(model: Synthesizer, rows: int, output: Path, where: dict[str, str], seed: int, bars: show.Bars) -> None:
    """Sample into a file."""
    check_output(output, model.codec.schema, rows)
    tables = model.chunks(rows, where, seed)
    done = bars.stage("sampling", rows)
    write_rows((show.told(table, done) for table in tables), model.codec.schema, output)


@contextmanager
def _logging(path: Path | None, watch: Watch) -> Iterator[Watch]:
    """What is shown is also written, one line of JSON at a time."""
    if path is None:
        yield watch
        return
    try:
        file = path.open("a", encoding="utf-8")
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror})") from None
    with file:

        def both(moment: Moment) -> None:
            file.write(json.dumps(asdict(moment)) + "\n")
            file.flush()
            watch(moment)

        yield both


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
