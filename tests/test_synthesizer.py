"""A model: valid rows of every kind in the types they came in, for any number, seed and condition; and its file."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from dpearl import container
from dpearl.design import RECIPES
from dpearl.errors import FileError, UsageError
from dpearl.generator import Generator
from dpearl.owner import Offer, recipe_with, release_rows
from dpearl.privacy import Budget
from dpearl.release import MODEL, RELEASE, Release, load_release_inside, save_release
from dpearl.schema import Schema, parse_schema
from dpearl.settings import Settings
from dpearl.statement import privacy_statement
from dpearl.synthesizer import CHUNK, Synthesizer, load_synthesizer, save_synthesizer
from dpearl.train import fit

ROWS = 3000
COLUMNS: dict[str, Any] = {
    "age": {"kind": "number", "lower": 0, "upper": 100, "step": 1},
    "height": {"kind": "number", "lower": 1.2, "upper": 2.2, "step": 0.01, "missing": True},
    "wage": {"kind": "number", "lower": -1, "upper": 1},
    "wealth": {"kind": "number", "lower": 1, "upper": 1e6, "log": True, "spikes": [0, -5], "missing": True},
    "visits": {"kind": "number", "lower": 1, "upper": 1000, "step": 1, "log": True, "spikes": [0]},
    "born": {"kind": "datetime", "lower": "1950-01-01", "upper": "2020-12-31", "step": "1d"},
    "seen": {"kind": "datetime", "lower": "2024-01-01T00:00Z", "upper": "2024-12-31T00:00Z", "step": "15min", "missing": True},
    "sex": {"kind": "category", "levels": ["f", "m"]},
    "grade": {"kind": "category", "levels": [1, 2, 3]},
    "smokes": {"kind": "category", "levels": [True, False]},
    "city": {"kind": "category", "levels": ["Köln", "Paris"], "other": "elsewhere", "missing": True},
    "code": {"kind": "category", "levels": ["x", "y"], "missing": True},
    "member": {"kind": "boolean"},
    "ill": {"kind": "boolean", "missing": True},
}
UTC = timezone.utc


def some(chance: np.random.Generator, values: Any, storage: pa.DataType, holes: float = 0.2) -> pa.Array:
    return pa.array(values, storage, mask=chance.random(ROWS) < holes)


def people() -> pa.Table:
    """Rows of every kind; cells outside what is declared, too."""
    chance = np.random.default_rng(0)
    days, quarters = chance.integers(0, 20_000, ROWS), chance.integers(0, 4 * 24 * 360, ROWS)
    wealth = np.where(chance.random(ROWS) < 0.3, 0, np.where(chance.random(ROWS) < 0.3, -5, chance.lognormal(6, 2, ROWS)))
    columns = {
        "member": pa.array(chance.random(ROWS) < 0.8),
        "age": some(chance, chance.integers(-5, 110, ROWS), pa.int16()),
        "height": some(chance, chance.normal(1.7, 0.1, ROWS), pa.float32(), 0.5),
        "wage": pa.array(chance.uniform(-1.1, 1.1, ROWS)),
        "wealth": some(chance, wealth, pa.float64(), 0.3),
        "visits": pa.array(np.rint(chance.lognormal(3, 1, ROWS)), pa.uint16()),
        "born": some(chance, [datetime(1950, 1, 1) + timedelta(int(day)) for day in days], pa.date32()),
        "seen": some(
            chance,
            [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=15 * int(place)) for place in quarters],
            pa.timestamp("ms", "Europe/Berlin"),
            0.5,
        ),
        "sex": pa.array(chance.choice(["f", "m"], ROWS, p=[0.7, 0.3])).dictionary_encode(),
        "grade": some(chance, chance.choice([1, 2, 3, 4], ROWS, p=[0.6, 0.25, 0.1, 0.05]), pa.int8(), 0.1),
        "smokes": pa.array(chance.random(ROWS) < 0.3),
        "city": some(chance, chance.choice(["Köln", "Paris", "Rome"], ROWS), pa.large_string(), 0.3),
        "code": some(chance, chance.choice(["x", "y", "z"], ROWS), pa.string()),
        "ill": some(chance, chance.random(ROWS) < 0.5, pa.bool_(), 0.4),
        "never read": pa.array(chance.random(ROWS)),
    }
    return pa.table(columns)


STORED: dict[str, pa.DataType] = {
    "age": pa.int16(),
    "height": pa.float32(),
    "wage": pa.float64(),
    "wealth": pa.float64(),
    "visits": pa.uint16(),
    "born": pa.date32(),
    "seen": pa.timestamp("ms", "Europe/Berlin"),
    "sex": pa.dictionary(pa.int32(), pa.string()),
    "grade": pa.int8(),
    "smokes": pa.bool_(),
    "city": pa.large_string(),
    "code": pa.string(),
    "member": pa.bool_(),
    "ill": pa.bool_(),
}


def released(schema: Schema, data: Any, frequencies: int = 50, epsilon: float = 50) -> Release:
    return release_rows(data, Offer(schema, recipe_with(RECIPES["auto"], None, None, frequencies), Budget(epsilon, 1e-5)))


def trained(release: Release, iterations: int, batch: int = 60) -> Synthesizer:
    return fit(release, Settings(iterations=iterations, batch=batch, generator_steps=5), device="cpu", threads=1)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def model() -> Synthesizer:
    """All kinds of columns under a label of whole numbers, by a generator that is untrained but lively: whatever the
    noise of the release is, it uses every level."""
    release = released(parse_schema({"label": "grade", "columns": COLUMNS}), people())
    codec = release.embedding.design.codec
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        generator = Generator(codec, 3).eval()
        assert generator.table is not None
        *inner, last = generator.table.layers
        assert isinstance(inner[0], torch.nn.Linear)
        assert isinstance(last, torch.nn.Linear)
        inner[0].weight.mul_(4)
        last.weight.mul_(3)
        latent = torch.randn(2000, inner[0].in_features)
        last.bias.copy_(-torch.nn.Sequential(*inner)(latent).mean(dim=0) @ last.weight.T)
    return Synthesizer(release, generator, {"seed": 0})


def check_valid(made: Synthesizer, table: pa.Table, codes: dict[str, Any]) -> None:
    """Nothing but what the schema declares, by the codec and by looking."""
    again = made.codec.encode(table)
    for name in made.codec.columns:
        np.testing.assert_array_equal(again[name], codes[name], err_msg=name)
    for name, column in made.codec.schema.columns.items():
        cells = table[name]
        if not getattr(column, "missing", False):
            assert cells.null_count == 0, name
        if column.kind == "category":
            allowed = {*column.levels, column.other} if column.other else set(column.levels)
            assert {*cells.drop_null().to_pylist()} <= allowed, name
        if column.kind == "number":
            values = cells.drop_null().to_numpy().astype(float)
            values = values[~np.isin(values, column.spikes)]
            slack = 1e-6 if cells.type == pa.float32() else 0
            assert np.all((values >= column.lower - slack) & (values <= column.upper + slack)), name
            if column.step is not None:
                steps = (values - column.lower) / column.step
                assert np.abs(steps - np.rint(steps)).max(initial=0) < 1e-4, name
        if column.kind == "datetime":
            moments = cells.drop_null().cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
            assert np.all((moments >= column.span[0]) & (moments <= column.span[1])), name
            assert not ((moments - column.span[0]) % column.step_us).any(), name


LABELS = [None, "sex", "smokes", "member", "ill", "city", "code", "age", "wealth", "born", "seen"]


@pytest.mark.parametrize("label", LABELS)
def test_rows_are_valid_and_in_their_types_whatever_is_the_label(label: str | None) -> None:
    declared = {"columns": COLUMNS} if label is None else {"label": label, "columns": COLUMNS}
    made = trained(released(parse_schema(declared), people(), 8), 3)
    check_all(made)


def test_rows_are_valid_whatever_the_weights(model: Synthesizer) -> None:
    check_all(model)


def check_all(made: Synthesizer) -> None:
    table = made.sample(CHUNK + 100, seed=3)
    parts = list(made.codes(CHUNK + 100, seed=3))
    check_valid(made, table, {name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
    assert table.column_names == list(COLUMNS)
    assert {name: table.schema.field(name).type for name in table.column_names} == STORED


def test_declared_levels_all_come_back(model: Synthesizer) -> None:
    """Spikes, missing cells, other under its name: none of them may be out of a generator's reach."""
    table = model.sample(2 * CHUNK)
    assert {*table["wealth"].to_pylist()} > {0.0, -5.0, None}
    assert {*table["city"].to_pylist()} == {"Köln", "Paris", "elsewhere", None}
    assert {*table["code"].to_pylist()} == {"x", "y", None}
    assert {*table["visits"].to_pylist()} > {0}
    assert {*table["ill"].to_pylist()} == {True, False, None}
    assert table["seen"].null_count > 0
    assert {*table["grade"].to_pylist()} == {1, 2, 3}


SHARES: list[tuple[str, dict[Any, float]]] = [
    ("grade", {1: 0.6, 2: 0.25, 3: 0.1}),
    ("sex", {"f": 0.7, "m": 0.3}),
    ("member", {False: 0.2, True: 0.8}),
    ("smokes", {True: 0.3, False: 0.7}),
]


@pytest.mark.parametrize(("label", "shares"), SHARES)
def test_labels_have_the_shares_of_the_release(label: str, shares: dict[Any, float]) -> None:
    """By the noisy count, undeclared cells left out; it needs no training."""
    made, rows = trained(released(parse_schema({"label": label, "columns": COLUMNS}), people(), 4), 1), 4 * CHUNK
    cells = made.sample(rows)[label].to_pylist()
    found = [cells.count(level) / rows for level in shares]
    assert sum(found) == pytest.approx(1)
    noisy = np.clip(made.release.embedding.sums["count"][: len(shares)], 0, None)
    assert found == pytest.approx(list(noisy / noisy.sum()), abs=6 * 0.5 / np.sqrt(rows))
    assert found == pytest.approx([share / sum(shares.values()) for share in shares.values()], abs=0.06)


def same(left: pa.Table, right: pa.Table) -> bool:
    """The same rows; a dictionary may be another where rows are others."""
    return bool(left.to_pydict() == right.to_pydict() and left.schema.equals(right.schema))


def test_the_first_rows_are_the_same_however_many_are_asked_for(model: Synthesizer) -> None:
    long = model.sample(20_000, seed=5)
    assert len(long) == 20_000
    for rows in (1, 100, CHUNK, CHUNK + 1):
        assert same(model.sample(rows, seed=5), long.slice(0, rows))
    where = {"member": True, "code": "x"}
    some = model.sample(9000, where, seed=5)
    assert same(model.sample(100, where, seed=5), some.slice(0, 100))
    assert len(some) == 9000


def test_chunks_are_the_same_rows_with_the_types_first(model: Synthesizer) -> None:
    first, *rest = model.chunks(20_000, seed=5)
    assert len(first) == 0
    assert [len(part) for part in rest] == [CHUNK, CHUNK, 20_000 - 2 * CHUNK]
    assert {part.schema for part in rest} == {first.schema}
    assert same(pa.concat_tables(rest), model.sample(20_000, seed=5))


def test_rows_are_not_repeated(model: Synthesizer) -> None:
    """Every chunk draws on: no chunk may be the one before."""
    _, first, second, _ = (part["wage"].to_numpy() for part in model.chunks(20_000))
    assert not np.array_equal(first, second)
    assert len(np.unique(first)) > 100


def test_no_rows_are_an_empty_table_with_types(model: Synthesizer) -> None:
    for where in (None, {"grade": 2}, {"wage": 0.123456}):
        table = model.sample(0, where)
        assert len(table) == 0
        assert table.schema.equals(model.sample(3).schema)


def test_a_seed_gives_the_same_rows_and_another_gives_others(model: Synthesizer) -> None:
    torch.manual_seed(1)
    one = model.sample(200, seed=7)
    torch.manual_seed(2)
    assert model.sample(200, seed=7).equals(one)
    assert model.sample(200).equals(model.sample(200, seed=0))
    assert not model.sample(200, seed=8).equals(one)


@pytest.mark.parametrize(("rows", "seed", "told"), [(-1, 0, "rows must be a whole number"), (5, -1, "seed"), (5, 2**63, "seed")])
def test_numbers_that_make_no_sense_are_refused(rows: int, seed: int, told: str, model: Synthesizer) -> None:
    with pytest.raises(UsageError, match=told):
        model.sample(rows, seed=seed)


def holds(table: pa.Table, name: str, value: Any) -> bool:
    cells = table[name].to_pylist()
    return all(cell is None for cell in cells) if value in (None, "") else {*cells} == {value}


@pytest.mark.parametrize("value", [1, 2, 3])
def test_a_condition_on_the_label_is_met_by_every_drawn_row(
    value: int, model: Synthesizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, chunk = [], Synthesizer._chunk

    def counted(*given: Any) -> Any:
        drawn.append(1)
        return chunk(*given)

    monkeypatch.setattr(Synthesizer, "_chunk", counted)
    table = model.sample(CHUNK, {"grade": value})
    assert holds(table, "grade", value)
    assert len(table) == CHUNK
    assert len(drawn) <= 2, "no row is thrown away"


def test_rows_of_a_class_are_those_that_all_rows_would_have_of_it(model: Synthesizer) -> None:
    """A condition on the label is exact: the rows of a class are distributed as among all rows."""
    whole = model.sample(8 * CHUNK, seed=1)
    for value in (1, 2):
        sorted_out = whole.filter(pc.equal(whole["grade"], value))
        asked = model.sample(2 * CHUNK, {"grade": value}, seed=2)
        for name in ("age", "wage"):
            means = [np.mean(table[name].to_numpy()) for table in (sorted_out, asked)]
            spread = np.std(asked[name].to_numpy())
            assert abs(means[0] - means[1]) < 6 * spread * np.sqrt(1 / len(sorted_out) + 1 / len(asked)), name


@pytest.mark.parametrize("name", [name for name in COLUMNS if name not in ("wage", "wealth", "seen", "born")])
def test_a_condition_on_another_column_sorts_rows_out(name: str, model: Synthesizer) -> None:
    everything = model.sample(CHUNK, seed=2)
    for value in everything[name].unique().to_pylist()[:3]:
        wanted = float(np.round(value, 2)) if name == "height" and value is not None else value
        table = model.sample(50, {name: wanted}, seed=2)
        assert len(table) == 50
        assert holds(table, name, value)


@pytest.mark.parametrize("name", ["wage", "wealth", "seen", "born"])
def test_a_rare_value_is_found_where_it_is(name: str, model: Synthesizer) -> None:
    for value in [cell for cell in model.sample(200, seed=2)[name].to_pylist() if cell not in (0.0, -5.0, None)][:2]:
        table = model.sample(1, {name: value}, seed=2)
        assert holds(table, name, value)


@pytest.mark.parametrize("name", ["wealth", "seen", "height", "city", "code", "ill"])
def test_missing_cells_can_be_asked_for(name: str, model: Synthesizer) -> None:
    for absent in (None, ""):
        assert model.sample(30, {name: absent})[name].null_count == 30


def test_several_conditions_hold_at_once(model: Synthesizer) -> None:
    where = {"grade": 2, "member": True, "ill": None, "city": "elsewhere", "wealth": 0}
    table = model.sample(20, where)
    assert len(table) == 20
    assert all(holds(table, name, value) for name, value in where.items())
    assert table.equals(model.sample(20, {"grade": "2", "member": "true", "ill": "", "city": "elsewhere", "wealth": "0"}))


def test_a_condition_that_is_too_rare_gives_up_and_says_how_rare(model: Synthesizer) -> None:
    with pytest.raises(UsageError, match=r"only 0 of 131,072 drawn rows have wage=0\.1234, born=1950-01-02; ask for .*less rare"):
        model.sample(5, {"wage": 0.1234, "born": "1950-01-02"})


def test_a_class_that_the_release_does_not_show_is_refused() -> None:
    """Where the noisy count is not positive nothing was learnt; asking for it cannot be served."""
    levels = [f"level{place}" for place in range(40)]
    table = pa.table({"x": [0.5] * 200, "y": ["level0"] * 200})
    columns = {"x": {"kind": "number", "lower": 0, "upper": 1}, "y": {"kind": "category", "levels": levels}}
    made = trained(released(parse_schema({"label": "y", "columns": columns}), table, 4), 1)
    counts = made.release.embedding.sums["count"]
    lost = [level for place, level in enumerate(levels) if counts[place] <= 0]
    assert lost, "of 39 classes without rows, some have a negative noisy count"
    with pytest.raises(UsageError, match=f"the release shows no rows with y={lost[0]}"):
        made.sample(5, {"y": lost[0]})
    assert not {*made.sample(CHUNK)["y"].to_pylist()} & {*lost}


def test_a_numeric_label_is_drawn_like_any_column() -> None:
    made = trained(released(parse_schema({"label": "age", "columns": COLUMNS}), people(), 8), 3)
    value = made.sample(10)["age"].to_pylist()[0]
    assert holds(made.sample(5, {"age": value}), "age", value)


# Pictures.


@pytest.fixture(scope="module")
def digits() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    loaded = load_digits()
    return np.rint(loaded.images * 255 / 16).astype(np.uint8), loaded.target


@pytest.fixture(scope="module")
def drawing(digits: tuple[NDArray[np.uint8], NDArray[np.int64]]) -> Synthesizer:
    columns = {"image": {"kind": "image", "height": 8, "width": 8}, "digit": {"kind": "category", "levels": [*range(10)]}}
    release = released(parse_schema({"label": "digit", "columns": columns}), {"image": digits[0], "digit": digits[1]}, 200)
    return fit(release, Settings(iterations=450, batch=100, generator_steps=5), device="cpu", threads=1)


def pixels(table: pa.Table, name: str = "image") -> NDArray[np.float64]:
    return np.stack([np.frombuffer(cell, np.uint8) for cell in table[name].to_pylist()]).astype(float)


def test_synthetic_digits_look_like_their_label(
    drawing: Synthesizer, digits: tuple[NDArray[np.uint8], NDArray[np.int64]]
) -> None:
    """Nearest class mean, which is right for 90% of the real ones and would be for 10% of noise."""
    table = drawing.sample(1000)
    means = np.stack([digits[0][digits[1] == digit].reshape(-1, 64).mean(axis=0) for digit in range(10)])
    nearest = np.square(pixels(table)[:, None] - means).sum(axis=2).argmin(axis=1)
    assert np.mean(nearest == table["digit"].to_numpy()) > 0.6
    assert table.schema.field("image").type == pa.binary(64)
    assert table.schema.field("digit").type == pa.int64()
    assert {*table["digit"].to_pylist()} == {*range(10)}


def test_digits_of_one_class_can_be_asked_for(drawing: Synthesizer) -> None:
    sevens = drawing.sample(50, {"digit": 7})
    assert holds(sevens, "digit", 7)
    assert len(np.unique(pixels(sevens), axis=0)) > 40, "not all the same picture"


@pytest.mark.parametrize(
    ("height", "width", "channels", "label"), [(1, 1, 1, None), (5, 3, 1, "sex"), (6, 9, 3, None), (6, 2, 3, "age")]
)
def test_pictures_of_any_size_go_with_other_columns(height: int, width: int, channels: int, label: str | None) -> None:
    picture = {"kind": "image", "height": height, "width": width, "channels": channels}
    columns = {"face": picture, **{name: COLUMNS[name] for name in ("age", "height", "sex", "seen")}}
    shape = (ROWS, height, width, channels) if channels > 1 else (ROWS, height, width)
    stack = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    whole = people()
    data = {"face": stack, "age": whole["age"].fill_null(3).to_numpy(), "height": whole["height"].to_numpy()}
    data |= {"sex": np.array(whole["sex"].to_pylist()), "seen": np.array(whole["seen"].cast(pa.string()).to_pylist(), object)}
    made = trained(released(parse_schema({"columns": columns} | ({"label": label} if label else {})), data, 4), 2)
    table = made.sample(40)
    (_, codes) = made.codes(40)
    check_valid(made, table, codes)
    assert pixels(table, "face").shape == (40, height * width * channels)
    assert table.column_names == [*columns]


# The file.


@pytest.fixture(scope="module")
def small() -> Synthesizer:
    columns = {name: COLUMNS[name] for name in ("age", "sex")}
    return trained(released(parse_schema({"label": "sex", "columns": columns}), people(), 4, epsilon=1), 2)


@pytest.fixture(scope="module")
def saved(small: Synthesizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "m.dpearl"
    save_synthesizer(small, path)
    return path


@pytest.mark.parametrize("which", ["model", "drawing", "small"])
def test_a_loaded_model_gives_the_same_rows(which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    made: Synthesizer = request.getfixturevalue(which)
    save_synthesizer(made, tmp_path / "m.dpearl")
    again = load_synthesizer(tmp_path / "m.dpearl")
    assert again.sample(300, seed=3).equals(made.sample(300, seed=3))
    assert again.training == made.training
    assert again.statement == made.statement
    save_synthesizer(again, tmp_path / "again.dpearl")
    assert (tmp_path / "again.dpearl").read_bytes() == (tmp_path / "m.dpearl").read_bytes()


def test_a_model_carries_its_release(small: Synthesizer, saved: Path, tmp_path: Path) -> None:
    save_release(small.release, tmp_path / "r.dpearl")
    found, training = zip(*(load_release_inside(path) for path in (saved, tmp_path / "r.dpearl")), strict=True)
    assert training == (small.training, None)
    assert found[0].digest == found[1].digest == small.release.digest
    assert privacy_statement(found[0]) == privacy_statement(found[1]) == small.statement
    assert found[0].digest in small.statement


def test_an_existing_model_is_never_replaced(small: Synthesizer, saved: Path) -> None:
    before = saved.read_bytes()
    with pytest.raises(UsageError, match="already exists"):
        save_synthesizer(small, saved)
    assert saved.read_bytes() == before


def test_a_changed_or_cut_model_is_refused(saved: Path, tmp_path: Path) -> None:
    intact, damaged = saved.read_bytes(), tmp_path / "damaged.dpearl"
    places = [*range(0, 2000, 50), *np.random.default_rng(0).integers(0, len(intact), 40)]
    changed = []
    for place in places:
        flipped = bytearray(intact)
        flipped[place] ^= 1 << place % 8
        changed.append(bytes(flipped))
    cuts = [intact[:size] for size in (0, 7, 100, len(intact) // 2, len(intact) - 1)]
    for content in (*changed, *cuts, intact + b"\0"):
        damaged.write_bytes(content)
        with pytest.raises(FileError, match=r"damaged\.dpearl: is"):
            load_synthesizer(damaged)
        with pytest.raises(FileError):
            load_release_inside(damaged)


def test_a_release_is_no_model(small: Synthesizer, tmp_path: Path) -> None:
    save_release(small.release, tmp_path / "r.dpearl")
    with pytest.raises(FileError, match="is a dpearl-release file, not a dpearl-model file"):
        load_synthesizer(tmp_path / "r.dpearl")


Parts = tuple[dict[str, Any], dict[str, NDArray[Any]]]
Change = Callable[[dict[str, Any], dict[str, NDArray[Any]]], None]


def own_digest(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """The release's own digest, made right again by somebody who knows the format."""
    own = {name.removeprefix("release/"): array for name, array in arrays.items() if name.startswith("release/")}
    meta["release_digest"] = container.pack(RELEASE, meta["release"], own)[1]


def forged(saved: Path, folder: Path, *changes: Change) -> Path:
    """The file with changed parts, and its digest over all bytes right again."""
    meta, arrays = container.read(saved, MODEL)
    for change in changes:
        change(meta, arrays)
    path = folder / "forged.dpearl"
    container.place_file(path, container.pack(MODEL, meta, arrays)[0])
    return path


def lower_sigma(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    sigmas = meta["release"]["stages"][-1]["sigmas"]
    sigmas["characteristic"] = sigmas["characteristic"] * 9 // 10


def higher_promise(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    meta["release"]["statement"]["epsilon"] = 0.5


@pytest.mark.parametrize("change", [lower_sigma, higher_promise])
def test_a_model_whose_release_promises_too_much_is_refused(change: Change, saved: Path, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for path, told in (
        (forged(saved, tmp_path / "a", change), "do not fit together"),
        (forged(saved, tmp_path, change, own_digest), "noise does not support the epsilon it states; do not use it"),
    ):
        for load in (load_synthesizer, load_release_inside):
            with pytest.raises(FileError, match=told):
                load(path)


def test_a_forger_who_changes_nothing_is_let_in(saved: Path, tmp_path: Path) -> None:
    """So the refusals above are for what was changed."""
    assert load_synthesizer(forged(saved, tmp_path, own_digest)).statement == load_synthesizer(saved).statement


def drop(prefix: str) -> Change:
    return lambda meta, arrays: arrays.__delitem__(next(name for name in sorted(arrays) if name.startswith(prefix)))


MISFITS: dict[str, Change] = {
    "a weight is missing": drop("generator/"),
    "sums are missing": drop("release/embedding/noisy"),
    "no release": lambda meta, arrays: meta.pop("release") and None,
    "no digest of the release": lambda meta, arrays: meta.pop("release_digest") and None,
    "a release of another kind": lambda meta, arrays: meta.update(release=[1]),
    "no word on training": lambda meta, arrays: meta.pop("training") and None,
    "training of another kind": lambda meta, arrays: meta.update(training=3),
    "weights of another shape": lambda meta, arrays: arrays.update(
        {name: array[:-1] for name, array in arrays.items() if name.startswith("generator/") and array.ndim == 2}
    ),
    "weights of nobody": lambda meta, arrays: arrays.update({"generator/extra": np.zeros(3)}),
}


@pytest.mark.parametrize("change", MISFITS.values(), ids=MISFITS.keys())
def test_a_model_whose_parts_do_not_fit_is_refused(change: Change, saved: Path, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"forged\.dpearl: is damaged: its parts do not fit together"):
        load_synthesizer(forged(saved, tmp_path, change))


def test_a_model_file_is_numbers_and_text_alone(saved: Path) -> None:
    """No pickle: every byte is the header's JSON or belongs to an array of plain numbers."""
    content = saved.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    json.loads(header.pop("__metadata__")["dpearl"])
    spans = sorted(tuple(entry["data_offsets"]) for entry in header.values())
    assert {entry["dtype"] for entry in header.values()} <= {"F32", "I64", "I32"}
    assert [start for start, _ in spans] == [0, *(end for _, end in spans[:-1])]
    assert spans[-1][1] == len(content) - 8 - size


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_a_model_whose_weights_are_no_numbers_is_refused(poison: float, saved: Path, tmp_path: Path) -> None:
    def change(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        name = next(name for name in sorted(arrays) if name.startswith("generator/") and arrays[name].ndim == 2)
        arrays[name] = np.full_like(arrays[name], poison)

    with pytest.raises(FileError, match="damaged"):
        load_synthesizer(forged(saved, tmp_path, change))
