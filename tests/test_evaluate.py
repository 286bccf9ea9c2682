"""The judges together: zero for the same rows, the same for every order, strict JSON; one clear line for every mistake."""

from __future__ import annotations

import json
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier

from dpearl import cli, container, fidelity, shadow, utility
from dpearl import evaluate as judges
from dpearl.cli import judges as commands
from dpearl.coded import Coded
from dpearl.design import RECIPES, Scale
from dpearl.disclosure import Closest, Skipped
from dpearl.errors import DataError, UsageError
from dpearl.evaluate import PRIVATE, Evaluation, evaluate, read_coded
from dpearl.fidelity import MEASURES
from dpearl.imagery import train_lenet
from dpearl.owner import Offer, recipe_with, release_rows
from dpearl.privacy import Budget, Relation
from dpearl.release import save_release
from dpearl.report.private import private_report
from dpearl.schema import Schema, parse_schema
from dpearl.settings import Settings
from dpearl.synthesizer import save_synthesizer
from dpearl.train import fit
from dpearl.utility import CEILING, FLOOR, independent
from test_bad_input import SECRET, Dpearl

COLUMNS: dict[str, Any] = {
    "age": {"kind": "number", "lower": 0, "upper": 100, "step": 1, "missing": True},
    "town": {"kind": "category", "levels": ["a", "b", "c"]},
    "rich": {"kind": "boolean"},
}
PLAIN = parse_schema({"columns": COLUMNS})
LABELLED = parse_schema({"label": "rich", "columns": COLUMNS})
ROWS = 240


@pytest.fixture(scope="module", autouse=True)
def _quick() -> Iterator[None]:
    torch.set_num_threads(1)
    with quick():
        yield


@contextmanager
def quick() -> Iterator[None]:
    """Fewer queries and trees, two of the paper's classifiers: what each measure finds is tested with the measure."""
    ten = utility.paper_classifiers
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fidelity, "QUERIES", 60)
        for module in (fidelity, utility):
            patch.setattr(module, "HistGradientBoostingClassifier", partial(HistGradientBoostingClassifier, max_iter=20))
        patch.setattr(utility, "paper_classifiers", lambda seed=0: {name: ten(seed)[name] for name in ("LR", "Decision Tree")})
        yield


def people(seed: int, rows: int = ROWS) -> pa.Table:
    """Rich people are older and live in one town; some ages are missing."""
    chance = np.random.default_rng(seed)
    age = chance.integers(0, 100, rows)
    rich = age + chance.normal(0, 15, rows) > 50
    town = np.where(rich & (chance.random(rows) < 0.6), "a", chance.choice(list("abc"), rows))
    return pa.table({"age": pa.array(age, mask=chance.random(rows) < 0.1), "town": town, "rich": rich})


def coded(seed: int, schema: Schema = PLAIN, rows: int = ROWS) -> Coded:
    return Coded.of(people(seed, rows), schema)


@cache
def judged() -> Evaluation:
    """Two synthetic tables, as good as real rows and as bad as the floor, judged with rows that were learnt from."""
    shuffled = independent(coded(3, LABELLED), np.random.default_rng(5))
    with quick():
        return evaluate(coded(1, LABELLED), {"near": coded(2, LABELLED), "far": shuffled}, coded(3, LABELLED))


DIGITS = parse_schema(
    {
        "label": "digit",
        "columns": {
            "face": {"kind": "image", "height": 8, "width": 8},
            "digit": {"kind": "category", "levels": list(range(10))},
        },
    }
)


def digits(part: int, noise: int = 0) -> dict[str, Any]:
    """A ninth of scikit-learn's digits."""
    found, chance = load_digits(), np.random.default_rng(part)
    places = np.arange(part, len(found.target), 9)
    faces = np.rint(found.images[places] * 255 / 16) + chance.integers(0, noise + 1, (len(places), 8, 8))
    return {"face": faces.clip(0, 255).astype(np.uint8), "digit": found.target[places]}


@cache
def pictured() -> Evaluation:
    made = {"blurred": read_coded(digits(1, 60), DIGITS), "noise": read_coded(digits(2, 10_000), DIGITS)}
    with quick():
        return evaluate(read_coded(digits(3), DIGITS), made, read_coded(digits(4), DIGITS))


def values(found: Evaluation, table: str) -> dict[str, float]:
    return {score.name: score.value for score in found.tables[table].scores}


def test_the_same_rows_have_no_distance() -> None:
    real = coded(1)
    found = evaluate(real, {"same": real.take(np.random.default_rng(0).permutation(ROWS))})
    told = values(found, "same")
    assert told.keys() == {measure.name for measure in MEASURES}
    assert told.pop("c2st") == pytest.approx(0.5, abs=0.05)
    assert told.pop("mmd") <= 0
    assert told == pytest.approx(dict.fromkeys(told, 0), abs=1e-12)
    assert found.tables["same"].copies.made.copies == ROWS


def test_floor_and_ceiling_stand_beside_everything() -> None:
    found = judged()
    for table in found.tables.values():
        assert {score.name for score in table.scores if score.floor is None} == {"invalid"}
        assert {score.name for score in table.scores if score.spread is None} == {"invalid"}
    assert found.usefulness is not None
    assert list(found.usefulness.skills) == ["near", "far", CEILING, FLOOR]
    roc = {place: own.scores["roc"] for place, own in found.usefulness.averages.items()}
    assert min(roc["near"], roc[CEILING]) > max(roc["far"], roc[FLOOR]) + 0.05


def test_the_floor_is_that_of_fresh_real_rows() -> None:
    real, known, score = coded(1), coded(3), judged().tables["far"].score("marginals_1")
    apart = [np.abs(real.shares(name) - known.shares(name)).sum() / 2 for name in real.names]
    assert score is not None
    assert score.floor == pytest.approx(np.mean(apart))


def test_the_worse_table_is_told_from_the_better_one() -> None:
    near, far = (values(judged(), name) for name in ("near", "far"))
    assert far["marginals_2"] > 1.5 * near["marginals_2"]
    assert far["c2st"] > near["c2st"]
    assert far["correlations"] > 3 * near["correlations"]


def test_tables_side_by_side_are_judged_as_if_alone() -> None:
    real, made, train = coded(1), {"one": coded(2), "two": coded(4)}, coded(3)
    together = evaluate(real, made, train).to_dict()["tables"]
    assert list(together) == ["one", "two"]
    assert together["two"] == evaluate(real, {"two": made["two"]}, train).to_dict()["tables"]["two"]


@pytest.mark.parametrize("train", [True, False])
def test_no_order_of_rows_changes_anything(train: bool) -> None:
    chance = np.random.default_rng(0)
    real, made, known = coded(1), coded(2), coded(3) if train else None
    shuffled = [None if rows is None else rows.take(chance.permutation(len(rows))) for rows in (real, made, known)]
    ours = evaluate(real, {"made": made}, known, target="age")
    assert shuffled[0] is not None
    assert shuffled[1] is not None
    theirs = evaluate(shuffled[0], {"made": shuffled[1]}, shuffled[2], target="age")
    assert ours.to_dict() == theirs.to_dict()


def test_another_seed_is_told_and_draws_otherwise() -> None:
    found = [evaluate(coded(1), {"made": coded(2)}, seed=seed).to_dict() for seed in (0, 1)]
    assert [own["seed"] for own in found] == [0, 1]
    floors = [own["tables"]["made"]["fidelity"]["marginals_1"]["floor"] for own in found]
    assert floors[0] != floors[1]


@pytest.mark.parametrize("found", [judged, pictured])
def test_the_values_are_strict_json_and_say_that_they_are_private(found: Callable[[], Evaluation]) -> None:
    told = found().to_dict()
    back = json.loads(json.dumps(told, allow_nan=False))
    assert back == json.loads(json.dumps(back))
    assert back["note"] == PRIVATE
    assert back["real_rows"] == len(found().real)
    assert back["tables"].keys() == found().tables.keys()
    for table in back["tables"].values():
        assert {"copies", "closest_record"} == table["sanity_checks"].keys()
        assert all(check["verdict"] for check in table["sanity_checks"].values())
    assert "codes" not in json.dumps(back)


def test_without_training_rows_halves_of_the_real_ones_serve() -> None:
    found = evaluate(coded(1), {"made": coded(2)}, target="age")
    assert isinstance(found.tables["made"].closest, Skipped)
    assert isinstance(judged().tables["near"].closest, Closest)
    assert not found.tables["made"].copies.held_out
    assert found.usefulness is not None
    assert CEILING in found.usefulness.skills
    assert found.to_dict()["training_rows"] is None


def test_steps_add_up_to_what_was_announced() -> None:
    announced: Counter[str] = Counter()
    done: Counter[str] = Counter()

    def watch(stage: str, steps: int) -> Callable[[int], None]:
        announced[stage] += steps
        return lambda more: done.update({stage: more})

    evaluate(coded(1), {"one": coded(2), "two": coded(3)}, target="age", progress=watch)
    evaluate(read_coded(digits(1), DIGITS), {"made": read_coded(digits(2), DIGITS)}, progress=watch)
    assert announced.keys() == {"measuring", "learning", "looking"}
    assert done == announced


def test_pictures_are_judged_by_nets() -> None:
    found = pictured()
    assert found.usefulness is None
    blurred, noise = (found.tables[name].imagery for name in ("blurred", "noise"))
    assert blurred is not None
    assert noise is not None
    assert noise.scores.fid > 3 * blurred.scores.fid
    assert blurred.agreement is not None
    assert noise.agreement is not None
    assert blurred.agreement.overall > 0.7 > 0.4 > noise.agreement.overall
    shares = found.to_dict()["tables"]["blurred"]["imagery"]["agreement"]["by_class"]
    assert list(shares) == [str(digit) for digit in range(10)]


def test_a_column_beside_pictures_can_be_asked_for() -> None:
    made = {"made": read_coded(digits(2), DIGITS)}
    found = evaluate(read_coded(digits(1), DIGITS), made, target="digit").usefulness
    assert found is not None
    assert found.skills == {}
    assert found.notes == ("the schema has no column beside digit to learn from; usefulness cannot be measured",)


def constant(name: str, value: Any) -> Callable[[int], pa.Table]:
    """People who all have the same in one column."""
    cells = pa.array([value] * 60, people(0).schema.field(name).type)
    return lambda seed: people(seed, 60).set_column(people(0).column_names.index(name), name, cells)


ODD: Mapping[str, tuple[Callable[[int], pa.Table], Schema]] = {
    "one class": (constant("rich", True), LABELLED),
    "constant category": (constant("town", "b"), PLAIN),
    "constant number": (constant("age", 7), parse_schema({"label": "age", "columns": COLUMNS})),
    "all missing": (constant("age", None), parse_schema({"label": "age", "columns": COLUMNS})),
    "one row": (lambda seed: people(seed, 1), LABELLED),
    "two rows": (lambda seed: people(seed, 2), LABELLED),
    "one column": (lambda seed: people(seed, 60), parse_schema({"columns": {"town": COLUMNS["town"]}})),
    "undeclared levels": (constant("town", "elsewhere"), PLAIN),
}


@pytest.mark.parametrize(("case", "train"), [*((case, True) for case in ODD), ("one class", False), ("one row", False)])
def test_odd_tables_have_numbers_or_a_note(case: str, train: bool) -> None:
    table, schema = ODD[case]
    real, made, known = (Coded.of(table(seed), schema) for seed in (1, 2, 3))
    found = evaluate(real, {"made": made}, known if train else None)
    json.dumps(found.to_dict(), allow_nan=False)
    assert PRIVATE in private_report(found)
    assert all(0 <= score.value <= 1 for score in found.tables["made"].scores if score.name != "mmd")
    if case in ("one class", "constant number", "all missing", "one row"):
        assert found.usefulness is not None
        assert found.usefulness.skills == {}
        assert "cannot be measured" in found.usefulness.notes[0]


def test_one_class_in_a_synthetic_table_is_told_of_that_table_alone() -> None:
    made = {"good": coded(2, LABELLED), "single": Coded.of(constant("rich", True)(4), LABELLED)}
    found = evaluate(coded(1, LABELLED), made, coded(3, LABELLED)).usefulness
    assert found is not None
    assert found.skills.keys() == {"good", CEILING, FLOOR}
    assert found.notes == ("rich has one class only in the set 'single'; usefulness cannot be measured",)


def test_what_cannot_be_judged_is_refused_before_anything_is_measured() -> None:
    def never(stage: str, steps: int) -> Callable[[int], None]:
        raise AssertionError(stage)

    real, made = coded(1), {"made": coded(2)}
    refused: list[tuple[str, Callable[[], Evaluation]]] = [
        ("no synthetic table", lambda: evaluate(real, {}, progress=never)),
        (f"called '{CEILING}'", lambda: evaluate(real, {CEILING: coded(2)}, progress=never)),
        (f"called '{FLOOR}'", lambda: evaluate(real, {FLOOR: coded(2)}, progress=never)),
        ("'height' is not declared", lambda: evaluate(real, made, target="height", progress=never)),
        ("seed must lie", lambda: evaluate(real, made, seed=-1, progress=never)),
        ("made: was read with another schema", lambda: evaluate(coded(1, LABELLED), made, progress=never)),
        ("training rows: was read with another", lambda: evaluate(real, made, coded(3, LABELLED), progress=never)),
    ]
    for words, call in refused:
        with pytest.raises((UsageError, DataError), match=words):
            call()


def test_pictures_without_classes_need_a_net_from_elsewhere() -> None:
    schema = parse_schema({"columns": {"face": DIGITS.columns["face"].model_dump()}})
    real, made = (read_coded({"face": digits(part)["face"]}, schema) for part in (1, 2))
    with pytest.raises(DataError, match="give the weights of a LeNet"):
        evaluate(real, {"made": made})
    known = read_coded(digits(3), DIGITS)
    from dpearl.imagery import Pictures

    found = evaluate(real, {"made": made}, lenet=train_lenet(Pictures.of(known, "face")))
    imagery = found.tables["made"].imagery
    assert imagery is not None
    assert imagery.accuracy is None
    assert "no labels" in imagery.notes[0]
    assert PRIVATE in private_report(found)


def test_rows_are_read_without_asking_for_a_person() -> None:
    schema = parse_schema({"person": "id", "columns": COLUMNS})
    assert len(read_coded(people(1), schema)) == ROWS
    with pytest.raises(DataError, match="holds no rows"):
        read_coded(people(1, 0), schema)


SCHEMA = """
[columns.age]
kind = "number"
lower = 0
upper = 100
step = 1
missing = true
[columns.town]
kind = "category"
levels = ["a", "b", "c"]
[columns.rich]
kind = "boolean"
"""


@pytest.fixture
def dpearl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Dpearl:
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(SCHEMA)
    for seed, name in enumerate(("real", "train", "synth"), start=1):
        csv.write_csv(people(seed, 60), f"{name}.csv")
    return Dpearl(tmp_path, monkeypatch, capsys)


def evaluating(*arguments: str) -> tuple[str, ...]:
    """An evaluation with everything given but synthetic rows; later arguments win, and other real rows."""
    real = () if "--real" in arguments else ("--real", "real.csv")
    return "evaluate", *real, "--schema", "s.toml", "-o", "out.json", *arguments


def written(name: str = "out.json") -> dict[str, Any]:
    told: dict[str, Any] = json.loads(Path(name).read_text(), parse_constant=lambda word: pytest.fail(word))
    return told


def test_the_command_writes_json_for_its_owner_alone(dpearl: Dpearl) -> None:
    code, out, err = dpearl.run(*evaluating("--synth", "synth.csv", "--train", "train.csv", "--target", "age", "--seed", "3"))
    assert (code, out) == (0, "")
    said, then = err.splitlines()
    assert said == "Written to out.json. It is PRIVATE: made from real rows, and no budget covers it."
    assert then == "Next: look at out.json, and keep it where the real rows are kept"
    assert stat.S_IMODE(Path("out.json").stat().st_mode) == 0o600
    told = written()
    assert told["note"] == PRIVATE
    assert (told["seed"], told["real_rows"], told["training_rows"]) == (3, 60, 60)
    assert told["usefulness"]["task"] == "regression"
    assert told["membership_attack"] is None
    schema = judges.read_coded("real.csv", PLAIN).schema
    rows = [judges.read_coded(f"{name}.csv", schema) for name in ("real", "synth", "train")]
    again = evaluate(rows[0], {"synth": rows[1]}, rows[2], "age", seed=3)
    assert told == json.loads(json.dumps(again.to_dict()))


def test_the_command_writes_a_page_that_compares_several(dpearl: Dpearl) -> None:
    Path("other").mkdir()
    csv.write_csv(people(7, 60), "other/synth.csv")
    csv.write_csv(people(8, 60), "real rows.csv")
    dpearl.works(*evaluating("--synth", "synth.csv", "--synth", "other/synth.csv", "-o", "both.HTML"))
    page = Path("both.HTML").read_text()
    assert stat.S_IMODE(Path("both.HTML").stat().st_mode) == 0o600
    assert PRIVATE in page
    assert "<h3>synth.csv</h3>" in page
    assert "<h3>other/synth.csv</h3>" in page
    dpearl.works(*evaluating("--synth", "real rows.csv", "--synth", "train.csv"))
    assert list(written()["tables"]) == ["real rows.csv", "train.csv"]


def test_names_of_columns_and_levels_can_be_anything(dpearl: Dpearl) -> None:
    names = ["<script>alert(1)</script>", "$x_1$", " × ", "_hidden", "\u202eback"]
    text = "".join(f"[columns.{json.dumps(name)}]\nkind = 'category'\nlevels = {json.dumps(names[:3])}\n" for name in names)
    Path("s.toml").write_text(text)
    for name in ("real", "synth"):
        chance = np.random.default_rng(len(name))
        csv.write_csv(pa.table({column: chance.choice(names[:3], 60) for column in names}), f"{name}.csv")
    dpearl.works(*evaluating("--synth", "synth.csv", "--target", "$x_1$", "-o", "odd.html"))
    dpearl.works(*evaluating("--synth", "synth.csv"))
    assert "<script" not in Path("odd.html").read_text()
    assert {name for name, _ in written()["tables"]["synth"]["fidelity"]["marginals_1"]["worst"]} == set(names)


def broken(name: str, content: str | bytes) -> Callable[[], object]:
    return lambda: Path(name).write_bytes(content.encode() if isinstance(content, str) else content)


def nested() -> None:
    parquet.write_table(pa.table({"age": [[1, 2]], "town": ["a"], "rich": [True]}), "synth.parquet")


MISTAKES: dict[str, tuple[tuple[str, ...], Callable[[], object], str]] = {
    "another column": ((), broken("synth.csv", "age,city,rich\n1,a,true\n"), "synth.csv: has no column 'town'"),
    "another type": (("--synth", "synth.parquet"), nested, "synth.parquet: column 'age'"),
    "header only": ((), broken("synth.csv", "age,town,rich\n"), "synth.csv: holds no rows"),
    "real header only": ((), broken("real.csv", "age,town,rich\n"), "real.csv: holds no rows"),
    "zero bytes": ((), broken("synth.csv", ""), "synth.csv: is empty"),
    "ragged": ((), broken("synth.csv", f"age,town,rich\n1,{SECRET}\n"), "synth.csv"),
    "no such file": (("--synth", "nothing.csv"), lambda: None, "nothing.csv: no such file"),
    "no such real file": (("--real", "nothing.csv"), lambda: None, "nothing.csv: no such file"),
    "no such training file": (("--train", "nothing.csv"), lambda: None, "nothing.csv: no such file"),
    "unknown target": (("--target", "height"), lambda: None, "'height' is not declared"),
    "no schema": (("--schema", "nothing.toml"), lambda: None, "nothing.toml"),
    "output is there": (("-o", "real.csv.html"), broken("real.csv.html", "mine"), "already exists"),
    "other suffix": (("-o", "out.pdf"), lambda: None, "out.pdf: this is written as .html or .json"),
    "no suffix": (("-o", "out"), lambda: None, "out: this is written as .html or .json"),
    "no folder": (("-o", "none/out.html"), lambda: None, "folder none does not exist"),
    "the same twice": (("--synth", "synth.csv"), lambda: None, "given twice"),
    "real is train": (("--train", "./real.csv"), lambda: None, "given as --real and as --train"),
    "eye without pictures": (("--lenet", "net"), lambda: None, "the schema declares none"),
    "seed": (("--seed", "-1"), lambda: None, "the seed must lie"),
    "model is data": (("--model", "real.csv"), lambda: None, "real.csv: is not a dpearl file"),
    "no such model": (("--model", "nothing"), lambda: None, "nothing: no such file"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_told_in_one_line(case: str, dpearl: Dpearl, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments, prepare, words = MISTAKES[case]
    prepare()
    monkeypatch.setattr(judges, "evaluate", lambda *_: pytest.fail("something was measured"))
    first = () if "--synth" in arguments and case != "the same twice" else ("--synth", "synth.csv")
    assert words in dpearl.refuses(*evaluating(*first, *arguments))


def test_something_must_be_compared(dpearl: Dpearl) -> None:
    assert "--synth" in dpearl.refuses(*evaluating())


@pytest.mark.parametrize("module", ["sklearn", "jinja2", "matplotlib"])
def test_missing_extras_are_named(module: str, dpearl: Dpearl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    assert "dpearl[train,report]" in dpearl.refuses(*evaluating("--synth", "synth.csv"))


def test_torch_is_asked_for_where_it_is_needed_alone(dpearl: Dpearl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    dpearl.works(*evaluating("--synth", "synth.csv"))
    assert "torch" in dpearl.refuses(*evaluating("--synth", "synth.csv", "-o", "b.json", "--model", "real.csv"))
    Path("s.toml").write_text("[columns.face]\nkind = 'image'\nheight = 8\nwidth = 8\n")
    assert "torch" in dpearl.refuses(*evaluating("--synth", "synth.csv", "-o", "b.json"))


PICTURES = """
label = "digit"
[columns.face]
kind = "image"
height = 8
width = 8
[columns.digit]
kind = "category"
levels = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
"""


def test_pictures_come_from_files_and_their_net_is_kept(dpearl: Dpearl) -> None:
    Path("s.toml").write_text(PICTURES)
    for part, name in enumerate(("real", "train", "synth")):
        np.savez(f"{name}.npz", **digits(part))
    paths = ("--real", "real.npz", "--train", "train.npz", "--synth", "synth.npz")
    dpearl.works(*evaluating(*paths, "--lenet", "net"))
    assert stat.S_IMODE(Path("net").stat().st_mode) == 0o600
    net = Path("net").read_bytes()
    dpearl.works(*evaluating(*paths, "--lenet", "net", "-o", "again.json"))
    assert written("again.json") == written()
    assert Path("net").read_bytes() == net
    weights: dict[str, Any] = container.read("net", "lenet")[1]
    np.savez("weights.npz", **weights)
    dpearl.works(*evaluating(*paths, "--lenet", "weights.npz", "-o", "given.json"))
    assert written("given.json")["tables"] == written()["tables"]
    for name, words in (("missing.npz", "missing.npz: cannot be read"), ("synth.npz", "not those of a LeNet-5")):
        assert words in dpearl.refuses(*evaluating(*paths, "--lenet", name, "-o", "no.json"))
    assert "other pictures" in dpearl.refuses(*evaluating(*paths, "--train", "synth.npz", "--lenet", "net", "-o", "no.json"))


@pytest.mark.parametrize(("relation", "scale"), [(Relation.REPLACE_ONE, None), (Relation.ADD_REMOVE, Scale.PUBLIC)])
def test_a_model_behind_the_rows_is_attacked_as_it_was_made(
    relation: Relation, scale: Scale | None, dpearl: Dpearl, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = recipe_with(RECIPES["auto"], relation, scale, 8)
    save_release(release_rows("train.csv", Offer(PLAIN, recipe, Budget(2.0, 1e-5))), "release.dpearl")
    asked: list[Any] = []

    def attack(*arguments: Any, done: Callable[[int], None]) -> Skipped:
        asked.extend(arguments)
        return Skipped("Not checked: this is a test.")

    monkeypatch.setattr(shadow, "membership", attack)
    dpearl.works(*evaluating("--synth", "synth.csv", "--train", "train.csv", "--model", "release.dpearl", "--seed", "5"))
    rows, made, budget, seed, trials = asked
    assert len(rows) == 60
    assert np.array_equal(rows.codes["age"], read_coded("train.csv", PLAIN).codes["age"])
    assert made == recipe
    assert (budget, seed, trials) == (Budget(2.0, 1e-5), 5, commands._TRIALS)
    assert written()["membership_attack"] == {"verdict": "Not checked: this is a test."}


def test_the_attack_is_made(dpearl: Dpearl, monkeypatch: pytest.MonkeyPatch) -> None:
    offer = Offer(PLAIN, recipe_with(RECIPES["auto"], None, None, 8), Budget(2.0, 1e-5))
    save_release(release_rows("train.csv", offer), "release.dpearl")
    monkeypatch.setattr(commands, "_TRIALS", 4)
    dpearl.works(*evaluating("--synth", "synth.csv", "--model", "release.dpearl"))
    told = written()["membership_attack"]
    assert told["judged"] == 2
    assert 0.5 < told["bound"] < 1
    assert "guarantee" in told["verdict"]


@pytest.fixture
def model(dpearl: Dpearl) -> Dpearl:
    """With a release that was charged to a ledger, and its model; so few rows need a large ε to be seen at all."""
    offer = Offer(LABELLED, recipe_with(RECIPES["auto"], None, None, 8), Budget(20.0, 1e-5))
    made = release_rows("train.csv", offer, "ledger.jsonl", "release.dpearl")
    save_release(made, "release.dpearl")
    save_synthesizer(fit(made, Settings(iterations=2, batch=20, generator_steps=1), threads=1), "model.dpearl")
    return dpearl


def test_the_public_report_is_written_for_everybody(model: Dpearl) -> None:
    code, out, err = model.run("report", "model.dpearl", "-o", "report.html", "--ledger", "ledger.jsonl")
    assert (code, out) == (0, ""), err
    assert err.startswith("Written to report.html. It is public")
    page = Path("report.html").read_text()
    assert "PRIVATE" not in page.split("</style>")[1]
    assert "1 of 1" in page
    assert stat.S_IMODE(Path("report.html").stat().st_mode) & 0o044
    model.works("report", "model.dpearl", "-o", "plain.html")
    assert "1 of 1" not in Path("plain.html").read_text()


def test_mistakes_with_a_public_report_are_told_in_one_line(model: Dpearl) -> None:
    Path("there.html").write_text("mine")
    release_rows("real.csv", Offer(PLAIN, recipe_with(RECIPES["auto"], None, None, 8), Budget(1.0, 1e-5)), "other.jsonl")
    for arguments, words in (
        (("release.dpearl", "-o", "r.html"), "is a release, not a model; `dpearl train release.dpearl"),
        (("nothing.dpearl", "-o", "r.html"), "nothing.dpearl: no such file"),
        (("real.csv", "-o", "r.html"), "real.csv: is not a dpearl file"),
        (("model.dpearl", "-o", "there.html"), "already exists"),
        (("model.dpearl", "-o", "r.pdf"), "r.pdf: this is written as .html"),
        (("model.dpearl", "-o", "r.html", "--ledger", "nothing"), "nothing"),
        (("model.dpearl", "-o", "r.html", "--ledger", "other.jsonl"), "has no charge for this release"),
    ):
        assert words in model.refuses("report", *arguments)


def test_a_page_that_cannot_be_finished_leaves_nothing(dpearl: Dpearl, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> Evaluation:
        raise KeyboardInterrupt

    monkeypatch.setattr(judges, "evaluate", stop)
    monkeypatch.setattr(sys, "argv", ["dpearl", *evaluating("--synth", "synth.csv")])
    assert cli._run() == 130
    assert not Path("out.json").exists()
