"""The PRIVATE report: what it says and shows, its marks, names that try to act, charts that draw."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import browser
from dpearl.coded import Coded
from dpearl.disclosure import NOTE, Hits
from dpearl.evaluate import PRIVATE, Evaluation, evaluate
from dpearl.letters import visible
from dpearl.report import private
from dpearl.report.private import private_report
from dpearl.report.words import Sentence, attacks, checks, figures, summary
from dpearl.schema import parse_schema
from dpearl.shadow import Membership
from dpearl.utility import BOOSTING, CEILING, FLOOR, Skill, Usefulness
from test_evaluate import ROWS, coded, judged, pictured, quick
from test_public_report import CLOSING, EVIL, RED, TURNED, Reader


@cache
def page() -> str:
    return private_report(judged())


@cache
def hostile() -> Evaluation:
    """Tables, columns and levels that try to be markup, formulas, terminal codes and text that runs backwards."""
    levels = [CLOSING, RED, "]]>", "$x_1$"]
    columns = {
        EVIL: {"kind": "category", "levels": levels},
        RED: {"kind": "number", "lower": 0, "upper": 1},
        TURNED: {"kind": "category", "levels": ["<b>", "&amp;"]},
    }
    schema = parse_schema({"columns": columns})

    def rows(seed: int) -> Coded:
        chance = np.random.default_rng(seed)
        cells = {EVIL: chance.choice(levels, 80), RED: chance.random(80), TURNED: chance.choice(["<b>", "&amp;"], 80)}
        return Coded.of(pa.table(cells), schema)

    with quick():
        return evaluate(rows(1), {EVIL: rows(2), "$x_1$": rows(3)}, target=TURNED)


def words(html: str) -> str:
    return " ".join(Reader(html).text.split())


def test_every_part_is_there_in_order() -> None:
    reader = Reader(page())
    headings = reader.within("h2")
    assert headings == [heading for anchor, heading in private._SECTIONS.items() if anchor != "pictures"]
    links = {attributes["href"] for attributes in reader.attributes("a")}
    assert links == {"#content", *(f"#{attributes['id']}" for attributes in reader.attributes("section"))}
    assert reader.within("h1") == ["Real against synthetic"]
    assert f"near ({ROWS} synthetic rows) and far ({ROWS} synthetic rows), compared with {ROWS} real rows." in words(page())


def test_charts_show_each_column_pairs_associations_and_curves() -> None:
    titles = Reader(page()).within("title")[1:]
    shown = "\n".join(titles)
    for name in ("age", "town", "rich"):
        assert f"{name}: shares of real and synthetic rows; in the wrong place: near" in shown
    pairs = [title for title in titles if "less those of real rows" in title]
    assert len(pairs) == 2 * 3
    assert next(title for title in titles if title.startswith("Associations")) == "Associations in real rows"
    curves = next(title for title in titles if title.startswith("ROC"))
    assert "trained on real rows, near, far, independent columns and tested on real rows" in curves
    assert len(titles) == 3 + 6 + 3 + 1 == page().count("<svg")


def test_pairs_come_worst_first() -> None:
    found = [score for table in judged().tables.values() if (score := table.score("marginals_2")) is not None]
    worst = sorted(((value, name) for score in found for name, value in score.worst), reverse=True)
    html = page()[page().index('<section id="pairs"') : page().index('<section id="associations"')]
    assert Reader(html).within("h3") == list(dict.fromkeys(name for _, name in worst))


def test_every_number_stands_beside_its_floor_or_ceiling() -> None:
    reader = Reader(page())
    assert reader.within("caption")[:1] == ["Distances between synthetic and real rows"]
    cells = reader.within("th")
    for name in ("fresh real rows", "near", "far", CEILING, FLOOR, "LR", "Decision Tree", BOOSTING, "average"):
        assert name in cells
    assert "The same from bare predictions, as the paper has it" in reader.within("summary")
    score = judged().tables["near"].score("marginals_1")
    assert score is not None
    assert f"{score.value:.4f} ± {score.spread:.4f}" in reader.within("td")
    assert f"{score.floor:.4f}" in reader.within("td")
    assert NOTE in words(page())


def test_it_is_marked_private_from_top_to_bottom_and_in_print() -> None:
    reader = Reader(page())
    assert {"class": "private"} in reader.attributes("body")
    assert reader.within("p")[0] == PRIVATE
    assert reader.within("p")[-1] == PRIVATE
    assert '@top-right { content: "PRIVATE"; }' in page()
    assert re.search(r'@media print \{.*\.private::before \{\s*content: "PRIVATE"; position: fixed;', page(), re.S)


def test_it_needs_nothing_and_runs_nothing() -> None:
    for html in (page(), private_report(pictured())):
        reader = Reader(html)
        assert not {"script", "iframe", "object", "embed", "form", "base"} & {tag for tag, _ in reader.tags}
        assert not [name for _, attributes in reader.tags for name in attributes if name.startswith("on")]
        addresses = [own[name] for _, own in reader.tags for name in ("src", "href") if name in own]
        assert all(address.startswith(("#", "data:")) for address in addresses)
        assert not re.search(r"https?://|@import|url\((?!#)", html)
        assert "default-src 'none'" in html


def test_it_is_the_same_every_time_and_holds_no_row() -> None:
    assert private_report(judged()) == page()
    assert "codes" not in page()


def test_no_name_acts_on_its_reader() -> None:
    html = private_report(hostile())
    reader = Reader(html)
    assert not {"script", "img", "b>"} & {tag for tag, _ in reader.tags}
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", html)
    assert reader.open == []
    for name in (EVIL, visible(RED), visible(TURNED)):
        assert name in reader.within("b")
    assert {EVIL, "$x_1$"} <= set(reader.within("h3"))
    drawn = reader.within("text")
    assert {"$x_1$", "]]>", "<b>", "&amp;"} <= set(drawn)
    assert f"{EVIL} × {visible(RED)}" in reader.within("h3")
    assert visible(TURNED) in words(html)


def test_pictures_are_shown_in_lines_of_a_class() -> None:
    html = private_report(pictured())
    reader = Reader(html)
    pictures = reader.attributes("img")
    assert [own["alt"] for own in pictures] == ["Pictures of real rows", "Pictures of blurred", "Pictures of noise"]
    assert {(own["width"], own["height"]) for own in pictures} == {("360", "360")}  # ten digits of 8 + 1 pixels, four times
    assert all(own["src"].startswith("data:image/png;base64,") for own in pictures)
    assert "Pictures" in reader.within("h2")
    assert "Distances in the features of a LeNet, and what nets make of labels" in reader.within("caption")
    assert "fresh real pictures" in reader.within("th")


def test_lines_of_pictures_hold_their_class_alone() -> None:
    rows = pictured().real
    grid = private._grid(rows, "face").reshape(10, 9, 10, 9)[:, 1:, :, 1:]
    for digit in range(10):
        first = rows.codes["face"][np.flatnonzero(rows.codes["digit"] == digit)[:10], :-1]
        assert np.array_equal(grid[digit].swapaxes(0, 1).reshape(-1, 64)[: len(first)], first)


def test_without_labels_pictures_come_as_they_are() -> None:
    rows = pictured().real
    bare = parse_schema({"columns": {"face": rows.schema.columns["face"].model_dump()}})
    few = Coded(type(rows.codec)(bare), {"face": rows.codes["face"][:23]})
    assert private._grid(few, "face").shape == (5 * 9, 10 * 9)


def test_many_tables_and_columns_are_drawn_in_part_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "COLUMNS", 2)
    monkeypatch.setattr(private, "DRAWN", 1)
    html = private_report(judged())
    assert "Charts show the first 1 of 2 tables. Of 3 columns, the 2 that differ most are drawn." in words(html)
    assert html.count("<svg") == 2 + 3 + 2 + 1
    assert "<h3>far</h3>" in html
    wrong = {name: private._apart(judged().real.shares(name), coded(2).shares(name)) for name in judged().real.names}
    drawn = {title.split(":")[0] for title in Reader(html).within("title") if "in the wrong place" in title}
    assert drawn == set(sorted(wrong, key=lambda name: -wrong[name])[:2])


def test_heat_maps_show_where_rows_are_too_many_and_too_few() -> None:
    schema = parse_schema({"columns": {name: {"kind": "category", "levels": ["x", "y", "z"]} for name in "ab"}})

    def rows(*cells: str) -> Coded:
        return Coded.of(pa.table({name: [cell[place] for cell in cells] for place, name in enumerate("ab")}), schema)

    real, made = rows("xx", "xx", "yy", "yx"), rows("xx", "xy", "xy", "yx")
    (chart,) = private._pair_charts({CEILING: real, "made": made}, ("a", "b"))
    drawn = Reader(chart.svg).within("text")
    assert [text for text in drawn if text[-1].isdigit()] == ["-.25", ".50", "-.25"]
    assert {"x", "y"} <= set(drawn)
    assert not {"z", "other", "missing"} & set(drawn)
    assert chart.caption == "less real rows: 50.0% of the rows are in the wrong place"


def with_score(name: str, value: float, floor: float | None = 0.02, *worst: tuple[str, float]) -> Evaluation:
    """The evaluation with another value of one measure of `near`."""
    near = judged().tables["near"]
    scores = tuple(
        replace(own, value=value, floor=floor, worst=worst or (("a", value), ("b", 0.0))) if own.name == name else own
        for own in near.scores
    )
    return replace(judged(), tables={"near": replace(near, scores=scores)})


def said(evaluation: Evaluation, start: str) -> list[Sentence]:
    return [sentence for sentence in summary(evaluation, "near") if start in sentence.verdict]


@pytest.mark.parametrize(
    ("value", "floor", "worst", "verdict", "good"),
    [
        (0.0, 0.02, 0.0, "Good for cross tables of two columns", True),
        (0.03, 0.0, 0.1, "Good for cross tables of two columns", True),
        (0.029, 0.02, 0.3, "Good for most cross tables of two columns", True),
        (0.09, 0.08, 0.2, "Good for cross tables of two columns", True),
        (0.05, 0.02, 0.1, "A rough picture of cross tables of two columns", None),
        (0.11, 0.02, 0.2, "Not good for cross tables of two columns", False),
        (0.2, 0.18, 0.3, "Too few real rows to judge cross tables of two columns", None),
        (0.4, 0.18, 0.5, "Not good for cross tables of two columns", False),
    ],
)
def test_counts_are_good_where_they_are_near(value: float, floor: float, worst: float, verdict: str, good: bool | None) -> None:
    (found,) = said(with_score("marginals_2", value, floor, ("x × y", worst), ("y × z", 0.0)), "cross tables of two")
    assert (found.verdict, found.good) == (verdict, good)
    assert "x × y" in found.reason
    assert "of fresh real rows" in found.reason


def test_what_is_told_apart_or_invalid_is_a_limit() -> None:
    assert said(with_score("c2st", 0.74), "Easily told") == []
    (found,) = said(with_score("c2st", 0.76), "Easily told")
    assert (found.good, "76 times in 100" in found.reason) == (False, True)
    assert said(with_score("invalid", 0.0), "valid") == []
    (found,) = said(with_score("invalid", 0.25, None), "valid")
    assert found.reason.startswith("25.0% of them")


def with_skills(made: float, ceiling: float, floor: float, task: str = "binary") -> Evaluation:
    key = "r2" if task == "regression" else "roc"
    places = {"near": made, CEILING: ceiling, FLOOR: floor}
    skills = {place: (Skill(BOOSTING, {key: value}, {key: 0.01}),) for place, value in places.items()}
    return replace(judged(), usefulness=Usefulness("rich", task, skills, {}, {}, ()))


@pytest.mark.parametrize(
    ("made", "ceiling", "task", "verdict", "good"),
    [
        (0.9, 0.9, "binary", "Good for training models of rich", True),
        (0.85, 0.9, "classes", "Good for training models of rich", True),
        (0.8, 0.9, "binary", "Enough for first trials of training models of rich", None),
        (0.6, 0.9, "binary", "Not good for training models of rich", False),
        (0.6, 0.51, "binary", "Real rows themselves hardly teach anything of rich", None),
        (0.4, 0.45, "regression", "Good for training models of rich", True),
        (-3.0, 0.45, "regression", "Not good for training models of rich", False),
    ],
)
def test_models_are_measured_between_guessing_and_real_rows(
    made: float, ceiling: float, task: str, verdict: str, good: bool | None
) -> None:
    (found,) = said(with_skills(made, ceiling, 0.5, task), " of rich")
    assert (found.verdict, found.good) == (verdict, good)
    assert all(f"{value:.3f}" in found.reason for value in (made, ceiling, 0.5))


def test_numbers_have_no_curve_and_no_bare_predictions() -> None:
    reader = Reader(private_report(with_skills(0.4, 0.45, 0.0, "regression")))
    assert "R² of each learner" in reader.within("caption")
    assert not [title for title in reader.within("title") if title.startswith("ROC")]
    assert not [told for told in reader.within("summary") if "bare predictions" in told]


def test_what_could_not_be_learnt_is_told_with_its_reason() -> None:
    found = Usefulness("rich", "binary", {}, {}, {}, ("rich has one class only in the test rows; usefulness cannot be measured",))
    evaluation = replace(judged(), usefulness=found)
    (sentence,) = said(evaluation, "cannot be told")
    assert sentence.reason == "Rich has one class only in the test rows; usefulness cannot be measured."
    assert sentence.reason in words(private_report(evaluation))


def alarmed() -> Evaluation:
    near = judged().tables["near"]
    copied = replace(near.copies, made=Hits(ROWS, ROWS, ROWS), fresh=Hits(ROWS, 0, 0))
    broken = Membership(judged=20, right=20, auc=1.0, low=0.83, high=1.0, bound=0.6)
    return replace(judged(), tables={"near": replace(near, copies=copied)}, membership=broken)


def test_alarms_come_first_and_silence_is_no_praise() -> None:
    first, second, *rest = summary(alarmed(), "near")
    assert first.verdict == "A sanity check must be looked at: exact copies"
    assert second.verdict == "A sanity check must be looked at: membership attack"
    assert "publish nothing" in second.reason
    assert not [sentence for sentence in rest if "sanity" in sentence.verdict]
    assert [check.good for check in (*checks(alarmed().tables["near"]), *attacks(alarmed()))] == [False, None, False]
    assert {check.good for check in checks(judged().tables["near"])} == {None}
    assert not [sentence for sentence in summary(judged(), "near") if "sanity" in sentence.verdict]
    html = private_report(alarmed())
    assert "The method itself, at small scale" in Reader(html).within("h3")
    assert "privacy score" not in html.lower()


def test_uses_come_before_limits() -> None:
    for name in judged().tables:
        goods = [sentence.good for sentence in summary(judged(), name)]
        assert goods == sorted(goods, key=(True, None, False).index)
        assert summary(judged(), name)[-1].verdict == "Not for single people or small groups"


def test_pictures_are_told_by_what_nets_make_of_them() -> None:
    told = {name: {sentence.verdict: sentence.good for sentence in summary(pictured(), name)} for name in ("blurred", "noise")}
    assert told["noise"]["Not good for pictures as examples of their label"] is False
    assert told["noise"]["Not good for training nets that see digit in pictures"] is False
    assert "Not good for pictures as examples of their label" not in told["blurred"]


def with_agreement(overall: float, learnt: float, ceiling: float) -> Evaluation:
    own = pictured().tables["blurred"]
    imagery: Any = own.imagery
    parts = {"agreement": overall, "accuracy": learnt, "ceiling": ceiling}
    changed = replace(imagery, **{key: replace(getattr(imagery, key), overall=value) for key, value in parts.items()})
    return replace(pictured(), tables={"near": replace(own, imagery=changed)})


@pytest.mark.parametrize(
    ("learnt", "ceiling", "good"), [(0.9, 1.0, True), (0.8, 1.0, None), (0.4, 1.0, False), (0.0, 0.0, False)]
)
def test_nets_are_measured_against_those_that_learnt_from_real_pictures(learnt: float, ceiling: float, good: bool | None) -> None:
    (found,) = said(with_agreement(0.5, learnt, ceiling), "training nets that see digit")
    assert found.good is good


def test_figures_are_few_and_beside_what_real_rows_have() -> None:
    told = {meaning: value for value, meaning in figures(with_score("marginals_1", 0.0125), "near")}
    assert told["of the rows are in the wrong place in an average column; of fresh real rows: 2.0%"] == "1.2%"
    assert len(told) == 4
    shown = [value for value, _ in figures(with_skills(0.8, 0.9, 0.5), "near")]
    assert "0.800" in shown
    assert figures(with_agreement(0.5, 0.25, 1.0), "near")[0][0] == "25.0%"


@pytest.mark.parametrize(
    ("value", "told"),
    [(None, "–"), (0.0, "0"), (-0.0, "0"), (-1e-6, "< 0.0001"), (0.05, "0.0500"), (-0.0007, "−0.0007"), (0.25, "0.250")],
)
def test_numbers_are_short(value: float | None, told: str) -> None:
    assert private._number(value) == told


def test_a_measure_that_one_table_lacks_is_a_dash() -> None:
    near, far = judged().tables.values()
    some = tuple(score for score in near.scores if score.name != "ks")
    shown = private._fidelity(replace(judged(), tables={"near": replace(near, scores=some), "far": far}))
    line: list[str] = next(row for row in shown["rows"] if row[0].startswith("Numbers (Kolm"))
    assert line[1] == "–"
    assert line[2] != "–"


def test_it_opens_in_a_browser_that_asks_for_nothing_else(tmp_path: Path) -> None:
    pages = {"private": page(), "private-hostile": private_report(hostile()), "private-pictures": private_report(pictured())}
    with browser.browsing(tmp_path / "profile") as driver:
        for name, html in pages.items():
            path = tmp_path / f"{name}.html"
            path.write_text(html, encoding="utf-8")
            browser.visit(driver, path)
            assert browser.requests(driver) == [path.as_uri()]
            assert browser.complaints(driver) == []
            boxes = browser.chart_boxes(driver)
            assert len(boxes) == html.count("<svg")
            assert all(width > 60 and height > 30 for width, height in boxes)
            assert browser.overflow(driver) == 0
            images = driver.execute_script("return [...document.images].map(i => i.complete && i.naturalWidth > 0)")
            assert images == [True] * html.count("<img")
            for shot in browser.screenshots(driver, name, tmp_path):
                assert shot.stat().st_size > 10_000
