"""The public report: what it must say, what it must never do, error bars that keep their word, charts that draw."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from scipy.stats import binom, norm

import browser
from dpearl import chart as drawing
from dpearl.coded import Coded
from dpearl.design import RECIPES, Scale
from dpearl.distance import learnable_rows
from dpearl.embeddings.characteristic import UNIT
from dpearl.engines.local import Local
from dpearl.goodness import BlockFit, Fit, block_fits
from dpearl.letters import visible
from dpearl.owner import Offer, recipe_with, release_rows
from dpearl.plan import forecast
from dpearl.precision import Intervals, estimated_rows, measured_counts, measured_shares, noises
from dpearl.privacy import Budget, Relation
from dpearl.release import Release
from dpearl.report import public
from dpearl.report.public import MARK, public_report
from dpearl.schema import Schema, parse_schema
from dpearl.settings import Settings
from dpearl.statement import best_guess, privacy_statement
from dpearl.synthesizer import Synthesizer, save_synthesizer
from dpearl.train import fit

QUICK = Settings(iterations=3, batch=40, generator_steps=2)
VOID = {"meta", "link", "img", "br", "hr", "input"}
EVIL = '"><script>alert(1)</script>'
RED = "$x_1$ \x1b[31mred\x1b[0m"
TURNED = "\u202etxt.exe"
CLOSING = "</title></svg></style><img src=x onerror=alert(2)>"
CHARGE = {"Time": "2026-01-01T00:00:00+00:00", "Output": "people.dpearl", "Spent together": "epsilon 1.9 of 2"}

MIXED = {
    "age": {"kind": "number", "lower": 0, "upper": 100, "step": 1, "missing": True, "spikes": [50]},
    "size": {"kind": "number", "lower": 0.5, "upper": 2e6, "log": True},
    "town": {"kind": "category", "levels": [f"town {number}" for number in range(30)], "other": "elsewhere"},
    "when": {"kind": "datetime", "lower": "2020-01-01", "upper": "2021-01-01", "step": "1d"},
    "job": {"kind": "category", "levels": ["a", "b", "c"]},
    "rich": {"kind": "boolean"},
}


@pytest.fixture(scope="module", autouse=True)
def _one_thread_and_few_rows() -> Iterator[None]:
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(public, "ROWS", 2**12)
        patch.setattr(public, "PICTURES", 2**10)
        yield


def people(rows: int = 400) -> pa.Table:
    chance = np.random.default_rng(0)
    days = np.datetime64("2020-01-01T00:00:00", "s") + chance.integers(0, 360, rows) * np.timedelta64(86400, "s")
    return pa.table(
        {
            "age": pa.array(chance.integers(0, 100, rows), mask=chance.random(rows) < 0.1),
            "size": chance.random(rows) * 1000 + 1,
            "town": [f"town {number}" for number in chance.integers(0, 33, rows)],
            "when": days,
            "job": chance.choice(list("abc"), rows, p=[0.6, 0.3, 0.1]),
            "rich": chance.random(rows) < 0.3,
        }
    )


def released(table: pa.Table, schema: Schema, epsilon: float = 2.0, relation: Relation | None = None) -> Release:
    return release_rows(table, Offer(schema, recipe_with(RECIPES["auto"], relation, None, 16), Budget(epsilon, 1e-5)))


def trained(table: pa.Table, schema: Schema, epsilon: float = 2.0, relation: Relation | None = None) -> Synthesizer:
    return fit(released(table, schema, epsilon, relation), QUICK, device="cpu", threads=1)


@pytest.fixture(scope="module")
def model() -> Synthesizer:
    return trained(people(), parse_schema({"label": "job", "columns": MIXED}))


@pytest.fixture(scope="module")
def html(model: Synthesizer) -> str:
    return public_report(model, CHARGE)


@pytest.fixture(scope="module")
def hostile() -> Synthesizer:
    """Names and levels that try to be markup, formulas, terminal codes and text that runs backwards."""
    columns = {
        EVIL: {"kind": "category", "levels": [CLOSING, RED, "]]>", "日本", "🙂"]},
        RED: {"kind": "number", "lower": 0, "upper": 1},
        TURNED: {"kind": "category", "levels": ["<b>", "&amp;"]},
    }
    chance = np.random.default_rng(1)
    values = {
        EVIL: chance.choice([CLOSING, RED, "]]>", "日本", "🙂"], 200),
        RED: chance.random(200),
        TURNED: chance.choice(["<b>", "&amp;"], 200),
    }
    return trained(pa.table(values), parse_schema({"label": TURNED, "columns": columns}), 20.0)


def pictured(label: bool) -> Synthesizer:
    chance = np.random.default_rng(2)
    faces = pa.array([row.tobytes() for row in chance.integers(0, 256, (120, 16), np.uint8)], pa.binary(16))
    columns: dict[str, Any] = {"face": {"kind": "image", "height": 4, "width": 4}}
    if label:
        columns["digit"] = {"kind": "category", "levels": [0, 1, 2]}
    table = pa.table({"face": faces, "digit": chance.integers(0, 3, 120)})
    return trained(table, parse_schema({"columns": columns, **({"label": "digit"} if label else {})}), 20.0)


class Reader(HTMLParser):
    """A page as a browser's parser sees it: tags with attributes, their order, and the text in each."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    @property
    def text(self) -> str:
        return "".join(data for _, data in self.texts)

    def within(self, tag: str) -> list[str]:
        return [data for owner, data in self.texts if owner == tag]

    def attributes(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]


def test_it_says_what_it_must(model: Synthesizer, html: str) -> None:
    text, release = Reader(html).text, model.release
    assert text.count(MARK) == 2
    assert privacy_statement(release) in text
    for said in ("ε = 2", "δ = 10⁻⁵", str(release.unit), release.digest, release.plan, release.embedding.design.digest):
        assert said in text
    assert f"{100 * best_guess(release.mu):.1f}%" in text
    assert f"about {release.embedding.noisy_rows:,.0f}" in text
    for name in MIXED:
        assert name in Reader(html).within("th")
        assert name in Reader(html).within("b")
    assert "0.5 to 2,000,000, continuous, logarithmic" in text
    assert "0 to 100, step 1, with a mass of its own at 50" in text
    for name, value in model.training.items():
        assert f"Training: {name.replace('_', ' ')}" in text
        assert str(value) in text


def test_the_attackers_table_is_the_gaussian_trade_off(model: Synthesizer, html: str) -> None:
    for alarms in (0.001, 0.01, 0.1, 0.5):
        assert f"{100 * norm.cdf(norm.ppf(alarms) + model.release.mu):.3g}%" in Reader(html).within("td")


def test_the_ledgers_entry_stands_where_it_is_given(model: Synthesizer, html: str) -> None:
    assert all(name in Reader(html).within("dt") and value in Reader(html).within("dd") for name, value in CHARGE.items())
    without = public_report(model)
    assert "ledger" not in Reader(without).text.replace("ledger’s", "ledger").split("PRIVACY STATEMENT")[0]
    assert 'id="ledger"' not in without


def test_the_same_model_and_seed_give_the_same_report(model: Synthesizer, html: str) -> None:
    assert public_report(model, CHARGE) == html
    assert public_report(model, CHARGE, seed=1) != html


REFUSE_PRIVATE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[:2] in [["dpearl", room] for room in ("read", "embed", "noise", "ledger", "sanitize", "owner")]:
            raise ImportError(f"{name} is private")
sys.meta_path.insert(0, Refuse())
from dpearl.report import public
from dpearl.synthesizer import load_synthesizer
public.ROWS = 2**12
print(public.public_report(load_synthesizer(sys.argv[1])))
"""


def test_it_is_made_where_nothing_private_can_be_loaded(model: Synthesizer, tmp_path: Path) -> None:
    save_synthesizer(model, tmp_path / "model.dpearl")
    command = [sys.executable, "-c", REFUSE_PRIVATE, str(tmp_path / "model.dpearl")]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout == public_report(model) + "\n"


def test_nothing_in_it_asks_runs_or_refers(html: str) -> None:
    page = Reader(html)
    assert page.attributes("meta")[1]["content"] == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert not {name for name, _ in page.tags} & {"script", "iframe", "object", "embed", "form", "base", "foreignobject"}
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("src", "href", "xlink:href"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
        assert "url(" not in attributes.get("style", "").replace("url(#", "")
    assert "@import" not in html
    assert "http" not in re.sub("http-equiv", "", html)


def test_it_can_be_walked_by_keyboard_and_heard(html: str) -> None:
    page = Reader(html)
    tags = [name for name, _ in page.tags]
    anchors = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(anchors) == len(set(anchors))
    assert {attributes["href"][1:] for attributes in page.attributes("a")} <= set(anchors)
    assert page.attributes("html")[0]["lang"] == "en"
    assert page.attributes("a")[0] == {"class": "skip", "href": "#content"}
    assert [tags.count(name) for name in ("h1", "main", "nav", "header", "footer")] == [1] * 5
    assert [name for name in tags if name in ("h1", "h2")] == ["h1"] + ["h2"] * 8
    assert tags.count("title") == tags.count("svg") + 1
    assert all(attributes["role"] == "img" for attributes in page.attributes("svg"))
    assert tags.count("caption") == tags.count("table")
    assert all(attributes["scope"] in ("row", "col") for attributes in page.attributes("th"))


def _channel(value: int) -> float:
    return value / 255 / 12.92 if value <= 10 else ((value / 255 + 0.055) / 1.055) ** 2.4


def contrast(first: str, second: str) -> float:
    """WCAG's contrast of two colours, 1 to 21."""
    weights = (0.2126, 0.7152, 0.0722)
    lights = [
        sum(weight * _channel(int(colour[place : place + 2], 16)) for weight, place in zip(weights, (1, 3, 5), strict=True))
        for colour in (first, second)
    ]
    return (max(lights) + 0.05) / (min(lights) + 0.05)


def test_contrasts_suffice_by_day_by_night_and_in_print() -> None:
    style = (Path(drawing.__file__).parent / "report/page.css").read_text(encoding="utf-8")
    themes = [dict(re.findall(r"--([\w-]+): (#\w{6})", block)) for block in re.findall(r":root \{(.*?)\}", style, re.S)]
    assert len(themes) == 3
    for theme in themes:
        for behind in ("paper", "card"):
            assert min(contrast(theme[ink], theme[behind]) for ink in ("ink", "muted", "link")) >= 4.5
            assert min(contrast(theme[series], theme[behind]) for series in ("one", "two", "three", "four")) >= 3
        assert contrast(theme["mark"], theme["mark-ink"]) >= 4.5


def test_hostile_names_come_out_as_text(hostile: Synthesizer) -> None:
    page = Reader(public_report(hostile, {EVIL: CLOSING, RED: TURNED}))
    assert "script" not in {name for name, _ in page.tags}
    assert not [attributes for _, attributes in page.tags if any(name.startswith("on") for name in attributes)]
    assert all(attributes["src"].startswith("data:") for attributes in page.attributes("img"))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page.text)
    for name in (EVIL, visible(RED), visible(TURNED)):
        assert name in page.within("th")
        assert name in page.within("b")
    assert CLOSING in page.within("dd")
    assert {"<b>", "&amp;"} <= set(page.within("text"))


def test_hostile_names_in_charts_are_drawn_letter_by_letter() -> None:
    names = [EVIL, CLOSING, RED, TURNED, "]]>", "日本", "🙂", "a\nb", "\ufffe", "$", "$a$ #010203"]
    page = Reader(drawing.bars(CLOSING, names, {EVIL: np.ones(len(names))}))
    assert {name for name, _ in page.tags} <= {"svg", "title", "g", "path", "text", "defs", "clippath", "rect", "use"}
    assert page.within("title") == [CLOSING]
    drawn = [text for text in page.within("text") if not text.endswith("%")]
    told = [
        EVIL[:21] + "…",
        CLOSING[:21] + "…",
        "$x_1$ �[31mred�[0m",
        "�txt.exe",
        "]]>",
        "日本",
        "🙂",
        "a b",
        "�",
        "$",
        "$a$ #010203",
    ]
    assert drawn == told


@pytest.mark.parametrize("label", [True, False])
def test_pictures_are_shown_in_lines(label: bool) -> None:
    page = Reader(public_report(pictured(label)))
    pictures = page.attributes("img")
    assert len(pictures) == (3 if label else 5) + 10
    assert all(shown["src"].startswith("data:image/png;base64,") and shown["alt"] for shown in pictures)
    assert pictures[0]["width"] == str(10 * 4 * 10)
    assert pictures[0]["height"] == "40"
    assert ("Synthetic pictures, 2" in [shown["alt"] for shown in pictures]) == label


def test_without_a_label_nothing_is_said_of_classes() -> None:
    text = Reader(public_report(trained(people(), parse_schema({"columns": MIXED})))).text
    assert "This release does not measure single columns" in text
    assert "Rows of each class" not in text


def test_a_regression_label_is_a_column_like_others() -> None:
    text = Reader(public_report(trained(people(), parse_schema({"label": "age", "columns": MIXED})))).text
    assert "This release does not measure single columns" in text
    assert "number, the label" in text


@pytest.mark.parametrize("rows", [1, 3])
def test_a_tiny_release_is_lost_in_noise_and_says_so(rows: int) -> None:
    schema = parse_schema({"label": "job", "columns": MIXED})
    page = Reader(public_report(trained(people(rows), schema, 0.1, Relation.REPLACE_ONE)))
    assert "lost in noise" in page.within("td")
    assert "rows, public under this relation" in page.text
    assert "which of two records the person has" in " ".join(page.text.split())


LABELLED = parse_schema(
    {
        "label": "kind",
        "columns": {
            "kind": {"kind": "category", "levels": ["x", "y", "z"]},
            "size": {"kind": "number", "lower": 0, "upper": 1},
        },
    }
)
COUNTS = np.array([150, 40, 10])


def _releases(relation: Relation, epsilon: float, trials: int) -> list[Release]:
    """Many releases of one table whose label's counts are COUNTS, with none in other and missing."""
    kinds = np.repeat(["x", "y", "z"], COUNTS)
    table = pa.table({"kind": kinds, "size": np.linspace(0, 1, len(kinds))})
    offer = Offer(LABELLED, recipe_with(RECIPES["auto"], relation, Scale.PUBLIC, 1), Budget(epsilon, 1e-5))
    return [release_rows(table, offer, engine=Local(threads=1)) for _ in range(trials)]


def _hits(found: list[Intervals], truth: np.ndarray[Any, Any], narrow: float = 1.0) -> list[int]:
    """How many intervals hold the truth, for each bin, their half-widths multiplied by `narrow`."""
    lower = np.array([own.values - narrow * own.errors[0] for own in found])
    upper = np.array([own.values + narrow * own.errors[1] for own in found])
    return [int(hits) for hits in ((lower <= truth) & (truth <= upper)).sum(axis=0)]


@pytest.mark.parametrize("relation", Relation)
def test_intervals_hold_the_truth_in_95_of_100_releases(relation: Relation) -> None:
    found = _releases(relation, 2.0, 300)
    truth = np.array([*COUNTS, 0, 0])
    least, most = binom.ppf([1e-6, 1 - 1e-6], len(found), 0.95)
    measures: list[tuple[Callable[[Release, str], Intervals | None], np.ndarray[Any, Any]]] = [
        (measured_counts, truth),
        (measured_shares, truth / truth.sum()),
    ]
    for measure, true in measures:
        intervals = [own for release in found if (own := measure(release, "kind")) is not None]
        assert len(intervals) == len(found)
        assert all(least <= hits <= most for hits in _hits(intervals, true)), _hits(intervals, true)
        assert min(_hits(intervals, true, 0.7)) < least


def test_shares_keep_their_word_where_noise_is_as_large_as_the_count() -> None:
    """There the usual approximation of a ratio fails; Fieller's intervals stay honest, if wide."""
    shares = [
        own for release in _releases(Relation.ADD_REMOVE, 0.05, 150) if (own := measured_shares(release, "kind")) is not None
    ]
    assert min(_hits(shares, np.array([*COUNTS, 0, 0]) / COUNTS.sum())) >= binom.ppf(1e-6, len(shares), 0.95)
    assert all((own.lower >= 0).all() and (own.upper <= 1).all() and (own.errors >= 0).all() for own in shares)


def test_only_what_is_counted_has_intervals(model: Synthesizer) -> None:
    assert measured_shares(model.release, "job") is not None
    assert [measured_shares(model.release, name) for name in ("age", "town", "rich")] == [None] * 3
    unlabelled = released(people(), parse_schema({"columns": MIXED}))
    assert [measured_counts(unlabelled, name) for name in MIXED] == [None] * len(MIXED)


@pytest.mark.parametrize("relation", Relation)
def test_noise_is_told_as_it_was_planned(relation: Relation) -> None:
    schema = parse_schema({"label": "job", "columns": MIXED})
    offer = Offer(schema, recipe_with(RECIPES["auto"], relation, None, 16), Budget(2.0, 1e-5))
    release = release_rows(people(), offer)
    told, rows = noises(release), estimated_rows(release)
    assert (rows == 400) == (relation is Relation.REPLACE_ONE)
    planned = forecast(offer, 10**6).lines
    for own, line in zip(told, planned, strict=True):
        assert (own.stage, own.family, own.values) == (line.stage, line.family, line.values)
        assert own.relative == pytest.approx(line.noise * 10**6 / rows)
        assert own.share == pytest.approx(line.share, rel=1e-3)
        assert replace(own, relative=line.noise).verdict == line.verdict


def _copies(table: pa.Table, schema: Schema, times: int = 16) -> Coded:
    return Coded.join([Coded.of(table, schema)] * times)


def _characteristic(fits: list[BlockFit]) -> BlockFit:
    return next(own for own in fits if own.family == "characteristic")


@pytest.fixture(scope="module")
def exact() -> tuple[Release, pa.Table]:
    """A release whose number of rows is public, of many frequencies, with its table."""
    offer = Offer(LABELLED, recipe_with(RECIPES["auto"], Relation.REPLACE_ONE, None, 400), Budget(50.0, 1e-5))
    chance = np.random.default_rng(3)
    table = pa.table({"kind": chance.choice(["x", "y", "z"], 1600), "size": chance.random(1600)})
    return release_rows(table, offer), table


def test_the_truth_itself_fits_as_well_as_noise_lets_one_see(exact: tuple[Release, pa.Table]) -> None:
    release, table = exact
    fits = block_fits(release, _copies(table, LABELLED))
    found = _characteristic(fits)
    assert learnable_rows(release) == pytest.approx(1600, rel=0.01)
    assert found.whole.values == 3 * 400 * 2
    assert found.whole.chi2 == pytest.approx(1, abs=0.2)
    assert set(found.classes) == {"x", "y", "z"}
    assert np.mean([own.chi2 for own in found.classes.values()]) == pytest.approx(found.whole.chi2)
    counts = [own for own in fits if own.family == "count"]
    assert all(own.classes == {} and own.whole.values == 3 for own in counts)


def test_the_chance_of_synthetic_rows_is_taken_off(exact: tuple[Release, pa.Table]) -> None:
    """Few rows drawn from the truth: their own chance is many times the noise, and yet χ² is that of the truth."""
    release, table = exact
    chance, rows = np.random.default_rng(4), Coded.of(table, LABELLED)
    found = [_characteristic(block_fits(release, rows.take(chance.integers(0, 1600, 320)))).whole.chi2 for _ in range(30)]
    truth = _characteristic(block_fits(release, _copies(table, LABELLED))).whole.chi2
    assert np.mean(found) == pytest.approx(truth, abs=4 * float(np.std(found)) / math.sqrt(30) + 0.05)


def test_a_wrong_generator_is_off_by_what_it_is_off_by(exact: tuple[Release, pa.Table]) -> None:
    release, table = exact
    wrong = table.set_column(1, "size", pa.array(np.full(1600, 0.5)))
    block = release.embedding.design.block("characteristic")
    codec = release.embedding.design.codec
    sums = [block.sum(codec.rows(codec.encode(rows)))[:3] / (UNIT * 1600) for rows in (table, wrong)]
    found = _characteristic(block_fits(release, _copies(wrong, LABELLED))).whole
    assert found.off == pytest.approx(float(np.sqrt(np.mean((sums[0] - sums[1]) ** 2))), rel=0.1)
    assert found.verdict == f"off by {math.sqrt(found.chi2 - 1):.1f} times the noise"


def test_verdicts_of_fit_allow_for_chance() -> None:
    assert Fit(200, 1.19, 0.1).verdict == Fit(200, 0.81, 0.1).verdict == "as near as the noise lets one see"
    assert Fit(200, 0.79, 0.1).verdict.startswith("nearer than the truth")
    assert Fit(200, 5.0, 0.1).verdict == "off by 2.0 times the noise"
    assert Fit(200, 5.0, 0.1).off == pytest.approx(0.2)
    assert Fit(200, 0.5, 0.1).off == 0


def shares(*values: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array(values)


def test_many_levels_are_summed_and_sorted() -> None:
    names = [f"level {place}" for place in range(40)]
    drawn = Reader(drawing.bars("levels", names, {"rows": np.arange(40) / 780})).within("text")
    assert [text for text in drawn if text.startswith("level")] == [f"level {place}" for place in range(39, 25, -1)]
    assert "25 more" in drawn  # level 0 has no rows
    few = Reader(drawing.bars("levels", names[:15], {"rows": np.arange(1, 16) / 120})).within("text")
    assert len([text for text in few if text.startswith("level")]) == 15


def test_bins_keep_their_order_and_empty_levels_go() -> None:
    drawn = Reader(drawing.bars("t", ["0", "1", "2", "missing", "= 7"], {"rows": shares(0, 0.5, 0.4, 0, 0.1)}, along=3)).within(
        "text"
    )
    assert [text for text in drawn if not text.endswith("%")] == ["0", "1", "2", "= 7"]


def test_whiskers_are_drawn_where_errors_are_given() -> None:
    plain = drawing.bars("t", ["a", "b"], {"one": shares(0.4, 0.6), "two": shares(0.5, 0.5)})
    whiskers = drawing.bars("t", ["a", "b"], {"one": shares(0.4, 0.6), "two": shares(0.5, 0.5)}, {"two": shares(0.1, 0.1)})
    assert plain.count("LineCollection") == 0
    assert whiskers.count("LineCollection") == 2  # one in the legend
    uneven = drawing.bars("t", ["a"] * 20, {"one": np.ones(20), "two": np.ones(20)}, {"two": np.ones((2, 20)) / 10})
    assert "6 more" in Reader(uneven).within("text")


def test_charts_take_colours_and_letters_from_the_page_and_share_no_names() -> None:
    charts = [
        drawing.bars("one", ["a", "b"], {"rows": shares(0.4, 0.6)}),
        drawing.bars("two", ["a", "b"], {"rows": shares(0.4, 0.6)}),
        drawing.curve("three", {"roc": ([0, 0.2, 1], [0, 0.8, 1])}, ("x", "y")),
        drawing.matrix("four", np.array([[0.5, -0.25], [np.nan, 0.0]]), ["a", "b"], ["c", "d"]),
    ]
    for chart in charts:
        assert not {name for name, _ in Reader(chart).tags} & {"style", "metadata"}
        assert "#0102" not in chart
        assert "DejaVu" not in chart
        assert "var(--ink)" in chart or "var(--one)" in chart
        assert set(re.findall(r"#([\w-]+)\)", chart)) <= set(re.findall(r'id="([^"]+)"', chart))
    names = [name for chart in charts for name in re.findall(r'id="([^"]+)"', chart)]
    assert len(names) == len(set(names))
    assert {".50", "-.25", ".00"} == set(Reader(charts[3]).within("text")) - {"a", "b", "c", "d"}
    assert drawing.matrix("", np.full((1, 1), np.nan), ["a"], ["b"])


def test_it_opens_in_a_browser_that_asks_for_nothing_else(html: str, hostile: Synthesizer, tmp_path: Path) -> None:
    pages = {"public": html, "hostile": public_report(hostile), "pictures": public_report(pictured(True))}
    with browser.browsing(tmp_path / "profile") as driver:
        for name, page in pages.items():
            path = tmp_path / f"{name}.html"
            path.write_text(page, encoding="utf-8")
            browser.visit(driver, path)
            assert browser.requests(driver) == [path.as_uri()]
            assert browser.complaints(driver) == []
            boxes = browser.chart_boxes(driver)
            assert len(boxes) == page.count("<svg")
            assert all(width > 100 and height > 30 for width, height in boxes)
            assert browser.overflow(driver) == 0
            for shot in browser.screenshots(driver, name, tmp_path):
                assert shot.stat().st_size > 10_000
