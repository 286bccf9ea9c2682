"""Figures show what they say: values, error bars and names are read back from what was drawn."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from scipy.stats import chi2, norm

import dpearl
from dpearl import Budget, Moment, Offer, Release, Synthesizer, parse_schema, plot
from dpearl.coded import Coded
from dpearl.design import RECIPES
from dpearl.errors import UsageError
from dpearl.generator import Generator
from dpearl.owner import recipe_with
from dpearl.precision import Z, bins_of, measured_counts, measured_shares
from dpearl.settings import MixtureSettings

ODD = "$5 <b>"
SCHEMA = parse_schema(
    {
        "label": "b",
        "columns": {
            "age": {"kind": "number", "lower": 0, "upper": 99, "step": 1},
            "few": {"kind": "number", "lower": 0, "upper": 29, "step": 1},
            "gain": {"kind": "number", "lower": 0, "upper": 1, "missing": True, "spikes": [0]},
            ODD: {"kind": "category", "levels": ["x", "y", "$z_1$"]},
            "b": {"kind": "category", "levels": ["red", "blue"]},
        },
    }
)
ROWS = 400


def people() -> pa.Table:
    chance = np.random.default_rng(0)
    gain = np.where(chance.random(ROWS) < 0.3, 0, chance.random(ROWS))
    columns = {
        "age": chance.integers(0, 50, ROWS),
        "few": chance.integers(0, 30, ROWS),
        "gain": pa.array(gain, mask=chance.random(ROWS) < 0.2),
        ODD: chance.choice(["x", "y"], ROWS),
        "b": chance.choice(["red", "blue"], ROWS, p=[0.8, 0.2]),
    }
    return pa.table(columns)


@pytest.fixture(scope="module")
def release() -> Release:
    return dpearl.release_rows(people(), Offer(SCHEMA, RECIPES["auto"], Budget(2.0, 1e-5)))


@pytest.fixture(scope="module")
def model(release: Release) -> Synthesizer:
    torch.set_num_threads(1)
    return dpearl.fit(release, MixtureSettings(iterations=3, components=10), device="cpu")


def places(figure: Any) -> list[Any]:
    return list(figure.axes)


def titled(figure: Any) -> dict[str, Any]:
    return {place.get_title(loc="left"): place for place in figure.axes if place.get_title(loc="left")}


def heights(place: Any) -> list[float]:
    bars = [bar for bar in place.patches if bar.get_width() and bar.get_height()]
    along = place.get_yticklabels() and not any(text.get_text().endswith("%") for text in place.get_yticklabels())
    return [bar.get_width() if along else bar.get_height() for bar in bars]


def whiskers(place: Any) -> np.ndarray[Any, Any]:
    """Both ends of every error bar, along the axis of shares."""
    (caps,) = place.containers[-1].lines[2]
    segments = np.array(caps.get_segments())
    across = np.ptp(segments[:, :, 0], axis=1).sum() > np.ptp(segments[:, :, 1], axis=1).sum()
    return segments[:, :, 0 if across else 1]


def test_single_columns_are_counted_with_the_noise_that_is_stated(release: Release) -> None:
    """Over σ, counts less the truth are standard normal: their χ² leaves its bounds in one of 10^7 runs."""
    rows, squares = Coded.of(people(), SCHEMA), []
    for name in SCHEMA.columns:
        counts = measured_counts(release, name)
        assert counts is not None
        truth = ROWS * rows.shares(name, bins_of(release, name))
        squares += list(((counts.values - truth) / ((counts.upper - counts.values) / Z)) ** 2)
    assert len(squares) > 70
    assert chi2.ppf(5e-8, len(squares)) < sum(squares) < chi2.isf(5e-8, len(squares))
    assert bins_of(release, "few") == 30, "a short line is counted point by point"


def test_histograms_show_rows_as_bars_and_the_release_with_its_intervals(model: Synthesizer) -> None:
    drawn = titled(plot.histograms(model, title="t"))
    assert list(drawn) == list(SCHEMA.columns)
    made = Coded.join([Coded(model.codec, codes) for codes in model.codes(plot.ROWS)])
    for name in ("age", "few", "b"):
        measured = measured_shares(model.release, name)
        assert measured is not None
        shares = made.shares(name, bins_of(model.release, name))
        assert sorted(heights(drawn[name])) == pytest.approx(sorted(shares[shares > 0]))
        ends = whiskers(drawn[name])
        beside = 2 + np.flatnonzero(measured.lower[2:] > 0)  # of levels that no row has, by the noise's chance
        order = [*np.argsort(-shares[:2], kind="stable"), *beside] if name == "b" else np.arange(len(ends))
        assert ends[:, 0] == pytest.approx(measured.lower[order])
        assert ends[:, 1] == pytest.approx(measured.upper[order])


def test_tables_of_every_kind_stand_beside_a_release_or_a_schema(release: Release) -> None:
    table = people()
    frames = {"arrow": table, "pandas": table.to_pandas(), "no rows": table.slice(0, 0)}
    chart = plot.histograms(SCHEMA, frames, columns=["age"])
    (place,) = places(chart)
    shares = Coded.of(table, SCHEMA).shares("age")
    assert heights(place) == pytest.approx([*shares[shares > 0]] * 2)
    assert [text.get_text() for text in chart.legends[0].texts] == list(frames)
    assert len(titled(plot.histograms(release))) == len(SCHEMA.columns)


def test_what_cannot_be_shown_is_told() -> None:
    frequencies = recipe_with(RECIPES["auto"], None, None, 4)
    seen = dpearl.release_rows(people(), Offer(SCHEMA, frequencies, Budget(2.0, 1e-5)))
    assert list(titled(plot.histograms(seen))) == ["b"], "frequencies count the label alone"
    with pytest.raises(UsageError, match="not counted by a release"):
        plot.histograms(seen, columns=["age"])
    with pytest.raises(UsageError, match="no column 'agee' to show; did you mean 'age'"):
        plot.histograms(seen, columns=["agee"])
    with pytest.raises(UsageError, match="not a table"):
        plot.histograms(SCHEMA, {"one": 3})
    with pytest.raises(UsageError, match="a pair map shows rows"):
        plot.pairs(seen, "age", "b")
    with pytest.raises(UsageError, match="no pictures"):
        plot.pictures(seen)
    with pytest.raises(UsageError, match="nothing was trained"):
        plot.training([])


def test_a_pair_map_shows_the_share_of_every_cell_and_the_difference_of_two() -> None:
    real, other = people(), people().slice(0, 100)
    figure = plot.pairs(SCHEMA, ODD, "b", {"one": real, "two": other})
    one, two, change = (titled(figure)[name].collections[0].get_array() for name in ("one", "two", "one less two"))
    for table, cells in ((real, one), (other, two)):
        frame = table.to_pandas()
        truth = pd.crosstab(frame[ODD], frame["b"], normalize="all").reindex(index=["x", "y", "$z_1$"], columns=["red", "blue"])
        assert np.allclose(cells, truth.fillna(0).to_numpy())
    assert np.allclose(change, one - two)
    place = titled(figure)["one"]
    assert [text.get_text() for text in place.get_xticklabels()] == ["red", "blue"]
    assert [text.get_text() for text in place.get_yticklabels()] == ["x", "y", "$z_1$"]


def test_pictures_stand_in_a_line_for_each_class() -> None:
    columns = {"p": {"kind": "image", "height": 3, "width": 4}, "c": {"kind": "category", "levels": ["a", "b"]}}
    schema = parse_schema({"label": "c", "columns": columns})
    pixels = np.random.default_rng(0).integers(0, 256, (5, 3, 4), np.uint8)
    rows = {"p": pixels, "c": np.array(["a", "b", "b", "a", "b"])}
    seen = dpearl.release_rows(rows, Offer(schema, RECIPES["paper"], Budget(2.0, 1e-5)))
    model = Synthesizer(seen, Generator(seen.embedding.design.codec, 2).eval(), {})
    table = pa.table({"p": [one.tobytes() for one in pixels], "c": rows["c"]})
    (place,) = places(plot.pictures(schema, {"five": table}, across=2))
    shown = place.images[0].get_array()
    assert [text.get_text() for text in place.get_yticklabels()] == ["a", "b"]
    for line, column, which in ((0, 0, 0), (0, 1, 3), (1, 0, 1), (1, 1, 2)):
        assert np.array_equal(shown[4 * line : 4 * line + 3, 5 * column : 5 * column + 4], pixels[which])
    assert len(places(plot.pictures(model))) == 1


def test_training_is_shown_beside_its_noise_floor_and_the_critic_below() -> None:
    told = [Moment(step, 150, 10.0 / step, 0.05, 80.0 - step) for step in (50, 100, 150)]
    above, below = places(plot.training(told))
    loss, floor = above.lines
    assert loss.get_xydata() == pytest.approx(np.array([(moment.step, moment.loss) for moment in told]))
    assert floor.get_ydata() == pytest.approx([0.05] * 3)
    assert below.lines[0].get_ydata() == pytest.approx([30, -20, -70])
    plain = [Moment(50, 50, 1.5, 1.0, None)]
    (place,) = places(plot.training({"one": plain, "two": plain}))
    assert [text.get_text() for text in place.get_legend().texts] == ["one", "one, noise floor", "two", "two, noise floor"]


def test_the_trade_off_is_that_of_a_gaussian_mechanism(release: Release) -> None:
    (place,) = places(plot.tradeoff({"small": Budget(0.5, 1e-5), "release": release}))
    _, small, large = place.lines
    for line, mu in ((small, Budget(0.5, 1e-5).mu), (large, release.mu)):
        alarms, hits = line.get_xydata()[1:-1].T
        assert hits == pytest.approx(norm.cdf(norm.ppf(alarms) + mu))
    assert (large.get_ydata()[1:-1] > small.get_ydata()[1:-1]).all()
    (alone,) = places(plot.tradeoff(release))
    assert "epsilon 2, delta 1e-05" in [text.get_text() for text in alone.get_legend().texts]


def test_names_are_never_formulas_even_when_a_figure_is_written_later(release: Release, tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    figure = plot.histograms(release, {"$\\frac$": people()}, title="$x_")
    assert dict(mpl.rcParams) == before, "the user's own style stays"
    for form in ("png", "svg", "pdf"):
        plot.save(figure, tmp_path / f"f.{form}")
    assert "$z_1$" in (tmp_path / "f.svg").read_text() or "DejaVuSans" in (tmp_path / "f.svg").read_text()
    assert figure._repr_png_().startswith(b"\x89PNG")
    figure.savefig(io.BytesIO())
    with pytest.raises(UsageError, match=r"written as .png, .svg or .pdf"):
        plot.save(figure, tmp_path / "f.gif")
    with pytest.raises(UsageError, match="already exists"):
        plot.save(figure, tmp_path / "f.png")
