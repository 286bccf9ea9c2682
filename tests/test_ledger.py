"""The ledger is charged before anything is released, never past its budget, and shows every alteration."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from dpearl.design import RECIPES
from dpearl.errors import BudgetError, DataError, FileError
from dpearl.ledger import charge, check, read_ledger, set_budget
from dpearl.owner import Offer, recipe_with, release_rows
from dpearl.privacy import Budget, Relation, Unit, compose, epsilon_of
from dpearl.release import save_release
from dpearl.schema import parse_schema

TOTAL = Budget(2.0, 1e-5)
EACH = Budget(1.0, 1e-5)
UNIT = Unit(Relation.ADD_REMOVE)
SCHEMA = parse_schema({"columns": {"x": {"kind": "number", "lower": 0, "upper": 1}}})
OFFER = Offer(SCHEMA, recipe_with(RECIPES["auto"], None, None, 4), EACH)
ROWS = pa.table({"x": [0.1, 0.2, 0.9]})


@pytest.fixture
def book(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


def spend(book: Path, mu: float = EACH.mu / 2, unit: Unit = UNIT) -> None:
    charge(book, EACH, mu, unit, "plan", "out.dpearl")


def test_a_ledger_opens_with_the_budget_it_is_given(book: Path) -> None:
    assert set_budget(book, TOTAL.epsilon, TOTAL.delta) == read_ledger(book)
    assert read_ledger(book).budget == TOTAL
    assert (read_ledger(book).charges, read_ledger(book).mu, read_ledger(book).spent) == ((), 0.0, 0.0)


def test_a_charge_without_a_ledger_opens_one_for_exactly_this_budget(book: Path) -> None:
    spend(book, EACH.mu * (1 - 1e-9))
    assert read_ledger(book).budget == EACH
    with pytest.raises(BudgetError, match="budget exceeded"):
        spend(book, 0.01)


def test_an_entry_says_what_was_released_for_whom_and_when(book: Path) -> None:
    made = charge(book, EACH, 0.1, Unit(Relation.REPLACE_ONE, 3), "abc", "out.dpearl")
    assert read_ledger(book).charges == (made,)
    assert (made.mu, made.delta, made.plan, made.output) == (0.1, 1e-5, "abc", "out.dpearl")
    assert made.unit == Unit(Relation.REPLACE_ONE, 3)
    assert made.time.endswith("+00:00")


def test_charges_compose_exactly(book: Path) -> None:
    set_budget(book, TOTAL.epsilon, TOTAL.delta)
    for part in (0.1, 0.2, 0.2):
        spend(book, part)
    assert read_ledger(book).mu == pytest.approx(0.3, abs=1e-15)
    assert read_ledger(book).spent == pytest.approx(epsilon_of(0.3, 1e-5), abs=1e-12)


def test_the_budget_can_be_used_to_its_end_and_not_past_it(book: Path) -> None:
    set_budget(book, TOTAL.epsilon, TOTAL.delta)
    for _ in range(4):
        spend(book, TOTAL.mu / 2 * (1 - 1e-12))
    assert read_ledger(book).spent == pytest.approx(2.0, abs=1e-9)
    with pytest.raises(BudgetError, match=r"2 of epsilon 2 is spent.*raise the total"):
        spend(book, 0.001)


def test_a_refusal_leaves_the_file_byte_for_byte(book: Path) -> None:
    set_budget(book, TOTAL.epsilon, TOTAL.delta)
    spend(book)
    before = book.read_bytes()
    with pytest.raises(BudgetError):
        spend(book, 10.0)
    with pytest.raises(BudgetError):
        spend(book, 0.1, Unit(Relation.REPLACE_ONE))
    with pytest.raises(BudgetError):
        check(book, EACH, 10.0, UNIT)
    assert book.read_bytes() == before


def test_a_first_charge_that_is_refused_opens_no_budget(book: Path) -> None:
    with pytest.raises(BudgetError):
        spend(book, 10.0)
    assert not book.exists() or not book.read_bytes()
    check(book, EACH, 0.1, UNIT)
    spend(book)
    assert len(read_ledger(book).charges) == 1


def test_units_of_protection_do_not_mix(book: Path) -> None:
    spend(book)
    for other in (Unit(Relation.REPLACE_ONE), Unit(Relation.ADD_REMOVE, 2)):
        with pytest.raises(BudgetError, match="must share one unit"):
            spend(book, 0.01, other)


def test_raising_the_total_is_recorded_and_makes_room(book: Path) -> None:
    spend(book, EACH.mu * 0.999)
    with pytest.raises(BudgetError):
        spend(book)
    set_budget(book, TOTAL.epsilon, TOTAL.delta)
    spend(book)
    kinds = [json.loads(line)["entry"]["kind"] for line in book.read_text().splitlines()]
    assert kinds == ["budget", "charge", "budget", "charge"]
    assert read_ledger(book).budget == TOTAL


def test_a_check_agrees_with_the_charge_that_follows(book: Path) -> None:
    check(book, EACH, EACH.mu / 2, UNIT)
    assert not book.exists(), "a check writes nothing"
    spend(book)
    check(book, EACH, EACH.mu / 2, UNIT)
    with pytest.raises(BudgetError):
        check(book, EACH, EACH.mu, UNIT)


def lines(book: Path) -> list[str]:
    set_budget(book, TOTAL.epsilon, TOTAL.delta)
    for part in (0.1, 0.2, 0.3):
        spend(book, part)
    return book.read_text().splitlines(keepends=True)


ALTERATIONS: dict[str, Callable[[list[str]], list[str]]] = {
    "a smaller charge": lambda four: [four[0], four[1].replace('"mu":0.1', '"mu":0.01'), *four[2:]],
    "a larger budget": lambda four: [four[0].replace('"epsilon":2.0', '"epsilon":9.0'), *four[1:]],
    "the last charge edited": lambda four: [*four[:3], four[3].replace('"mu":0.3', '"mu":0.0')],
    "the first line removed": lambda four: four[1:],
    "a charge removed": lambda four: [four[0], four[1], four[3]],
    "two charges swapped": lambda four: [four[0], four[2], four[1], four[3]],
    "a charge doubled": lambda four: [*four, four[3]],
    "a blank line": lambda four: [*four[:2], "\n", *four[2:]],
    "not JSON": lambda four: [*four, "charge\n"],
    "not an object": lambda four: [*four, "3\n"],
    "deep nesting": lambda four: [*four, "[" * 100_000 + "\n"],
}


@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_an_altered_ledger_is_refused(alteration: str, book: Path) -> None:
    changed = "".join(ALTERATIONS[alteration](lines(book)))
    assert changed != book.read_text()
    book.write_text(changed)
    for use in (lambda: read_ledger(book), lambda: spend(book), lambda: set_budget(book, TOTAL.epsilon, TOTAL.delta)):
        with pytest.raises(FileError, match=r"line \d has been altered"):
            use()
    assert book.read_text() == changed


def test_every_flipped_bit_is_seen(book: Path) -> None:
    intact = "".join(lines(book)[:2]).encode()
    for place in range(8 * len(intact)):
        byte, bit = divmod(place, 8)
        book.write_bytes(intact[:byte] + bytes([intact[byte] ^ 1 << bit]) + intact[byte + 1 :])
        with pytest.raises(FileError):
            read_ledger(book)


def test_a_torn_last_line_is_named_and_can_be_deleted(book: Path) -> None:
    intact = "".join(lines(book))
    book.write_text(intact + intact.splitlines()[-1][:40])
    for use in (lambda: read_ledger(book), lambda: spend(book)):
        with pytest.raises(FileError, match=r"last line is incomplete.*delete that line"):
            use()
    book.write_text(intact)
    assert len(read_ledger(book).charges) == 3


@pytest.mark.parametrize(("content", "complaint"), [(b"", "is empty"), (b"\xff\xfe\n", "cannot be read as a ledger")])
def test_what_is_no_ledger_is_refused(content: bytes, complaint: str, book: Path) -> None:
    book.write_bytes(content)
    with pytest.raises(FileError, match=complaint):
        read_ledger(book)


def test_a_missing_ledger_or_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such ledger"):
        read_ledger(tmp_path / "none.jsonl")
    with pytest.raises(FileError, match="No such file"):
        spend(tmp_path / "none" / "ledger.jsonl")


MANY_CHARGES = """
import sys
from dpearl.errors import BudgetError
from dpearl.ledger import charge
from dpearl.privacy import Budget, Relation, Unit
sys.stdin.readline()
made = 0
for _ in range(12):
    try:
        charge(sys.argv[1], Budget(1.0, 1e-5), float(sys.argv[2]), Unit(Relation.ADD_REMOVE), sys.argv[3], "")
        made += 1
    except BudgetError:
        pass
print(made)
"""


def test_processes_that_charge_at_once_lose_nothing_and_never_overspend(book: Path) -> None:
    """20 charges fit; 4 processes try 48."""
    each = EACH.mu / math.sqrt(20) * (1 - 1e-9)
    command = [sys.executable, "-c", MANY_CHARGES, str(book), repr(each)]
    workers = [
        subprocess.Popen([*command, str(worker)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for worker in range(4)
    ]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    made = {str(place): int(worker.communicate()[0]) for place, worker in enumerate(workers)}
    book_after = read_ledger(book)
    assert sum(made.values()) == len(book_after.charges) == 20
    assert book_after.spent <= 1.0
    assert {plan: sum(entry.plan == plan for entry in book_after.charges) for plan in made} == made


def test_the_charge_is_what_the_release_costs(book: Path) -> None:
    made = release_rows(ROWS, OFFER, book)
    (entry,) = read_ledger(book).charges
    assert entry.mu == OFFER.mu == made.mu
    assert entry.plan == made.plan == OFFER.digest
    assert read_ledger(book).spent <= EACH.epsilon


def test_a_crash_in_the_second_pass_keeps_the_charge_and_makes_no_release(tmp_path: Path, book: Path) -> None:
    data = tmp_path / "rows.csv"
    data.write_text("x\n0.1\n0.2\n")

    def progress(stage: str, rows: int | None) -> Callable[[int], None]:
        if stage == "embedding":
            data.write_text("y\n1\n")
        return lambda rows: None

    with pytest.raises(DataError):
        release_rows(data, OFFER, book, "out.dpearl", progress=progress)
    assert len(read_ledger(book).charges) == 1


def test_the_charge_is_on_disk_before_noise_is_drawn(book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_entropy(size: int) -> bytes:
        raise InterruptedError("power cut")

    monkeypatch.setattr(os, "urandom", no_entropy)
    with pytest.raises(InterruptedError):
        release_rows(ROWS, OFFER, book, "out.dpearl")
    assert len(read_ledger(book).charges) == 1


def test_a_release_that_cannot_be_saved_stays_charged(tmp_path: Path, book: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    made = release_rows(ROWS, OFFER, book, "out/a.dpearl")
    folder.rmdir()
    with pytest.raises(Exception, match="does not exist"):
        save_release(made, folder / "a.dpearl")
    assert len(read_ledger(book).charges) == 1


@pytest.mark.parametrize("content", ["y\n1\n", "x\n1\n1,2\n", 'x\n"1\n', "x\n1\0\n"], ids=["column", "ragged", "quote", "NUL"])
def test_a_structural_error_leaves_the_ledger_untouched(content: str, tmp_path: Path, book: Path) -> None:
    data = tmp_path / "rows.csv"
    data.write_text(content)
    with pytest.raises(DataError):
        release_rows(data, OFFER, book)
    assert not book.exists()
    set_budget(book, TOTAL.epsilon, TOTAL.delta)
    before = book.read_bytes()
    with pytest.raises(DataError):
        release_rows(data, OFFER, book)
    assert book.read_bytes() == before


def test_an_exhausted_budget_stops_before_a_row_is_read(tmp_path: Path, book: Path) -> None:
    spend(book, EACH.mu * 0.9)
    with pytest.raises(BudgetError, match="budget exceeded"):
        release_rows(ROWS, OFFER, book, progress=lambda stage, rows: pytest.fail("read"))


def test_a_charge_that_cannot_be_synced_stops_the_release(book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line itself must be safe: that the folder is synced, too, says nothing of it."""
    spend(book)
    real = os.fsync

    def full(descriptor: int) -> None:
        if os.path.sameopenfile(descriptor, held.fileno()):
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with book.open("rb") as held, pytest.raises(FileError):
        release_rows(ROWS, Offer(SCHEMA, OFFER.recipe, Budget(0.1, 1e-5)), book)


def test_composition_in_the_ledger_is_that_of_the_accountant(book: Path) -> None:
    set_budget(book, TOTAL.epsilon, TOTAL.delta)
    for _ in range(3):
        spend(book, 0.2)
    assert read_ledger(book).mu == compose([0.2, 0.2, 0.2])


def test_a_changed_total_keeps_its_delta_and_its_history(tmp_path: Path) -> None:
    book = tmp_path / "ledger.jsonl"
    set_budget(book, 2.0, 1e-7)
    changed = set_budget(book, 3.0)
    assert changed.budget == Budget(3.0, 1e-7)
    assert [budget for _, budget in changed.budgets] == [Budget(2.0, 1e-7), Budget(3.0, 1e-7)]


def test_what_is_left_is_just_what_one_more_release_may_cost(tmp_path: Path) -> None:
    book = tmp_path / "ledger.jsonl"
    set_budget(book, 2.0)
    charge(book, Budget(1.0, 1e-5), Budget(1.0, 1e-5).mu, Unit(Relation.ADD_REMOVE), "", "")
    left = read_ledger(book).left
    assert 1.6 < left < 2
    with pytest.raises(BudgetError, match="exceeded"):
        charge(book, Budget(1.0, 1e-5), Budget(1.001 * left, 1e-5).mu, Unit(Relation.ADD_REMOVE), "", "")
    charge(book, Budget(1.0, 1e-5), Budget(0.999 * left, 1e-5).mu, Unit(Relation.ADD_REMOVE), "", "")
