"""What people see: progress on stderr; tables, sentences and JSON on stdout."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from dpearl.audit import Finding
from dpearl.cli import say
from dpearl.ledger import Ledger
from dpearl.letters import one_line
from dpearl.plan import Forecast
from dpearl.release import Release
from dpearl.statement import facts, privacy_statement

if TYPE_CHECKING:
    from dpearl.moment import Moment

_STAGES = {
    "bounds": "Bounds",
    "ranges": "Bounds, closer",
    "levels": "Levels",
    "shapes": "Shapes",
    "modes": "Modes",
    "auxiliary": "First look",
    "embedding": "Embedding",
    "sampling": "Sampling",
    "looking": "Pictures",
    "measuring": "Measuring",
    "learning": "Learning",
    "attacking": "Attacking",
    "auditing": "Auditing",
    "reporting": "Report",
}
_WIDE = 120
"""Columns of a terminal that has room for what the critic does."""


class Bars:
    """A bar for each pass over rows and one for training, in one display; silent where stderr is no terminal."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._training: TaskID | None = None
        self.summary = ""

    def stage(self, name: str, total: int | None) -> Callable[[int], None]:
        """A bar that is told of rows as they are done; what went before is finished."""
        return self._next(name, total, "rows")

    def steps(self, name: str, total: int) -> Callable[[int], None]:
        """A bar that is told of steps."""
        return self._next(name, total, "steps")

    def working(self, name: str) -> None:
        """A bar for work whose end nobody knows."""
        self._next(name, None, "")

    def _next(self, name: str, total: int | None, of: str) -> Callable[[int], None]:
        for task in self._bars.tasks:
            self._bars.update(task.id, total=task.completed)
        task_id = self._bars.add_task(_STAGES[name.split()[0]], total=total, told=of)
        return lambda done: self._bars.advance(task_id, done)

    def training(self, moment: Moment) -> None:
        """The bar of training, with what can be said of it."""
        if self._training is None:
            self._training = self._bars.add_task("Training", total=moment.iterations, told="")
        self.summary = f" (loss {moment.loss:.3g}, noise floor {moment.floor:.3g})"
        told = f"loss {moment.loss:.3g}, floor {moment.floor:.3g}"
        if moment.effective is not None and self._bars.console.width >= _WIDE:
            told += f", critic on {moment.effective:,.0f} frequencies"
        self._bars.update(self._training, completed=moment.step, total=moment.iterations, told=told)


class _Done(MofNCompleteColumn):
    """How much is done, of how much where that is known."""

    def render(self, task: Task) -> Text:
        if task.total is not None:
            return super().render(task)
        return Text(f"{int(task.completed):,}" if task.completed else "", style="progress.download")


class _Left(TimeRemainingColumn):
    """The time left; where nobody knows it, the time that has passed."""

    def render(self, task: Task) -> Text:
        if task.total is not None:
            return super().render(task)
        minutes, seconds = divmod(int(task.elapsed or 0), 60)
        return Text(f"{minutes:02}:{seconds:02} so far", style="progress.elapsed")


@contextmanager
def progress() -> Iterator[Bars]:
    """One display for all that takes time."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        _Done(),
        _Left(compact=True),
        TextColumn("{task.fields[told]}"),
    )
    hidden = say.is_quiet() or not sys.stderr.isatty()  # rich takes a notebook's pipe for a terminal: FORCE_COLOR is set there
    with Progress(*columns, console=Console(stderr=True), disable=hidden, transient=True) as bars:
        yield Bars(bars)


def told(table: pa.Table, done: Callable[[int], None]) -> pa.Table:
    """A part of the rows, once the bar knows of it."""
    done(len(table))
    return table


def as_json(told: Mapping[str, Any]) -> None:
    """A result for programs."""
    say.result(json.dumps(told, indent=2, allow_nan=False))


def statement(release: Release, json_wanted: bool, training: Mapping[str, Any] | None = None) -> None:
    """What a release promises, in words or as JSON, and how a model of it was trained."""
    if json_wanted:
        as_json({**facts(release), **({"training": training} if training else {})})
        return
    say.result(privacy_statement(release))
    if training:
        say.result(one_line(f"  Model   {', '.join(f'{name} {value}' for name, value in training.items())}"))


def _table(table: Table) -> None:
    """As wide as the terminal is, or as COLUMNS says; wide enough for everything where nobody looks."""
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(width=_WIDE)
    console.print(table)


def forecast(made: Forecast) -> None:
    """What the budget buys, in words and a small table."""
    offer = made.offer
    say.result(f"With epsilon {offer.budget.epsilon:g}, delta {offer.budget.delta:g}, protecting {offer.unit}, a table of about")
    say.result(f"{made.rows:,} rows gives (recipe {offer.recipe.name}):\n")
    table = Table("stage", "block", "values", "budget", "noise/signal", "verdict")
    for line in made.lines:
        found = f"{line.values:,}" if line.values else "as found"
        values = (line.stage, line.family, found, f"{100 * line.share:.1f}%", _small(line.noise), line.verdict)
        table.add_row(*values)
    _table(table)
    say.result("Noise/signal: standard deviation of the noise on an average, over the largest value it can have.")
    if made.embedding_cost > 0:
        first = "Looking at single columns first" if made.lines[-1].family == "interactions" else "Finding the scale privately"
        say.result(f"{first} makes the noise of the embedding {100 * made.embedding_cost:.1f}% larger.")
    for asked, columns in made.asked.items():
        of = "1 column" if columns == 1 else f"{columns} columns"
        say.result(f"Estimating the {asked} of {of} makes the noise of the embedding {100 * made.costs[asked]:.1f}% larger.")
    for warning in made.warnings:
        say.result(f"\nWARNING: {warning}.")
    if not made.hopeful:
        say.result(
            f"\nWARNING: {made.rows:,} rows are too few to hope for useful data at this budget; about {made.rows_needed:,} rows "
            "would do,\nor a larger epsilon, fewer columns, or a label with fewer levels."
        )


def _small(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"


def ledger(book: Ledger, path: str) -> None:
    """A ledger in plain words."""
    say.result(f"{path}: budget epsilon {book.budget.epsilon:g} at delta {book.budget.delta:g}")
    for time, earlier in book.budgets[:-1]:
        say.result(one_line(f"  earlier total, set {time}: epsilon {earlier.epsilon:g} at delta {earlier.delta:g}"))
    for number, charge in enumerate(book.charges, start=1):
        say.result(
            one_line(f"  {number}. {charge.time}  {charge.output or 'release'}  mu {charge.mu:.4f}, plan {charge.plan[:12]}")
        )
        say.result(f"     protecting {charge.unit}")
    if not book.charges:
        say.result("  nothing has been released")
    charges = "1 charge" if len(book.charges) == 1 else f"{len(book.charges)} charges"
    say.result(f"Spent together: epsilon {book.spent:.4f}; the chain of {charges} is intact.")
    if not book.worth_a_release:
        say.result("Nothing worth a release is left.")
    else:
        say.result(f"One further release may take up to epsilon {book.left:.4f}: releases compose by adding mu squared.")


_FINDINGS = (
    "Figures are mu, or delta where it is named. Seen is the best guess, at least a bound that chance exceeds once in a hundred "
    "million tests: the audit fails where that bound lies above what is claimed."
)


def findings(found: list[Finding]) -> None:
    """The audit, one row for each test."""
    table = Table("unit of protection", "part", "claimed", "seen", "at least", "", caption=_FINDINGS)
    for finding in found:
        rows = finding.unit.rows_per_person
        unit = f"{finding.unit.relation}, {'one row' if rows == 1 else f'{rows} rows'}"
        values = (f"{value:.3f}" for value in (finding.stated, finding.estimate, finding.seen))
        table.add_row(unit, finding.part, *values, "ok" if finding.passed else "FAILED")
    _table(table)
