"""What has been spent on one dataset: append-only, hash-chained, charged before anything is released.

One JSON line per entry, each holding the SHA-256 of the line before. Charges compose exactly
(μ² adds up), so the total is one ε at the ledger's δ. Later budgets may follow from earlier releases, as long as the total
does not: to stop at a Σμ² set in advance is a privacy filter (Smith & Thakurta 2022). A file lock keeps two processes apart.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from io import FileIO
from pathlib import Path
from typing import Any

from dpearl.canonical import canonical
from dpearl.container import sync_folder
from dpearl.errors import BudgetError, FileError, UsageError
from dpearl.privacy import Budget, Relation, Unit, compose, epsilon_of

DELTA = 1e-5
MAX_FILE = 2**28
"""Bytes of a ledger: half a million charges."""

_ROOT = "0" * 64
_LARGEST = 1e9
"""A μ beyond any budget: the largest ε has one of some thousands."""


@dataclass(frozen=True)
class Charge:
    """One release: its μ, whom it protects, and what it was. `lost` is the part of δ that μ does not tell of."""

    mu: float
    delta: float
    unit: Unit
    plan: str
    output: str
    time: str
    lost: float = 0.0

    def __post_init__(self) -> None:
        if not (0 < float(self.mu) < _LARGEST and 0 < self.delta < 1 and 0 <= self.lost < 1):
            raise UsageError("a charge has a positive mu, a delta below 1, and loses a part of it")
        if type(self.unit.rows_per_person) is not int or not all(isinstance(text, str) for text in self._texts):
            raise UsageError("a charge says in words what it was, and for how many rows of a person")

    @property
    def _texts(self) -> tuple[str, str, str]:
        return self.plan, self.output, self.time


@dataclass(frozen=True)
class Ledger:
    """The budgets that the owner set, with their time, and the charges against the last of them, in order."""

    budgets: tuple[tuple[str, Budget], ...]
    charges: tuple[Charge, ...]
    head: str

    @property
    def budget(self) -> Budget:
        """The total that holds now."""
        return self.budgets[-1][1]

    @property
    def mu(self) -> float:
        """μ of all charges together."""
        return compose(charge.mu for charge in self.charges)

    @property
    def delta_left(self) -> float:
        """The ledger's δ without what charges take of it beside their μ: parts of δ add up (basic composition)."""
        return max(self.budget.delta - math.fsum(charge.lost for charge in self.charges), 0.0)

    @property
    def left(self) -> float:
        """ε that one further release may have at the ledger's δ: what is left of μ², not of ε."""
        if not self.delta_left:
            return 0.0
        whole = Budget(self.budget.epsilon, self.delta_left).mu
        return epsilon_of(math.sqrt(max(whole**2 - self.mu**2, 0.0)), self.delta_left)

    @property
    def worth_a_release(self) -> bool:
        """Whether a hundredth of the total is left."""
        return self.left >= 0.01 * self.budget.epsilon

    @property
    def spent(self) -> float:
        """ε of all charges together at the ledger's δ."""
        return epsilon_of(self.mu, self.delta_left)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "budget": asdict(self.budget),
            "earlier_budgets": [{"time": time, **asdict(budget)} for time, budget in self.budgets[:-1]],
            "charges": [{name: value for name, value in _entry(charge).items() if name != "kind"} for charge in self.charges],
            "spent": {"epsilon": self.spent, "mu": self.mu},
            "left": {"epsilon": self.left},
        }


def read_ledger(path: str | Path) -> Ledger:
    """Read a ledger and check its chain."""
    _refuse_odd(Path(path))
    try:
        with open(path, encoding="utf-8", newline="") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            return _parse(file.read(), Path(path))
    except FileNotFoundError:
        raise FileError(f"{path}: no such ledger; `dpearl ledger {path} --epsilon TOTAL` opens one") from None
    except (OSError, UnicodeDecodeError):
        raise FileError(f"{path}: cannot be read as a ledger") from None


def set_budget(path: str | Path, epsilon: float, delta: float | None = None) -> Ledger:
    """Open a ledger, or record the owner's decision to change its total; its δ stays unless one is given."""
    with _locked(Path(path)) as file:
        text = _text(file)
        earlier = _parse(text, Path(path)) if text else None
        kept = earlier.budget.delta if earlier else DELTA
        _append(file, earlier.head if earlier else _ROOT, _budget_entry(Budget(epsilon, kept if delta is None else delta)))
        return _parse(_text(file), Path(path))


def charge(path: str | Path, budget: Budget, mu: float, unit: Unit, plan: str, output: str, lost: float = 0.0) -> Charge:
    """Charge μ and sync it to disk, or refuse. A ledger that does not exist opens with exactly this budget."""
    with _locked(Path(path)) as file:
        text = _text(file)
        ledger = _parse(text, Path(path)) if text else Ledger(((_now(), budget),), (), _ROOT)
        made = Charge(mu, budget.delta, unit, plan, output, _now(), lost)
        _refuse(ledger, made, Path(path))
        head = ledger.head if text else _append(file, _ROOT, _budget_entry(budget))
        _append(file, head, _entry(made))
        return made


def check(path: str | Path, budget: Budget, mu: float, unit: Unit, lost: float = 0.0) -> None:
    """Refuse early what `charge` would refuse later, so that no time is lost on it."""
    if not Path(path).parent.is_dir():
        raise FileError(f"{path}: folder {Path(path).parent} does not exist; create it first")
    if Path(path).exists() and Path(path).stat().st_size:
        _refuse(read_ledger(path), Charge(mu, budget.delta, unit, "", "", "", lost), Path(path))


def _refuse_odd(path: Path) -> None:
    """Refuse what would be waited for without end, or read without end."""
    if path.exists() and not path.is_file():
        raise FileError(f"{path}: is no plain file, so it cannot be a ledger")
    if path.exists() and path.stat().st_size > MAX_FILE:
        raise FileError(f"{path}: is larger than any ledger")


def _refuse(ledger: Ledger, wanted: Charge, path: Path) -> None:
    for earlier in ledger.charges[:1]:
        if earlier.unit != wanted.unit:
            raise BudgetError(
                f"{path}: protects {earlier.unit}, this release {wanted.unit}; releases about the same people must share one "
                "unit: change --relation or --rows-per-person, or give another ledger if these are other people"
            )
    total = epsilon_of(compose([ledger.mu, wanted.mu]), ledger.delta_left - wanted.lost)
    if total > ledger.budget.epsilon:
        raise BudgetError(
            f"{path}: budget exceeded: {ledger.spent:.4g} of epsilon {ledger.budget.epsilon:.4g} is spent and this release "
            f"would make it {total:.4g} at the ledger's delta {ledger.budget.delta:g}; ask for less, or raise the total with "
            f"`dpearl ledger {path} --epsilon TOTAL`"
        )


def _budget_entry(budget: Budget) -> dict[str, Any]:
    return {"kind": "budget", "epsilon": budget.epsilon, "delta": budget.delta, "time": _now()}


def _entry(made: Charge) -> dict[str, Any]:
    return {
        "kind": "charge",
        "mu": made.mu,
        "delta": made.delta,
        "relation": str(made.unit.relation),
        "rows_per_person": made.unit.rows_per_person,
        "plan": made.plan,
        "output": made.output,
        "time": made.time,
        "lost": made.lost,
    }


def _parse(text: str, path: Path) -> Ledger:
    if text and not text.endswith("\n"):
        raise FileError(f"{path}: its last line is incomplete: a charge was cut off before any release; delete that line")
    head, charges = _ROOT, []
    budgets: list[tuple[str, Budget]] = []
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        try:
            link = json.loads(line)
            entry, previous, digest = link["entry"], link["previous"], link["hash"]
            if previous != head or digest != _hash(previous, entry) or line != canonical(link).decode():
                raise ValueError("chain")
            if entry["kind"] == "budget":
                budgets.append((str(entry["time"]), Budget(entry["epsilon"], entry["delta"])))
            elif entry["kind"] == "charge":
                unit = Unit(Relation(entry["relation"]), entry["rows_per_person"])
                told = {name: entry[name] for name in ("mu", "delta", "plan", "output", "time")}
                charges.append(Charge(**told, unit=unit, lost=float(entry.get("lost", 0.0))))
            else:
                raise ValueError("kind")
            head = digest
        except (BudgetError, UsageError, ArithmeticError, ValueError, KeyError, TypeError, RecursionError):
            raise FileError(f"{path}: line {number} has been altered or is not a ledger line; restore the file") from None
    if not budgets:
        raise FileError(f"{path}: is empty; `dpearl ledger {path} --epsilon TOTAL` opens it")
    return Ledger(tuple(budgets), tuple(charges), head)


def _hash(previous: str, entry: dict[str, Any]) -> str:
    return hashlib.sha256(previous.encode() + canonical(entry)).hexdigest()


def _text(file: FileIO) -> str:
    file.seek(0)
    return file.read().decode()


def _append(file: FileIO, previous: str, entry: dict[str, Any]) -> str:
    """One line more, safe on disk; where there is no room for all of it, none of it stays."""
    digest = _hash(previous, entry)
    line = canonical({"entry": entry, "hash": digest, "previous": previous}) + b"\n"
    end = file.seek(0, os.SEEK_END)
    try:
        while line:
            line = line[file.write(line) :]
        os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):
            file.truncate(end)
        raise
    return digest


@contextmanager
def _locked(path: Path) -> Iterator[FileIO]:
    """The ledger, open for reading and appending, held by this process alone; unbuffered, so that nothing is written late."""
    _refuse_odd(path)
    try:
        with open(path, "a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        sync_folder(path.parent)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", "not a text file")
        raise FileError(f"{path}: the ledger cannot be written ({reason}); nothing was released") from None


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
